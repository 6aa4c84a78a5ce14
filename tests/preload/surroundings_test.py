"""Programs under mpiq-run as other people have them: with sanitizers, in containers, without MPI, under the wrong launcher.

surroundings_test.py MPIQ_RUN MPIEXEC MPICC CONTROL OTHER_MPIEXEC|- CC...: CONTROL is control.c, OTHER_MPIEXEC starts programs of
another MPI, CC are compilers whose sanitizers are tried.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

RUN, MPIEXEC, MPICC, CONTROL, OTHER = sys.argv[1:6]
COMPILERS = sys.argv[6:]
NOTHING = (sys.executable, "-c", "pass")
HERE = os.path.dirname(os.path.realpath(__file__))
SUM = """#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
enum { kN = 100000 };
int main(int argc, char** argv) {
  float *x = malloc(kN * sizeof *x), *y = malloc(kN * sizeof *y);
  int rank, i;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (i = 0; i < kN; ++i) x[i] = (float)(i % 97 + rank);
  MPI_Allreduce(x, y, kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("ran\\n");
  free(x);
  free(y);
  return MPI_Finalize();
}
"""


def run(*command, **environment):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0", **environment})


def lines_of(done, prefix):
    return [line for line in done.stderr.splitlines() if line.startswith(prefix)]


class Sanitizers(unittest.TestCase):
    def compiled(self, folder, compiler, *flags):
        source, program = os.path.join(folder, "sum.c"), os.path.join(folder, "sum")
        with open(source, "w", encoding="utf-8") as file:
            file.write(SUM)
        done = run(MPICC, "-g", *flags, source, "-o", program, MPICH_CC=compiler, OMPI_CC=compiler)
        self.assertEqual(done.returncode, 0, done.stderr)
        return program

    def test_a_program_with_a_sanitizer_runs_and_its_sums_are_compressed(self):
        self.assertTrue(COMPILERS)
        for compiler in COMPILERS:
            kinds = [("-fsanitize=address",), ("-fsanitize=undefined",)]
            if "clang" in compiler:
                library = run(compiler, "-print-file-name=libclang_rt.asan-x86_64.so").stdout.strip()
                if os.path.exists(library):
                    kinds.append(("-fsanitize=address", "-shared-libasan", "-Wl,-rpath," + os.path.dirname(library)))
            for flags in kinds:
                with self.subTest(compiler=compiler, flags=flags), tempfile.TemporaryDirectory() as folder:
                    program = self.compiled(folder, compiler, *flags)
                    done = run(MPIEXEC, "-n", "2", RUN, "--report", "-", "--policy", "64K-: bf16", program)
                    self.assertEqual((done.returncode, done.stdout), (0, "ran\n"), done.stderr)
                    self.assertIn("\n1 results delivered to the program were lossy.", done.stderr)

    def test_a_sanitizer_that_is_preloaded_stays_first(self):
        done = run(RUN, "/usr/bin/env", LD_PRELOAD="/tmp/none.so:/tmp/libasan.so.8")
        found = re.search(r"(?m)^LD_PRELOAD=(.*)$", done.stdout).group(1).split(":")
        self.assertEqual((found[0], found[2]), ("/tmp/libasan.so.8", "/tmp/none.so"))
        self.assertIn("libmpi_quant_pmpi", found[1])


class NoMpi(unittest.TestCase):
    def test_one_line_says_that_the_program_made_no_mpi_call(self):
        for asked in (("--advise",), ("--policy", ": onebit"), ("--policy", ": onebit", "--report", "-"), ("--report", "-"),
                      ("--explain",)):
            for launch in ((), (MPIEXEC, "-n", "2")):
                done = run(*launch, RUN, *asked, *NOTHING)
                self.assertEqual(done.returncode, 0, done.stderr)
                said = lines_of(done, "mpi_quant: ")
                self.assertEqual(len(said), 1, done.stderr)
                self.assertIn("made no MPI call", said[0])
                self.assertIn("gloo and nccl do not use MPI", said[0])

    def test_nothing_is_said_where_nothing_was_asked_for(self):
        self.assertEqual(run(RUN, *NOTHING).stderr, "")
        self.assertEqual(run(RUN, *NOTHING, MPIQ_RUN="1:0").stderr, "")

    def test_nor_where_a_process_of_the_program_uses_mpi(self):
        for ranks in ("1", "2"):
            done = run(MPIEXEC, "-n", ranks, RUN, "--policy", ": onebit", "sh", "-c", f"'{CONTROL}' differ; true")
            self.assertEqual((done.returncode, lines_of(done, "mpi_quant: this program")), (0, []), done.stderr)
        done = run(MPIEXEC, "-n", "2", RUN, "--policy", ": onebit", CONTROL, "halves")
        self.assertNotIn("made no MPI call", done.stderr)


    def test_no_file_of_the_program_is_touched(self):
        """Whatever lies behind the number of mpiq-run's file, in a script that uses numbers itself, and in another process."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "user.log")
            # Without mpiexec, for MPI uses such numbers itself under it.
            script = f"exec 3>>'{path}' 4>&3 5>&3 6>&3 7>&3 8>&3 9>&3; echo what the user has written >&3; '{CONTROL}' differ; true"
            done = run(RUN, "--policy", ": onebit", "sh", "-c", script)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, "a+", encoding="utf-8") as file:
                for name in ("mpiq-run", f"mpiq-run-{os.getpid()}-1"):
                    run(MPIEXEC, "-n", "1", RUN, CONTROL, "differ", MPIQ_RUN=f"{os.getpid()}:{file.fileno()}:{name}")
                file.seek(0)
                self.assertEqual(file.read(), "what the user has written\n")


class Surroundings(unittest.TestCase):
    def test_a_starter_of_containers_is_told_about(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("apptainer", "singularity", "podman"):
                path = shutil.copy("/bin/true", os.path.join(folder, name))
                said = lines_of(run(RUN, path, "exec", "image.sif", "./app"), "mpiq-run: ")
                self.assertEqual(len(said), 1)
                self.assertTrue(said[0].startswith(f"mpiq-run: {name} starts the program in a container"), said)
                self.assertIn('docs/preload.md says under "Containers"', said[0])

    def test_a_mistyped_variable_is_named_once_at_the_start_and_in_the_report(self):
        done = run(MPIEXEC, "-n", "2", RUN, "--report", "-", CONTROL, "others", MPIQ_POLCY=": onebit")
        words = "MPIQ_POLCY is no variable of this library: is MPIQ_POLICY meant?"
        self.assertEqual(done.stderr.count("mpiq-run: " + words), 1, done.stderr)
        self.assertEqual(done.stderr.count("\n" + words), 1, done.stderr)

    @unittest.skipIf(OTHER == "-", "no launcher of another MPI is installed")
    def test_the_wrong_launcher_is_named_once_and_no_report_says_that_there_is_nothing_to_advise(self):
        variable = "OMPI_COMM_WORLD_SIZE" if "openmpi" in OTHER else "PMI_SIZE"
        for asked in (("--advise",), ("--policy", ": onebit"), ("--policy", ": onebit", "--report", "-")):
            done = run(OTHER, "-n", "2", RUN, *asked, CONTROL, "halves", OMPI_ALLOW_RUN_AS_ROOT="1",
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")
            said = lines_of(done, "mpi_quant: ")
            self.assertEqual(len(said), 1, done.stderr)
            self.assertRegex(said[0], rf"started 2 processes \({variable}\), but MPI_COMM_WORLD has 1 rank: this program is linked "
                             "with .*; start it with the launcher of that MPI")
            self.assertNotIn("Advice", done.stderr)

    def test_a_translator_of_mpis_is_no_mpi_that_it_translates_to(self):
        with tempfile.TemporaryDirectory() as folder:
            library, program = os.path.join(folder, "libtranslator.so"), os.path.join(folder, "program")
            source = os.path.join(HERE, "translator.c")
            for command in ((*COMPILERS[:1], "-shared", "-fPIC", source, "-o", library),
                            (*COMPILERS[:1], "-DPROGRAM", source, "-o", program, library, "-Wl,-rpath," + folder)):
                done = run(*command)
                self.assertEqual(done.returncode, 0, done.stderr)
            mpi = "MPIwrapper 2.11.0, using MPIABI 2.10, wrapping:; MPI_Allreduce is not replaced"
            for abi in ("-1", "0", "fails", "2"):
                for beneath in ("MPICH Version:\t4.0.2\n", "Open MPI v4.1.4, package: Debian\n", "Intel(R) MPI Library 2021.18\n"):
                    done = run(RUN, "--policy", "64K-: bf16", program, BENEATH=beneath, ABI=abi)
                    self.assertEqual((done.returncode, done.stdout), (0, "exact\n"), done.stderr)
                    why = "no core for this version of the standard ABI:" if abi == "2" else "no core for this MPI library:"
                    self.assertEqual(lines_of(done, "mpi_quant: "), [f"mpi_quant: {why} {mpi}"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
