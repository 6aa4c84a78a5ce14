"""mpiq-run --doctor: doctor_test.py MPIQ_RUN MPIEXEC PROGRAM FAILING, where PROGRAM is an MPI program of the family of MPIEXEC, and
FAILING the library of tests/preload/failing_mpi.c."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

RUN, MPIEXEC, PROGRAM, FAILING = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
LAUNCHERS = ("PMI_", "OMPI_COMM_WORLD_", "MV2_COMM_WORLD_", "SLURM_", "MPIQ_")


def doctor(*words, ranks=2, **environment):
    """Exit code, and (mark, what, text) of each line."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    launch = [MPIEXEC, "-n", str(ranks)] if ranks else []
    done = subprocess.run([*launch, RUN, "--doctor", *words], capture_output=True, text=True, timeout=100, check=False, env={**env, **environment})
    lines = re.findall(r"^(ok|WRONG) +(\S+) +(.*)$", done.stdout, re.M)
    return done.returncode, {what: (mark, text) for mark, what, text in lines}, done.stdout + done.stderr


class Doctor(unittest.TestCase):
    def test_all_is_well(self):
        code, found, all_of_it = doctor("--policy", "64K-: bf16", PROGRAM)
        self.assertEqual(code, 0, all_of_it)
        self.assertEqual(list(found), ["policy", "library", "program", "core", "ranks", "sum"], "each once, by one process")
        self.assertEqual({mark for mark, _ in found.values()}, {"ok"})
        self.assertIn("1 rule: 64K-: bf16", found["policy"][1])
        self.assertRegex(found["program"][1], " is linked with .*libmpi")
        self.assertIn("Open MPI" if "openmpi" in MPIEXEC else "MPICH", found["core"][1])
        error = re.search("relative error ([0-9.e-]+), the same bits on all ranks", found["sum"][1])
        self.assertTrue(1e-4 < float(error[1]) < 4e-3, "bf16 rounds to 8 bits")

    def test_three_ranks(self):
        code, found, all_of_it = doctor(PROGRAM, ranks=3)
        self.assertEqual((code, found["ranks"][1].split(",")[0]), (0, "3"), all_of_it)
        self.assertIn("A safe start is --policy '64K-: bf16'", found["policy"][1])

    def test_one_rank_is_named(self):
        code, found, _ = doctor(PROGRAM, ranks=1)
        self.assertEqual((code, found["ranks"][0]), (1, "WRONG"))
        self.assertIn("mpiexec -n 2 mpiq-run --doctor", found["ranks"][1])

    def test_the_launcher_of_another_mpi_is_named(self):
        variables = ("PMI_SIZE", "PMI_RANK") if "openmpi" in MPIEXEC else ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")
        code, found, all_of_it = doctor(PROGRAM, ranks=0, **dict(zip(variables, "30")))
        self.assertEqual((code, found["launcher"][0]), (1, "WRONG"), all_of_it)
        self.assertIn("started 3 processes, but MPI_COMM_WORLD has 1 rank", found["launcher"][1])

    def test_an_mpi_that_fails_is_named(self):
        for function in ("PMPI_Comm_split_type", "PMPI_Allreduce"):
            preloaded = ":".join(filter(None, (FAILING, os.environ.get("LD_PRELOAD"))))
            code, found, all_of_it = doctor(PROGRAM, LD_PRELOAD=preloaded, TEST_FAILS=function)
            self.assertEqual((code, found["sum"][0]), (1, "WRONG"), all_of_it)
            self.assertIn("failed: ", found["sum"][1])
        code, _, all_of_it = doctor(PROGRAM, LD_PRELOAD=preloaded)
        self.assertEqual(code, 0, all_of_it)

    def test_what_cannot_be_read_or_found_is_named(self):
        for words, what, why in ((("--policy", "64K: bf16", PROGRAM), "policy", "64K"), (("--policy-file", "/none", PROGRAM), "policy", "/none"),
                                 (("--library", "/none.so"), "library", "/none.so"), (("./no-such-program",), "program", "no-such-program")):
            code, found, all_of_it = doctor(*words)
            self.assertEqual((code, found[what][0]), (1, "WRONG"), all_of_it)
            self.assertIn(why, found[what][1])

    def test_a_core_that_is_missing_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            library = os.path.join(folder, "libmpi_quant_pmpi.so")
            with open(library, "wb") as file:
                file.write(b"only its folder counts")
            code, found, all_of_it = doctor("--library", library, PROGRAM)
        self.assertEqual((code, found["core"][0]), (1, "WRONG"), all_of_it)
        self.assertIn("this installation has no libmpi_quant_core_", found["core"][1])

    def test_a_script_is_examined_by_the_launchers_mpi(self):
        code, found, all_of_it = doctor("python3")
        self.assertEqual((code, found["sum"][0]), (0, "ok"), all_of_it)
        self.assertIn("is not linked with an MPI library itself", found["program"][1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
