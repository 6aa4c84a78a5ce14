"""launcher_test.py FOLDER MPIEXEC [OTHER_MPIEXEC]: programs that another MPI's launcher started as many single ranks stop, and
name both; started as they should be, inside whatever launcher, they run."""
import os
import subprocess
import sys
import unittest

from needs import needs

FOLDER, MPIEXEC = sys.argv[1:3]
OTHER = sys.argv[3] if len(sys.argv) > 3 else ""
LAUNCHERS = ("PMI_", "OMPI_COMM_WORLD_", "MV2_COMM_WORLD_", "SLURM_")
PROGRAMS = {"mpiq-bench": "allreduce --sizes 64K -n 1", "mpiq-pagerank": "--scale 6", "mpiq-train": "--data .",
            "mpiq-replay": "--data file:x.f32", "mpiq-shim-cost": "", "mpiq-bare": "4096 5"}


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
    return dict(env, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1", **more)


def run(*command, **more):
    return subprocess.run(command, env=environment(**more), capture_output=True, text=True, timeout=60)


def program(name):
    return [os.path.join(FOLDER, name), *PROGRAMS[name].split()]


class Launcher(unittest.TestCase):
    def check_refusal(self, name, result, variable, count):
        self.assertEqual(result.returncode, 2, result.stderr)
        lines = [line for line in result.stderr.splitlines() if line.startswith(name + ": ")]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertRegex(lines[0], rf"started {count} processes \({variable}\), but MPI_COMM_WORLD has 1 rank: this program is "
                         r"linked with \w+.* (v|Version: *)\d+\.\d+")

    def test_every_program_stops_where_the_launcher_says_more_ranks_than_mpi_has(self):
        for name in PROGRAMS:
            if os.path.exists(program(name)[0]):
                result = run(*program(name), OMPI_COMM_WORLD_SIZE="3", OMPI_COMM_WORLD_RANK="0")
                self.check_refusal(name, result, "OMPI_COMM_WORLD_SIZE", 3)

    def test_all_launchers_are_known_and_ranks_behind_the_first_are_silent(self):
        for size, rank in (("PMI_SIZE", "PMI_RANK"), ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID")):
            self.check_refusal("mpiq-bare", run(*program("mpiq-bare"), **{size: "2", rank: "0"}), size, 2)
            silent = run(*program("mpiq-bare"), **{size: "2", rank: "1"})
            self.assertEqual((silent.returncode, silent.stderr), (2, ""))

    def test_the_launcher_of_its_own_mpi_counts_inside_any_other(self):
        for ranks in ("1", "2"):
            # What a step of Slurm, or another MPI's launcher, leaves in the environment.
            result = run(MPIEXEC, "-n", ranks, *program("mpiq-bare"), SLURM_STEP_NUM_TASKS="4", SLURM_PROCID="0")
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(run(*program("mpiq-bare")).returncode, 0)

    @needs("mpich" if "openmpi" in MPIEXEC else "openmpi-bin", OTHER, "the launcher of another MPI")
    def test_the_launcher_of_another_mpi_is_named(self):
        result = run(OTHER, "-n", "2", *program("mpiq-bare"))
        variable = "OMPI_COMM_WORLD_SIZE" if "openmpi" in OTHER else "PMI_SIZE"
        self.check_refusal("mpiq-bare", result, variable, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
