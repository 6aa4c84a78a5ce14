"""mpiq completion: what the shells complete is what the parsers of the commands take."""
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from importlib.util import find_spec

from mpi_quant.__main__ import COMMANDS, main

MISSING = [name for name in ("h5py", "matplotlib") if not find_spec(name)]


def mpiq(*words, **environment):
    done = subprocess.run([sys.executable, "-m", "mpi_quant", *words], capture_output=True, text=True, check=False, env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stderr


def here(*words):
    """Standard output of mpiq in this process, which has imported what its commands need."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main(list(words))
    return out.getvalue()


def options_of(command):
    """The options that --help lists."""
    return set(re.findall(r"(?m)^  (-\w|--[\w-]+)|^  -\w(?: \S+)?, (--[\w-]+)", here(command, "--help").split("options:")[1]))


class Usage(unittest.TestCase):
    def test_exit_codes(self):
        code, out, error = mpiq("completion", "--help")
        self.assertEqual((code, error), (0, ""))
        self.assertRegex(out, r"^usage: mpiq completion bash\|fish\|zsh\n")
        for words, why in (((), "which shell?"), (("tcsh",), "no shell 'tcsh'"), (("bash", "zsh"), "no shell 'bash zsh'")):
            code, out, error = mpiq("completion", *words)
            self.assertEqual((code, out, error.splitlines()[0]), (2, "", f"mpiq completion: {why}"))


@unittest.skipIf(MISSING, f"no {', '.join(MISSING)}")
class Shells(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        code, out, error = mpiq("completion", "bash")
        assert (code, error) == (0, ""), error
        for shell, script in (("bash", out), ("fish", here("completion", "fish")), ("zsh", here("completion", "zsh"))):
            with open(f"{cls.folder.name}/{shell}", "w", encoding="utf-8") as file:
                file.write(script)

    def script(self, shell):
        with open(f"{self.folder.name}/{shell}", encoding="utf-8") as file:
            return file.read()

    def bash(self, *words):
        """What bash completes after mpiq and these words, of which the last one has begun."""
        code = f'source {self.folder.name}/bash; COMP_WORDS=(mpiq "$@"); COMP_CWORD=$#; _mpiq; printf "%s\\n" "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-euc", code, "bash", *words], capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return set(done.stdout.split())

    def test_bash(self):
        self.assertEqual(self.bash(""), {*COMMANDS, "completion", "--help", "--version"})
        self.assertEqual(self.bash("co"), {"collect", "compare", "completion"})
        self.assertEqual(self.bash("completion", ""), {"bash", "fish", "zsh"})
        self.assertEqual(self.bash("export", "--format", ""), {"csv", "json"})
        self.assertEqual(self.bash("export", "--format", "j"), {"json"})
        self.assertEqual(self.bash("plot", "--ba"), {"--baseline"})
        self.assertEqual(self.bash("plot", "-o", "x"), set())  # then bash takes names of files
        self.assertEqual(self.bash("plot", "x"), set())

    def test_every_option_of_every_command(self):
        for command in COMMANDS:
            known = self.bash(command, "-")
            listed = {flag for pair in options_of(command) for flag in pair if flag}
            self.assertGreaterEqual(len(listed), 2)  # --help and --version
            self.assertEqual((command, listed - known), (command, set()))
            for flag in known:
                self.assertRegex(self.script("zsh"), rf"(?m)^    {command}\) .*\*{flag}\[")
                name = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                self.assertRegex(self.script("fish"), rf"(?m)from {command}'.* {name}( |$)")

    def test_the_shells_can_read_them(self):
        for shell in ("bash", "fish", "zsh"):
            if shutil.which(shell):
                done = subprocess.run([shell, "-n", f"{self.folder.name}/{shell}"], capture_output=True, text=True, check=False)
                self.assertEqual((shell, done.returncode, done.stderr), (shell, 0, ""))
            else:
                print(f"no {shell} here: it did not read its script")

    def test_a_command_that_cannot_start_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/h5py")
            with open(f"{folder}/h5py/__init__.py", "w", encoding="utf-8") as file:
                file.write("raise ImportError('broken here')\n")
            code, out, error = mpiq("completion", "bash", PYTHONPATH=f"{folder}:{os.environ['PYTHONPATH']}")
        self.assertEqual(code, 0)
        self.assertRegex(error, "mpiq completion: options of export are left out: .*broken here")
        self.assertIn("'export -'*) words='' ;;", out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
