"""How the Python package finds a library, and a wheel that works from elsewhere.

wheel_test.py BUILD LIBRARIES [FAMILY]: the build folder, the folder of the built libraries, and the family of mpi4py's MPI if there
is an mpi4py.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile
from importlib.util import find_spec

from package_test import ROOT, SUM, VERSION, installed, python

LIBRARIES = os.path.abspath(sys.argv[2])
FAMILY = (sys.argv[3:] or [""])[0]


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

    def test_the_package_finds_the_library_of_its_own_folder(self):
        prefix = installed(self.enterContext(tempfile.TemporaryDirectory()))
        package = f"{prefix}/share/mpi_quant/python"
        with open(f"{package}/mpi_quant/library_dir", encoding="utf-8") as file:
            lib = os.path.normpath(f"{package}/mpi_quant/{file.read().strip()}")
        self.assertEqual(os.path.commonpath([lib, prefix]), prefix)
        os.makedirs(os.path.dirname(lib), exist_ok=True)
        os.symlink(LIBRARIES, lib)
        out, error = python(SUM, cwd=prefix, PYTHONPATH=package, MPIQ_LIBRARY_DIR="")
        self.assertRegex(out, rf"^\[1. 1. 1.\] \S+/libmpi_quant_core_{FAMILY}\.so", error)


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
