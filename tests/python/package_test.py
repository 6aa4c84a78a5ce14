"""The Python package as a user meets it, without MPI: import, errors that name what was found, and the installed commands.

package_test.py BUILD: the build folder. What loads a library, or makes a wheel, is in wheel_test.py.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import venv
from importlib.util import find_spec
from types import SimpleNamespace
from unittest import mock

from mpi_quant import _library

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BUILD = os.path.abspath(sys.argv[1])
with open(os.path.join(ROOT, "python", "mpi_quant", "__init__.py"), encoding="utf-8") as init:
    VERSION = re.search(r'^__version__ = "(.*)"$', init.read(), re.M)[1]
SUM = "import numpy, mpi_quant; print(mpi_quant.allreduce(numpy.ones(3, 'f4')), mpi_quant.library_info()['path'])"


def python(code, *flags, cwd=None, **environment):
    """stdout, and the last line of stderr."""
    done = subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, check=False, timeout=120, cwd=cwd,
                          env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), **environment})
    return done.stdout.strip(), (done.stderr.strip().splitlines() or [""])[-1]


def installed(folder):
    """The prefix, in this folder, of an installed package that was moved."""
    prefix, first = os.path.join(folder, "moved"), os.path.join(folder, "first")
    subprocess.run(["cmake", f"-DCMAKE_INSTALL_PREFIX={first}", "-P", os.path.join(BUILD, "python", "cmake_install.cmake")], check=True,
                   stdout=subprocess.DEVNULL)
    os.rename(first, prefix)
    return prefix


class Import(unittest.TestCase):
    def test_nothing_starts_until_a_function_is_used(self):
        code = ("import sys, mpi_quant, mpi_quant.preload; from mpi_quant import _call, _residuals, _sparse, _arrays; mpi_quant.Error; "
                "mpi_quant.allreduce; print('mpi4py' in sys.modules, sorted(set(mpi_quant.__all__) - set(dir(mpi_quant))))")
        self.assertEqual(python(code), ("False []", ""))

    def test_every_public_name_is_there(self):
        self.assertEqual(python("import mpi_quant; [getattr(mpi_quant, name) for name in mpi_quant.__all__]; mpi_quant.none"),
                         ("", "AttributeError: module 'mpi_quant' has no attribute 'none'"))

    def test_without_mpi4py_a_call_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "mpi4py.py"), "w", encoding="utf-8") as file:
                file.write("raise ImportError('none here')\n")
            out, error = python(SUM, PYTHONPATH=f"{folder}:{ROOT}/python")
        self.assertEqual((out, error), ("", "ImportError: mpi_quant: its functions need mpi4py, which cannot be imported: none here"))

    def test_without_the_preload_library_its_commands_do_nothing(self):
        code = "from mpi_quant import preload\nwith preload.exact(): preload.key('layer 3'); preload.step(); preload.flush()"
        self.assertEqual(python(code), ("", ""))


class Family(unittest.TestCase):
    """Whose handles an MPI library has, by its version text and by what it answers about the standard ABI."""

    @staticmethod
    def library(text, abi=None, code=0, abi_file="libmpi.so"):
        def version(buffer, length):
            buffer.value, length._obj.value = text.encode(), len(text)
            return 0

        def abi_version(major, minor):
            major._obj.value = minor._obj.value = abi
            return code
        version.file, abi_version.file = "libmpi.so", abi_file
        return SimpleNamespace(PMPI_Get_library_version=version, **({} if abi is None else {"PMPI_Abi_get_version": abi_version}))

    def family(self, *words):
        with mock.patch.object(_library, "_file_of", lambda function: function.file):
            return _library._family(self.library(*words), "libmpi.so")

    def test_of_known_libraries(self):
        for words, family in ((("MPICH Version:\t4.0.2",), "mpich"), (("MPICH Version:      5.0.2", -1), "mpich"),
                              (("MPICH Version:      5.0.2", 1), "abi"), (("Intel(R) MPI Library 2021.18 for Linux* OS", -1), "mpich"),
                              (("Intel(R) MPI Library 2021.18 for Linux* OS", 1), "abi"), (("Open MPI v4.1.4, package: Debian",), "openmpi"),
                              (("Open MPI v6.0.0", 1), "abi"), (("MPICH Version:\t4.0.2", 1, 1), "mpich"),
                              (("MPICH Version:\t4.0.2", 0), "mpich"), (("MPICH Version:\t4.0.2", 1, 0, "libother.so"), "mpich")):
            self.assertEqual(self.family(*words), family, words)

    def test_a_translator_of_mpis_is_refused(self):
        translator = "MPIwrapper 2.11.0, using MPIABI 2.10, wrapping:\nMPICH Version:\t4.0.2"
        for words in ((translator,), (translator, -1), (translator, 2), ("MPICH Version:\t6.0", 2)):
            with self.assertRaisesRegex(ImportError, "mpi4py runs on libmpi.so, for whose handles there is no library: 'MPI"):
                self.family(*words)

    def test_the_library_knows_the_same(self):
        with open(os.path.join(ROOT, "mpi_quant", "base", "family.h"), encoding="utf-8") as file:
            text = file.read()
        mpich = re.findall(r'"([^"]+)"', re.search(r"mpich\[\] = \{(.*?)\};", text, re.DOTALL)[1])
        self.assertEqual({name.decode() for name in _library._FAMILIES}, {*mpich, "Open MPI"})
        self.assertIn(f"MPIQ_ABI_MAJOR = {_library._ABI_MAJOR} ", text)


class Style(unittest.TestCase):
    def test_a_check_that_a_signal_ends_is_a_failure(self):
        for ruff, mypy, code in (("exit 0", "exit 0", 0), ("exit 1", "exit 0", 1), ("exit 0", "kill -KILL $$", 1)):
            with tempfile.TemporaryDirectory() as folder:
                for name, body in (("ruff", ruff), ("mypy", mypy)):
                    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                        file.write(f"#!/bin/sh\n{body}\n")
                    os.chmod(os.path.join(folder, name), 0o755)
                done = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "python", "style_test.py")], check=False,
                                      env={**os.environ, "PATH": folder})
            self.assertEqual(done.returncode, code, (ruff, mypy))


class Installed(unittest.TestCase):
    """What cmake --install puts beside the library, in a folder that was moved."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.prefix = installed(cls.folder.name)

    def mpiq(self, *words):
        """Exit code, stdout and stderr of the installed command, in an empty folder."""
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run([os.path.join(self.prefix, "bin", "mpiq"), *words], capture_output=True, text=True, check=False, timeout=120,
                                  cwd=empty, env={**os.environ, "PYTHONPATH": ""})
        return done.returncode, done.stdout, done.stderr

    def test_the_command(self):
        names = ("check", "collect", "compare", "completion", "docs", "export", "merge", "mnist_table", "plot", "policy", "quality", "report", "simulate",
                 "status", "submit", "sweep", "table")
        code, out, _ = self.mpiq("--help")
        self.assertEqual((code, re.findall(r"^  (\w+) ", out, re.M)), (0, list(names)))
        self.assertEqual(self.mpiq("--version"), (0, f"mpiq {VERSION}\n", ""))
        self.assertEqual(self.mpiq("nonsense")[0], 2)
        self.assertRegex(self.mpiq()[2], "^mpiq: a command is needed\nusage: mpiq COMMAND")
        for name in set(names) - {"completion"}:
            self.assertEqual(self.mpiq(name, "--version"), (0, f"mpiq {name} {VERSION}\n", ""))
        self.assertRegex(self.mpiq("plot", "--none")[2], "mpiq plot: error: ")
        lab = f"{self.prefix}/share/mpi_quant/python/mpi_quant/data/scripts/lab"
        self.assertEqual(subprocess.run([lab, "--version"], capture_output=True, text=True, check=True).stdout, f"scripts/lab {VERSION}\n")

    @unittest.skipUnless(find_spec("h5py") and find_spec("matplotlib"), "no h5py or matplotlib")
    def test_the_commands_work_on_result_files(self):
        file = os.path.join(ROOT, "results", "reference", "shm.h5")
        figures = os.path.join(self.folder.name, "figures")
        for words in (("check", file), ("compare", file, file), ("export", file), ("merge", "-o", f"{self.folder.name}/merged.h5", file),
                      ("plot", "-o", figures, "speedup", file), ("policy", file), ("report", "-o", f"{figures}/report.html", file)):
            code, _, error = self.mpiq(*words)
            self.assertEqual(code, 0, (words, error))
        self.assertLessEqual({"shm-speedup.png", "shm-speedup.csv", "report.html"}, set(os.listdir(figures)))

    @unittest.skipUnless(find_spec("h5py") and os.path.exists(f"{BUILD}/bin/mpiq-simulate") and os.path.exists(f"{BUILD}/bin/mpiq-bench"),
                         "no h5py, or mpiq-bench and mpiq-simulate are not built")
    def test_the_commands_find_the_installed_programs(self):
        for name in ("mpiq-bench", "mpiq-simulate"):
            os.symlink(f"{BUILD}/bin/{name}", f"{self.prefix}/bin/{name}")
        out = os.path.join(self.folder.name, "made")
        code, _, error = self.mpiq("simulate", "--out", out, "--links", "lab-1gbit", "--ranks", "2", "--sizes", "64K", "--methods", "mpi,bf16")
        self.assertEqual((code, os.listdir(out)), (0, ["simulated-lab-1gbit.h5"]), error)
        code, found, error = self.mpiq("sweep", f"{self.prefix}/share/mpi_quant/python/mpi_quant/data/bench/sweeps/quick.toml", "--labs", "shm", "--dry-run")
        self.assertEqual(code, 0, error)
        self.assertRegex(found, r"(?m)^# \S+/quick\.toml: \d+ launches")
        self.assertRegex(self.mpiq("quality", "-o", "x.csv")[2], "mpiq quality: error: --mnist: no folder ")


class BesideOthers(unittest.TestCase):
    def test_packages_beside_an_installed_one_do_not_hide_the_standard_library(self):
        """As for the processes in which mpiq sweep merges and checks."""
        code = "import sys; from mpi_quant.commands import command_line; sys.exit(command_line.run_other('submit', '--version'))"
        with tempfile.TemporaryDirectory() as folder:
            venv.create(folder)
            (packages,) = glob.glob(os.path.join(folder, "lib", "python3*", "site-packages"))
            shutil.copytree(os.path.join(ROOT, "python", "mpi_quant"), os.path.join(packages, "mpi_quant"), ignore=shutil.ignore_patterns("__pycache__"))
            with open(os.path.join(packages, "typing.py"), "w", encoding="utf-8") as file:
                file.write("raise ImportError('an old typing')\n")
            done = subprocess.run([os.path.join(folder, "bin", "python"), "-c", code], capture_output=True, text=True,
                                  check=False, timeout=120, cwd=folder, env={**os.environ, "PYTHONPATH": ""})
        self.assertEqual((done.returncode, done.stdout), (0, f"mpiq submit {VERSION}\n"), done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
