"""Whole programs with and without the preload library: programs_test.py MPIEXEC LIBRARY SGD [HDF5], the programs being
tests/preload/sgd.c and hdf5_parallel.c as compiled for the MPI of MPIEXEC."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

from needs import needs

MPIEXEC, LIBRARY, SGD = sys.argv[1:4]
HDF5 = sys.argv[4] if len(sys.argv) > 4 else ""


def run(program, *arguments, policy=None, ranks=2, **environment):
    """What rank 0 prints. policy: None for no preload, else its rules, be they none."""
    preload = [] if policy is None else ["env", f"LD_PRELOAD={LIBRARY}", f"MPIQ_POLICY={policy}"]
    done = subprocess.run([MPIEXEC, "-n", str(ranks), *preload, program, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60, check=False, env={**os.environ, **environment})
    if done.returncode != 0:
        raise AssertionError(f"{policy}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def last_loss(output):
    return float(re.search(r"then (\S+)", output).group(1))


class Training(unittest.TestCase):
    """sgd.c fails if its ranks come to differ."""

    def test_without_a_policy_every_bit_of_the_loss_is_the_same(self):
        for ranks in (2, 3):
            self.assertEqual(run(SGD, policy="", ranks=ranks), run(SGD, ranks=ranks))

    def test_with_bf16_the_loss_is_within_one_percent(self):
        exact, rounded = last_loss(run(SGD)), last_loss(run(SGD, policy=": bf16"))
        self.assertNotEqual(rounded, exact)
        self.assertLess(abs(rounded - exact), 0.01 * exact)

    def test_with_one_bit_it_ends_and_the_ranks_agree(self):
        for ranks in (2, 3):
            self.assertIn("the ranks agree", run(SGD, policy=": onebit", ranks=ranks))


@needs(f"libhdf5-{'openmpi' if 'openmpi' in MPIEXEC else 'mpich'}-dev", HDF5, "files written by all ranks under the preload library")
class Files(unittest.TestCase):
    """hdf5_parallel.c fails if it reads something else than it wrote, or if its one sum is not as it says."""

    def compare(self, **environment):
        with tempfile.TemporaryDirectory() as folder:
            results = []
            for name, mode, policy in (("absent", "exact", None), ("idle", "exact", ""), ("active", "lossy", ": onebit")):
                path = os.path.join(folder, name)
                output = run(HDF5, path, mode, policy=policy, **environment)
                with open(path, "rb") as file:
                    results.append((output, file.read()))
            self.assertRegex(results[0][0], r"checksum [0-9.]+\n")
            self.assertTrue(results[0] == results[1] == results[2], [output for output, _ in results])

    def test_a_parallel_hdf5_file_has_the_same_bytes(self):
        self.compare()

    def test_the_same_with_open_mpis_other_file_layer(self):
        if "openmpi" not in HDF5:
            self.skipTest("MPICH has one")
        self.compare(OMPI_MCA_io="romio321")  # it calls MPI_Allreduce itself


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
