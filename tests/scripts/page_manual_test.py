"""The manual pages mpi_quant(7) and mpiq(1): they say what docs/policy.md and the help of the commands say, and man reads them without a warning.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/page_manual_test.py
"""
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import unittest
import unittest.mock

from scripts_common import ROOT, InTemporaryFolder

from mpi_quant import __main__ as mpiq

MAKER, COMMANDS_MAKER = (os.path.join(ROOT, "cmake", f"{name}_manual.py") for name in ("page", "commands"))


def warnings_of(page):
    """The exit code of man, and what it complains of."""
    done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def help_of(command):
    """What `mpiq COMMAND --help` prints."""
    out = io.StringIO()
    with unittest.mock.patch.dict(os.environ, COLUMNS="98"), contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        mpiq.main([command, "--help"])
    return out.getvalue()


class Page(InTemporaryFolder):
    def page(self, source):
        out = self.path("out.7")
        subprocess.run([sys.executable, MAKER, source, "mpi_quant", "7", "1.2.3", "policies, environment", out], check=True)
        with open(out, encoding="utf-8") as file:
            return file.read()

    def made_of(self, text):
        with open(self.path("in.md"), "w", encoding="utf-8") as file:
            file.write(text)
        return self.page(self.path("in.md"))

    def test_the_policy_page_has_every_variable_key_and_heading(self):
        source = os.path.join(ROOT, "docs", "policy.md")
        with open(source, encoding="utf-8") as file:
            text = file.read()
        plain = re.sub(r"\\f.|\\&", "", self.page(source)).replace("\\-", "-").replace("\\e", "\\")
        names = set(re.findall(r"^\| `((?:MPIQ_|mpiq_)\w+)`", text, re.M))
        self.assertGreater(len(names), 20)
        self.assertEqual({name for name in names if f".TP\n{name}" not in plain}, set())
        for heading in re.findall(r"^## (.*)$", text, re.M):
            self.assertIn(f'.SH "{heading.upper()}"', plain)
        for line in re.search(r"^```text\n(.*?)^```$", text, re.S | re.M)[1].splitlines():
            self.assertIn(line, plain)

    def test_troff_takes_no_text_for_a_command(self):
        text = self.made_of("# P\n\n.TH is text, 'so is this.\n\n'it\n\n```sh\n.hidden -x a\\b\n```\n\n| a | b |\n|---|---|\n| `x\\|y` | **c** [d](e.md) |\n- one\n")
        self.assertEqual([line for line in text.splitlines()[4:] if line.startswith("'")], [])
        self.assertIn("\\&.TH is text", text)
        self.assertIn("\\&.hidden \\-x a\\eb", text)
        self.assertIn(".TP\n\\fBx|y\\fR\n\\fBc\\fR d.", text)
        self.assertNotIn("\\fBa", text, "a table's head is left out")

    @unittest.skipUnless(shutil.which("man"), "no man")
    def test_man_reads_it_without_a_warning(self):
        self.page(os.path.join(ROOT, "docs", "policy.md"))
        self.assertEqual(warnings_of(self.path("out.7")), (0, ""))


class Commands(InTemporaryFolder):
    def test_the_page_of_mpiq_has_every_command_with_every_option(self):
        subprocess.run([sys.executable, COMMANDS_MAKER, "1.2.3", self.path("man")], check=True)
        with open(self.path("man", "mpiq.1"), encoding="utf-8") as file:
            plain = re.sub(r"\\f.|\\&", "", file.read()).replace("\\-", "-").replace("\\e", "\\")
        sections = dict(re.findall(r'^\.SH "MPIQ (\w+)"\n(.*?)(?=^\.SH )', plain, re.M | re.S))
        self.assertEqual({name.lower() for name in sections}, {*mpiq.COMMANDS, "completion"})
        for name, text in sections.items():
            help_text = help_of(name.lower())
            for option in re.findall(r"^  (-.*?)(?:  .*)?$", help_text, re.M):
                self.assertIn(f".TP\n{option}\n", text, name)
            words = re.sub(r"\s+", " ", re.sub(r"^\.\w+.*$", "", text, flags=re.M))
            for paragraph in help_text.split("\n\n")[1:2]:
                self.assertIn(re.sub(r"\s+", " ", paragraph.strip()), words, name)
        if shutil.which("man"):
            self.assertEqual(warnings_of(self.path("man", "mpiq.1")), (0, ""))

    def test_the_help_of_each_command_has_an_example_with_options_that_it_knows(self):
        for name in mpiq.COMMANDS:
            help_text = help_of(name)
            example = re.search(rf"^  mpiq {name} (.*)$", help_text, re.M)
            self.assertTrue(example, help_text)
            self.assertEqual([word for word in example[1].split() if word.startswith("-") and f" {word} " not in help_text.replace(example[0], "")], [], name)

    def test_a_command_has_a_page_where_no_program_has_it(self):
        subprocess.run([sys.executable, COMMANDS_MAKER, "1.2.3", self.path("man")], check=True)
        pages = {page.removesuffix(".1") for page in os.listdir(self.path("man"))}
        self.assertEqual(pages, {"mpiq", *(f"mpiq-{name}" for name in {*mpiq.COMMANDS, "completion"} - {"simulate", "quality"})})


if __name__ == "__main__":
    unittest.main()
