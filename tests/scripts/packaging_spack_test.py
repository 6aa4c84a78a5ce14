"""The package of cmake/packaging/spack: its options, dependencies and stand-alone tests. What it imports of Spack is replaced by stand-ins.

Usage: packaging_spack_test.py [BIN], BIN being the folder of the built programs. Needs no network.
"""
import contextlib
import glob
import os
import re
import shutil
import subprocess
import sys
import types
import unittest

from needs import needs
from packaging_files import PAGE, PLACE, VERSION, Declared, executed, modules, read
from scripts_common import ROOT, InTemporaryFolder

BIN = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
OF_CUDA = {"cuda", "cuda_arch"}
try:
    import yaml
except ImportError:
    yaml = None


class Executable:
    """A program as Spack calls it: in the environment of this process, with an error if it fails."""

    def __init__(self, name):
        self.name = name

    def __call__(self, *words, output=None, error=None):
        done = subprocess.run([self.name, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (self.name, words, done.stderr)
        return done.stdout


def check_outputs(expected, actual):
    """Each of these expressions, or the only one, is found."""
    for word in [expected] if isinstance(expected, str) else expected:
        assert re.search(word, actual), (word, actual)


class Spack(InTemporaryFolder):
    def package(self, *satisfied, mpicc="/opt/bin/mpicc"):
        """An instance of the class, whose spec satisfies these, and what the class declared."""
        declared = Declared()

        class Spec(dict):
            def satisfies(self, text):
                return text in satisfied

        class CMakePackage:
            spec = Spec(mpi=types.SimpleNamespace(mpicc=mpicc))
            version = VERSION
            define = staticmethod(lambda name, value: (name, value))
            define_from_variant = staticmethod(lambda name, variant: (name, f"of {variant}"))

        names = {**declared.directives("license", "version", "variant", "depends_on", "conflicts"), "when": declared.when,
                 "join_path": os.path.join, "Executable": Executable, "check_outputs": check_outputs}
        names["__all__"] = list(names)
        with modules(spack__package=names, spack_repo__builtin__build_systems__cmake={"CMakePackage": CMakePackage},
                     spack_repo__builtin__build_systems__cuda={"CudaPackage": type("CudaPackage", (), {})}):
            made = executed("spack", "spack_repo", "mpi_quant", "packages", "mpi_quant", "package.py")["MpiQuant"]()
        return made, declared.calls

    def test_the_version_and_the_archive(self):
        package, declared = self.package()
        self.assertEqual(declared["version"], [((VERSION,), {})])
        self.assertTrue(package.url.endswith(f"/mpi_quant-{VERSION}.tar.gz"))
        self.assertIn(f"mpi_quant-{VERSION}.tar.gz", read(PAGE))

    def test_options_follow_variants(self):
        package, declared = self.package()
        args = dict(package.cmake_args())
        self.assertEqual(args["MPIQ_CUDA"], "OFF")
        self.assertEqual(args["MPI_C_COMPILER"], "/opt/bin/mpicc")
        self.assertNotIn("MPIQ_CUDA_ARCHITECTURES", args)
        with_cuda = dict(self.package("+cuda", "~hdf5")[0].cmake_args())
        self.assertEqual((with_cuda["MPIQ_CUDA"], with_cuda["MPIQ_CUDA_ARCHITECTURES"]), ("ON", "of cuda_arch"))
        self.assertTrue(with_cuda["CMAKE_DISABLE_FIND_PACKAGE_HDF5"])
        self.assertTrue(args["CMAKE_DISABLE_FIND_PACKAGE_BLAS"], "else ~train has mpiq-train wherever there is a BLAS")
        self.assertNotIn("CMAKE_DISABLE_FIND_PACKAGE_BLAS", dict(self.package("+train")[0].cmake_args()))
        self.assertNotIn("CMAKE_DISABLE_FIND_PACKAGE_HDF5", args)
        variants = {words[0] for words, _ in declared["variant"]}
        self.assertEqual(variants & OF_CUDA, set(), "those are CudaPackage's")
        self.assertIn("CudaPackage", [base.__name__ for base in type(package).__mro__])
        self.assertIn("cuda_arch=none", [words[0] for words, _ in declared["conflicts"]])
        variants |= OF_CUDA
        for variant in {value.partition("of ")[2] for value in {**args, **with_cuda}.values() if str(value).startswith("of ")}:
            self.assertIn(variant, variants)

    def test_what_the_build_looks_for_is_a_dependency(self):
        _, declared = self.package()
        names = {re.split(r"[@+~]", words[0])[0] for words, _ in declared["depends_on"]}
        spack = {"fmt": "fmt", "CLI11": "cli11", "HDF5": "hdf5", "ZLIB": "zlib-api", "nlohmann_json": "nlohmann-json", "benchmark": "benchmark", "BLAS": "openblas", "MPI": "mpi"}
        looked_for = set(re.findall(r"^\s*find_package\((\w+)", read("bench", "CMakeLists.txt") + read("CMakeLists.txt"), re.M)) - {"Threads"}
        self.assertEqual({spack.get(name, name) for name in looked_for} - names, set())

    def test_there_are_stand_alone_tests(self):
        package, _ = self.package()
        self.assertEqual(sorted(name for name in dir(package) if name.startswith("test_")), ["test_policy", "test_program", "test_sum"])

    def test_what_runs_after_the_build_has_no_tool_of_the_build(self):
        """Dependencies of type build are not in PATH of `spack test run`."""
        _, declared = self.package()
        tools = {words[0].partition("@")[0] for words, keywords in declared["depends_on"] if keywords.get("type") == "build"}
        self.assertIn("pkgconfig", tools)
        text = read(PLACE, "spack", "spack_repo", "mpi_quant", "packages", "mpi_quant", "package.py")
        for tool in (*tools - {"c", "cxx"}, "pkg-config", "ninja"):
            self.assertNotIn(f'Executable("{tool}")', text)

    @unittest.skipUnless(BIN, "the library was not built")
    def test_the_program_of_the_stand_alone_test_links_and_runs(self):
        build = os.path.dirname(BIN)
        with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as file:
            mpicc = re.search(r"^MPI_C_COMPILER:\w+=(.*)$", file.read(), re.M)[1]
        prefix = self.path("prefix")  # as the installed folder
        os.makedirs(os.path.join(prefix, "lib", "pkgconfig"))
        os.symlink(os.path.join(ROOT, "mpi_quant", "include"), os.path.join(prefix, "include"))
        shutil.copy(os.path.join(build, "mpi_quant.pc"), os.path.join(prefix, "lib", "pkgconfig"))
        for path in glob.glob(os.path.join(build, "lib", "*.so*")):
            os.symlink(path, os.path.join(prefix, "lib", os.path.basename(path)))
        package, _ = self.package(mpicc=mpicc)
        package.prefix = types.SimpleNamespace(lib=os.path.join(prefix, "lib"), include=os.path.join(prefix, "include"))
        with contextlib.chdir(self.folder):
            package.test_program()
            with self.assertRaises(AssertionError):  # the number is compared
                package.version = "0.0.0"
                package.test_program()

    @needs("python3-yaml", yaml, "the test of Spack's repository")
    def test_the_repository_is_of_the_form_of_spack_1(self):
        found = yaml.safe_load(read(PLACE, "spack", "spack_repo", "mpi_quant", "repo.yaml"))["repo"]
        self.assertEqual(found, {"namespace": "mpi_quant", "api": "v2.0"})


if __name__ == "__main__":
    unittest.main()
