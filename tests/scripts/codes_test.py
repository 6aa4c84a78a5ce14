"""scripts/codes: what it reads of the outputs of science codes, the tables that it makes, and the counter of MPI calls.

Needs neither the codes nor a build: /usr/bin/python3 tests/scripts/codes_test.py
"""
import os
import shutil
import subprocess
import unittest

from needs import needs
from scripts_common import ROOT, InTemporaryFolder, call, script

from mpi_quant.results import codes

COMPILER, LAUNCHER = "mpicc.openmpi", "mpiexec.openmpi"
CASES = {case.name: case for case in codes.CASES}

# Lines that the programs printed, with some of those around them.
OUTPUTS = {
    "lammps-melt": """
Step Temp TotEng Press
       0 2.000000000000 -3.833834841154 -1.988183842264
      50 1.002561158313 -3.834270024513 2.590417741213
     100 1.048051251370 -3.834051675375 2.609961611709
Loop time of 4.9 on 2 procs for 100 steps with 5324 atoms
  1 2 3 4
""",
    "lammps-ewald": """
Step Temp TotEng Press E_long
       0 300.000000000000 -93991.1 22764.6 -92327.9
      10 280.250000000000 -94106.390761412898 22944.430270791614 -92327.917352039585
Loop time of 80.2 on 2 procs for 10 steps with 1000 atoms
""",
    "qe-pools": """
     total energy              =     -63.44106236 Ry
     estimated scf accuracy    <       0.49876521 Ry
!    total energy              =     -63.51251657 Ry
     convergence has been achieved in   8 iterations
     Total force =     0.036520     Total SCF correction =     0.000015
""",
    "cp2k": """
  *** SCF run converged in    14 steps ***
 ENERGY| Total FORCE_EVAL ( QS ) energy [a.u.]:             -137.390782387042498
""",
    "petsc": "iterations 2345\nresidual 9.123456789012e-09\neigenvalue 1.5e+07\nenergy 3.25e+07\neigenresidual 1.2e-15\n",
    "ptychography": "error of the image: 4.380188e-05\n",
}
EXPECTED = {
    "lammps-melt": {"total energy": "-3.834051675375", "pressure": "2.609961611709"},
    "lammps-ewald": {"total energy": "-94106.390761412898", "long-range energy": "-92327.917352039585", "pressure": "22944.430270791614"},
    "qe-pools": {"total energy": "-63.51251657", "total force": "0.036520", "iterations": "8"},
    "cp2k": {"energy": "-137.390782387042498", "iterations": "14"},
    "petsc": {"iterations": "2345", "residual": "9.123456789012e-09", "greatest eigenvalue": "1.5e+07", "energy": "3.25e+07"},
    "ptychography": {"error of the image": "4.380188e-05"},
}


def report(*classes):
    """A report as scripts/codes reads it: (operation, reasons, bytes in, bytes sent, seconds) of each class."""
    return {"classes": [{"op": op, "calls": sum(reasons.values()), "reasons": reasons, "compressed_bytes": size, "wire_bytes": wire,
                         "seconds": {"min": seconds}} for op, reasons, size, wire, seconds in classes]}


class Reading(unittest.TestCase):
    def test_the_numbers_of_each_code(self):
        for name, output in OUTPUTS.items():
            self.assertEqual(codes.quantities_of(CASES[name], output), EXPECTED[name], name)

    def test_a_number_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(codes.CodesError, "cp2k: the output has no iterations"):
            codes.quantities_of(CASES["cp2k"], OUTPUTS["cp2k"].splitlines()[2])
        with self.assertRaisesRegex(codes.CodesError, "lammps-melt: the output has no total energy"):
            codes.quantities_of(CASES["lammps-melt"], OUTPUTS["lammps-ewald"])  # it has one more column

    def test_an_exponent_of_fortran_is_a_number(self):
        found = codes.quantities_of(CASES["cp2k"], OUTPUTS["cp2k"].replace("-137.390782387042498", "-1.3739D+02"))
        self.assertEqual(float(found["energy"]), -137.39)

    def test_lines_of_the_counter(self):
        case = CASES["petsc"]
        rows = codes.calls_of(case, "Allreduce 7 7168 1 65536\nBarrier 2 0 0 0\n", 2)
        self.assertEqual(tuple(rows[0]), codes.COLUMNS[codes.CALLS])
        self.assertEqual([tuple(row.values()) for row in rows],
                         [("petsc", "2", "Allreduce", "7", "7168", "1", "65536"), ("petsc", "2", "Barrier", "2", "0", "0", "0")])
        for line in ("Allreduce 7 7168 1", "Allreduce 7 x 1 2", "killed"):
            with self.assertRaisesRegex(codes.CodesError, f"petsc: '{line}' is no line"):
                codes.calls_of(case, line, 2)

    def test_the_compressed_classes_of_a_report(self):
        one = report(("MPI_SUM", {"compressed": 3}, 600, 100, 0.5), ("MPI_SUM", {"compressed": 1, "guard": 1}, 400, 50, 0.25),
                     ("reduce_scatter(MPI_SUM)", {"compressed": 2}, 90, 30, 1), ("MPI_MAX", {"op": 9}, 0, 0, 7), ("MPI_SUM", {"small": 5}, 0, 0, 3))
        rows = codes.bytes_of(CASES["petsc"], "64K-: raw", one)
        self.assertEqual([tuple(row.values()) for row in rows],
                         [("petsc", "64K-: raw", "MPI_SUM", "5", "4", "1000", "150"), ("petsc", "64K-: raw", "reduce_scatter(MPI_SUM)", "2", "2", "90", "30")])
        self.assertEqual(codes.seconds_of(one), (6, 1.75))
        self.assertEqual(codes.seconds_of(report(("MPI_SUM", {"would_be_compressed": 4}, 0, 0, 2))), (4, 2))


class Tables(InTemporaryFolder):
    CASE = CASES["ptychography"]

    def fill(self, case, value, wire="500"):
        """Files of one case; under its first policy the result is `value`."""
        policy = case.policies[0]
        calls = [dict(zip(codes.COLUMNS[codes.CALLS], (case.name, "2", *row)))
                 for row in (("Send", "10", "3000", "0", "0"), ("Allreduce", "6", "1000", "2", "900"), ("Reduce", "2", "20", "0", "0"),
                             ("Bcast", "1", "0", "0", "0"), ("Barrier", "4", "0", "0", "0"))]
        results = [dict(zip(codes.COLUMNS[codes.RESULTS], (case.name, which, run, quantity.name, text))) for quantity in case.quantities
                   for which, run, text in ((codes.EXACT, "0", "2.0"), (codes.EXACT, "1", "2.0"), *((p, "0", value) for p in case.policies))]
        sizes = [dict(zip(codes.COLUMNS[codes.BYTES], (case.name, policy, "MPI_SUM", "2", "2", "1800", wire)))]
        times = [dict(zip(codes.COLUMNS[codes.TIMES], (case.name, which, "lab-1gbit", str(run), str(4 * seconds), "2", str(seconds))))
                 for run in range(3) for which, seconds in ((codes.EXACT, 2.0 + run), (policy, 1.0 + run))]
        return {codes.CALLS: calls, codes.RESULTS: results, codes.BYTES: sizes, codes.TIMES: times}

    def test_what_is_measured_again_replaces_the_rows_of_its_case_only(self):
        codes.replace(self.folder, self.CASE, self.fill(self.CASE, "2.5"))
        codes.replace(self.folder, CASES["petsc"], self.fill(CASES["petsc"], "2.5"))
        codes.replace(self.folder, self.CASE, {codes.RESULTS: self.fill(self.CASE, "3.0")[codes.RESULTS]})
        self.assertEqual([row["case"] for row in codes.read_table(self.folder, codes.BYTES)], ["petsc", "ptychography"])
        self.assertEqual({row["value"] for row in codes.read_table(self.folder, codes.RESULTS) if row["case"] == "ptychography"}, {"2.0", "3.0"})
        self.assertEqual(len(codes.read_table(self.folder, codes.TIMES)), 12, "times that were not measured stay")

    def test_the_three_tables(self):
        codes.replace(self.folder, self.CASE, self.fill(self.CASE, "2.5"))
        self.assertEqual(codes.call_rows(self.folder),
                         [[self.CASE.title, "23", "0.00402", "Send 74.6 %, Allreduce 24.9 %", "8", "2 Allreduce, 22.4 %", "none"]])
        rows = codes.result_rows(self.folder)
        self.assertEqual(rows[0], [self.CASE.title, f"`{self.CASE.policies[0]}`", "2", "3.6", "error of the image", "2.0", "2.5", "2.5e-01"])
        self.assertEqual(rows[1][:4], ["", f"`{self.CASE.policies[1]}`", "0", ""], "nothing was compressed")
        self.assertEqual([codes.dense_bytes({"operation": operation, "compressed_bytes": "800"}) for operation in ("MPI_SUM", "reduce_scatter(MPI_SUM)")],
                         [800, 400], "of two ranks each has to send half of its vector, and in an allreduce also half of the sum")
        self.assertEqual(codes.time_rows(self.folder),
                         [[self.CASE.title, "lab-1gbit", f"`{self.CASE.policies[0]}`", "3", "3 -> 2", "12 -> 8"]])
        for name, (head, make) in codes.TABLES.items():
            self.assertTrue(all(len(row) == len(head) for row in make(self.folder)), name)

    def test_results_that_change_by_themselves_are_shown(self):
        tables = self.fill(self.CASE, "2.0")
        next(row for row in tables[codes.RESULTS] if row["run"] == "1")["value"] = "2.125"
        codes.replace(self.folder, self.CASE, tables)
        self.assertEqual(codes.result_rows(self.folder)[0][4:], ["error of the image", "2.0, then 2.125", "2.0", "none"])

    def test_other_columns_are_refused(self):
        codes.replace(self.folder, self.CASE, self.fill(self.CASE, "2.5"))
        with open(self.path(codes.CALLS), "w", encoding="utf-8") as file:
            file.write("case,calls\n")
        with self.assertRaisesRegex(codes.CodesError, "calls.csv: its columns are not case, ranks"):
            codes.call_rows(self.folder)


class Script(InTemporaryFolder):
    def test_an_unknown_case_is_a_usage_error(self):
        done = call(script("codes"), "--out", self.path("out"), "--cases", "gromacs")
        self.assertEqual((done.returncode, "no case 'gromacs': lammps-melt" in done.stderr), (2, True), done.stderr)

    def test_a_code_that_is_not_there_is_left_out_with_a_line(self):
        os.mkdir(self.path("bin"))
        for name in (COMPILER, LAUNCHER, "pkg-config"):
            with open(self.path("bin", name), "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\nexit 1\n")
            os.chmod(self.path("bin", name), 0o755)
        done = call(script("codes"), "--out", self.path("out"), "--cases", "lammps-melt,petsc", env={"PATH": self.path("bin")})
        self.assertEqual((done.returncode, done.stdout.splitlines()),
                         (0, ["left out: lammps-melt needs lammps: apt-get install --no-install-recommends lammps",
                              "left out: petsc needs petsc-dev: apt-get install --no-install-recommends petsc-dev"]), done.stderr)

    def test_every_input_of_a_case_is_in_the_tree(self):
        there = set(os.listdir(os.path.join(ROOT, "bench/codes"))) | {"ptychography.c"}
        for case in codes.CASES:
            named = [word for word in (*case.words, case.source) if word.endswith((".in", ".inp", ".c"))]
            self.assertTrue(named, case.name)
            self.assertLessEqual(set(named), there, case.name)


PROGRAM = """
#include <mpi.h>
static double x[32768], y[32768];
int main(int argc, char** argv) {
  const int halves[2] = {8192, 8192};
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 3; ++i) MPI_Allreduce(MPI_IN_PLACE, x, 10, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(x, y, 8192, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Reduce_scatter(x, y, halves, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allgather(x, 4, MPI_INT, y, 4, MPI_INT, MPI_COMM_WORLD);
  if (rank == 0) PMPI_Send(x, 5, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(x, 5, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return MPI_Finalize();
}
"""


class Counter(InTemporaryFolder):
    @needs("libopenmpi-dev", shutil.which(COMPILER), "the counter of scripts/codes")
    @needs("openmpi-bin", shutil.which(LAUNCHER), "the counter of scripts/codes")
    def test_calls_and_bytes_of_rank_0(self):
        with open(self.path("program.c"), "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        counter, program = self.path("libcount_calls.so"), self.path("program")
        subprocess.run([COMPILER, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", os.path.join(ROOT, "bench/codes/count_calls.c"), "-o", counter], check=True)
        subprocess.run([COMPILER, self.path("program.c"), "-o", program], check=True)
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        subprocess.run(["timeout", "60", LAUNCHER, "-n", "2", "env", f"LD_PRELOAD={counter}", f"COUNT_CALLS={self.path('calls')}", program],
                       check=True, env=environment)
        with open(self.path("calls"), encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines(), ["Allreduce 4 65776 1 65536", "Reduce_scatter 1 65536 1 65536", "Allgather 1 32 0 0", "Send 1 5 0 0"])


if __name__ == "__main__":
    unittest.main()
