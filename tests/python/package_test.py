"""The Python package as a user meets it: import without MPI, errors that name what was found, and a wheel that works from elsewhere.

package_test.py BUILD LIBRARIES [FAMILY]: the build folder, the folder of the built libraries, and the family of mpi4py's MPI if there
is an mpi4py.
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
import zipfile
from importlib.util import find_spec
from types import SimpleNamespace
from unittest import mock

from mpi_quant import _library

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BUILD, LIBRARIES = (os.path.abspath(folder) for folder in sys.argv[1:3])
FAMILY = (sys.argv[3:] or [""])[0]
with open(os.path.join(ROOT, "python", "mpi_quant", "__init__.py"), encoding="utf-8") as init:
    VERSION = re.search(r'^__version__ = "(.*)"$', init.read(), re.M)[1]
SUM = "import numpy, mpi_quant; print(mpi_quant.allreduce(numpy.ones(3, 'f4')), mpi_quant.library_info()['path'])"


def python(code, *flags, cwd=None, **environment):
    """stdout, and the last line of stderr."""
    done = subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, check=False, timeout=120, cwd=cwd,
                          env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), **environment})
    return done.stdout.strip(), (done.stderr.strip().splitlines() or [""])[-1]


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
        cls.prefix, first = os.path.join(cls.folder.name, "moved"), os.path.join(cls.folder.name, "first")
        subprocess.run(["cmake", f"-DCMAKE_INSTALL_PREFIX={first}", "-P", os.path.join(BUILD, "python", "cmake_install.cmake")], check=True,
                       stdout=subprocess.DEVNULL)
        os.rename(first, cls.prefix)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

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

    @unittest.skipUnless(FAMILY, "no mpi4py")
    def test_the_package_finds_the_library_of_its_own_folder(self):
        package = f"{self.prefix}/share/mpi_quant/python"
        with open(f"{package}/mpi_quant/library_dir", encoding="utf-8") as file:
            lib = os.path.normpath(f"{package}/mpi_quant/{file.read().strip()}")
        self.assertEqual(os.path.commonpath([lib, self.prefix]), self.prefix)
        os.makedirs(os.path.dirname(lib), exist_ok=True)
        os.symlink(LIBRARIES, lib)
        out, error = python(SUM, cwd=self.folder.name, PYTHONPATH=package, MPIQ_LIBRARY_DIR="")
        self.assertRegex(out, rf"^\[1. 1. 1.\] \S+/libmpi_quant_core_{FAMILY}\.so", error)


@unittest.skipUnless(FAMILY, "no mpi4py")
class Loading(unittest.TestCase):
    def test_the_folder_that_the_user_names(self):
        out, error = python(SUM, MPIQ_LIBRARY_DIR=LIBRARIES)
        self.assertRegex(out, rf"^\[1. 1. 1.\] {LIBRARIES}/libmpi_quant_core_{FAMILY}\.so", error)

    def test_the_loaders_path(self):
        out, error = python(SUM, LD_LIBRARY_PATH=LIBRARIES, MPIQ_LIBRARY_DIR="")
        self.assertRegex(out, rf"^\[1. 1. 1.\] {LIBRARIES}/libmpi_quant_core_{FAMILY}\.so", error)

    def test_the_library_that_the_process_has_already(self):
        """Under the preload library there is one state, whatever MPIQ_LIBRARY_DIR says."""
        code = f"import mpi4py.MPI, ctypes; {SUM}; print(mpi_quant.library_info()['family'])"
        out, error = python(code, LD_PRELOAD=os.path.join(LIBRARIES, "libmpi_quant_pmpi.so"), MPIQ_POLICY="64K-: bf16",
                            MPIQ_LIBRARY_DIR="/nowhere")
        self.assertRegex(out, rf"^\[1. 1. 1.\] {LIBRARIES}/libmpi_quant_core_{FAMILY}\.so.*\n{FAMILY}$", error)

    def test_no_library_is_one_line_that_names_what_was_found(self):
        out, error = python(SUM, MPIQ_LIBRARY_DIR="/nowhere")
        self.assertEqual(out, "")
        self.assertRegex(error, rf"^ImportError: mpi_quant [\d.]+: mpi4py runs on /\S+ \({FAMILY}\), and no libmpi_quant_core_{FAMILY}\.so\.\S+ "
                         r"can be loaded\. .*Tried: /nowhere/libmpi_quant_core")

    def test_a_library_of_another_version(self):
        code = f"import mpi_quant; mpi_quant.__version__ = '0.1.0'; import mpi_quant._library as l; l._load.__globals__['_SOVERSION'] = '0.1'; {SUM}"
        with tempfile.TemporaryDirectory() as folder:
            (real,) = glob.glob(os.path.join(LIBRARIES, f"libmpi_quant_core_{FAMILY}.so.?.?"))
            os.symlink(real, os.path.join(folder, f"libmpi_quant_core_{FAMILY}.so.0.1"))
            out, error = python(code, MPIQ_LIBRARY_DIR=folder)
        self.assertEqual(out, "")
        self.assertRegex(error, r"Tried: \S+\.so\.0\.1 has version 0\.[2-9]")


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


def builder_of_wheels():
    """A Python with scikit-build-core and pip: this one, or the first of PATH. '' if there is none."""
    for candidate in (sys.executable, shutil.which("python3")):
        if candidate and subprocess.run([candidate, "-c", "import pip, scikit_build_core"], capture_output=True, check=False).returncode == 0:
            return candidate
    return ""


class Wheel(unittest.TestCase):
    """A wheel as pip makes it, without the network, and used from an empty environment."""

    CORES, BASE = "none", "py3-none-any"

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        builder = builder_of_wheels()
        if not builder:
            print("a wheel of the Python package needs scikit-build-core: pip install scikit-build-core", file=sys.stderr)
            raise unittest.SkipTest("no scikit-build-core")
        cls.python = os.path.join(cls.folder.name, "environment", "bin", "python")
        done = subprocess.run([builder, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
                               f"--config-settings=build-dir={cls.folder.name}/build", "--wheel-dir", cls.folder.name, ROOT],
                              capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "MPIQ_CORES": cls.CORES})
        assert done.returncode == 0, done.stderr
        (cls.wheel,) = glob.glob(os.path.join(cls.folder.name, "*.whl"))
        venv.create(os.path.join(cls.folder.name, "environment"))
        subprocess.run([builder, "-m", "pip", "--python", cls.python, "install", "--quiet", "--no-index", "--no-deps", cls.wheel], check=True)

    def names(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            return [name for name in wheel.namelist() if ".dist-info/" not in name]

    def run_in_environment(self, *words):
        """Exit code, stdout and the last line of stderr of a Python that has this package and no other, in an empty folder."""
        with tempfile.TemporaryDirectory() as empty:
            environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MPIQ_LIBRARY_DIR")}
            done = subprocess.run([self.python, *words], capture_output=True, text=True, check=False, timeout=120, cwd=empty, env=environment)
        return done.returncode, done.stdout, (done.stderr.strip().splitlines() or [""])[-1]

    def test_it_holds_the_package_and_what_its_commands_read(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA"))).decode()
        modules = [os.path.relpath(path, os.path.join(ROOT, "python")) for path in glob.glob(os.path.join(ROOT, "python", "mpi_quant", "**", "*.py"),
                                                                                         recursive=True)]
        names = self.names()
        self.assertEqual(sorted(name for name in names if name.endswith(".py")), sorted(modules))
        self.assertLessEqual({"mpi_quant/py.typed", "mpi_quant/data/bench/columns.def", "mpi_quant/data/slurm/job.sbatch"}, set(names))
        self.assertIn("Requires-Python: >=3.11", metadata)
        self.assertRegex(os.path.basename(self.wheel), rf"^mpi_quant-{VERSION}-{self.BASE}\.whl$")

    def test_the_folder_of_the_package_makes_the_same_wheel(self):
        """pip install ./python."""
        out = os.path.join(self.folder.name, "other")
        done = subprocess.run([builder_of_wheels(), "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
                               f"--config-settings=build-dir={out}/build", "--wheel-dir", out, os.path.join(ROOT, "python")],
                              capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "MPIQ_CORES": self.CORES})
        self.assertEqual(done.returncode, 0, done.stderr)
        (wheel,) = glob.glob(os.path.join(out, "*.whl"))
        self.assertEqual(os.path.basename(wheel), os.path.basename(self.wheel))
        with zipfile.ZipFile(wheel) as other:
            self.assertEqual([name for name in other.namelist() if ".dist-info/" not in name], self.names())

    def test_an_empty_environment_imports_it_without_mpi(self):
        code = "import mpi_quant, sys; print(mpi_quant.__version__, [name for name in ('mpi4py', 'numpy') if name in sys.modules])"
        self.assertEqual(self.run_in_environment("-c", code), (0, f"{VERSION} []\n", ""))
        self.assertEqual(self.run_in_environment("-m", "mpi_quant", "submit", "--version")[:2], (0, f"mpiq submit {VERSION}\n"))
        code, _, error = self.run_in_environment("-m", "mpi_quant", "plot", "x.h5")
        self.assertEqual(code, 1)
        self.assertRegex(error, r"^mpiq plot: \S+ has no module numpy, h5py, matplotlib: pip install numpy h5py matplotlib$")

    @unittest.skipUnless(find_spec("h5py"), "no h5py")
    def test_its_commands_read_result_files(self):
        done = subprocess.run([sys.executable, "-m", "mpi_quant", "export", os.path.join(ROOT, "results", "reference", "shm.h5")], check=False,
                              capture_output=True, text=True, cwd=self.folder.name, env={**os.environ, "PYTHONPATH": self.packages_of_wheel()})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertGreater(len(done.stdout.splitlines()), 10)

    def packages_of_wheel(self):
        (found,) = glob.glob(os.path.join(self.folder.name, "environment", "lib", "python3*", "site-packages"))
        return found

    @unittest.skipUnless(FAMILY, "no mpi4py")
    def test_it_finds_a_library(self):
        out, error = python(SUM, cwd=self.folder.name, PYTHONPATH=self.packages_of_wheel(), MPIQ_LIBRARY_DIR=LIBRARIES)
        self.assertRegex(out, rf"^\[1. 1. 1.\] {LIBRARIES}/", error)


class WheelWithCores(Wheel):
    """The libraries of this build in a wheel."""

    CORES, BASE = LIBRARIES, r"py3-none-linux_\w+"

    def test_it_holds_the_libraries_without_links_and_without_mpi(self):
        cores = [name for name in self.names() if name.startswith("mpi_quant/lib/")]
        self.assertEqual(sorted(map(os.path.basename, cores)), sorted(map(os.path.basename, glob.glob(os.path.join(LIBRARIES, "libmpi_quant_core_*.so.?.?")))))
        for name in cores:
            needed = subprocess.run(["readelf", "-d", os.path.join(self.packages_of_wheel(), name)], check=True, capture_output=True, text=True).stdout
            self.assertIn("(SONAME)", needed)
            self.assertNotRegex(needed, r"NEEDED.*libmpi")

    @unittest.skipUnless(FAMILY, "no mpi4py")
    def test_its_own_library_serves_where_no_other_is_named(self):
        out, error = python(SUM, cwd=self.folder.name, PYTHONPATH=self.packages_of_wheel(), MPIQ_LIBRARY_DIR="")
        self.assertRegex(out, rf"^\[1. 1. 1.\] {self.packages_of_wheel()}/mpi_quant/lib/libmpi_quant_core_{FAMILY}\.so", error)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
