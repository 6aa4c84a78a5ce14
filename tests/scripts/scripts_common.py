"""What the tests of scripts/ share: where the scripts are, how to call one, a folder that goes away."""
import contextlib
import glob
import importlib
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import traceback
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SCRIPTS = os.path.join(ROOT, "scripts")
SLURM = os.path.join(ROOT, "slurm")
PACKAGE = os.path.join(ROOT, "python")
sys.path[:0] = [SCRIPTS, PACKAGE]
sys.dont_write_bytecode = True  # leave no files in the tree


def committed(pattern):
    """Files of results/*/ that the repository has: what was measured here may be anything. All of them where there is no git."""
    found = sorted(glob.glob(os.path.join(ROOT, "results", "*", pattern)))
    try:
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "results"], capture_output=True, text=True, check=False).stdout
    except OSError:
        listed = ""
    known = {os.path.join(ROOT, line) for line in listed.splitlines()}
    return [path for path in found if path in known] if known else found


def call(*command, env=None, stdin=None, cwd=None):
    """Runs a program to its end. A Python script of scripts/ or slurm/ runs in a copy of this process, which has imported what the script
    imports: that takes most of the time of a script. stdin: a file descriptor; this process's own if it is not given."""
    environment = {**os.environ, **(env or {})}
    if not is_python_script(command[0]):
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, stdin=stdin, cwd=cwd)
    import_command(command[0])
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if child == 0:
            if cwd is not None:
                os.chdir(cwd)
            if stdin is not None:
                os.dup2(os.open(os.devnull, os.O_RDONLY) if stdin == subprocess.DEVNULL else stdin, 0)
                sys.stdin = open(0, closefd=False)  # pylint: disable=consider-using-with
            os._exit(run_script(command, environment, out.fileno(), err.fileno()))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(command, code, out.read(), err.read())


def is_python_script(path):
    if os.path.dirname(path) not in (SCRIPTS, SLURM) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return b"python" in file.readline()


def import_command(path):
    """Imports the command of mpiq that a script starts. Where that fails, the script says why."""
    with open(path, encoding="utf-8") as file:
        found = re.search(r'^mpiq_python\.start\("(\w+)"', file.read(), re.M)
    command = os.path.basename(path) if os.path.dirname(path) == SLURM else found and found[1]
    backend = os.environ.get("MPLBACKEND")
    os.environ["MPLBACKEND"] = "Agg"  # as mpi_quant.__main__
    with contextlib.suppress(ImportError):
        if command:
            importlib.import_module(f"mpi_quant.commands.{command}")
    del os.environ["MPLBACKEND"]
    if backend is not None:
        os.environ["MPLBACKEND"] = backend


def run_script(command, environment, out, err):
    """The exit code of a script that runs in this process, which ends after it."""
    code = 1
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # pylint: disable=consider-using-with
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = list(command)
        sys.path.insert(0, SCRIPTS)
        try:
            runpy.run_path(command[0], run_name="__main__")
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
        except BaseException:  # pylint: disable=broad-exception-caught
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # pylint: disable=broad-exception-caught
        code = 1
    return code


def script(name):
    return os.path.join(SCRIPTS, name)


class InTemporaryFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="mpiq-scripts-test-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def copy_scripts(self, *names):
        """Copies scripts, and what all of them import, to scripts/ of the folder: in this tree they find nothing that was built."""
        os.mkdir(self.path("scripts"))
        for name in (*names, "mpiq_python.py"):
            shutil.copy(script(name), self.path("scripts"))
        shutil.copytree(PACKAGE, self.path("python"), ignore=shutil.ignore_patterns("__pycache__"))
