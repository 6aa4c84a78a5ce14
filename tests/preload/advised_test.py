"""Advice for collectives other than MPI_Allreduce: advised_test.py FAMILY MPIQ_RUN MPIEXEC ADVISED SLOW_MPI, where the last two
are the program of advised.c and the library of slow_mpi.c."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

FAMILY, RUN, MPIEXEC, ADVISED, SLOW_MPI = sys.argv[1:6]
CALLS = 8  # of advised.c
OPERATIONS = {"reduce_scatter": "reduce_scatter(MPI_SUM)", "allgather": "allgather", "bcast": "bcast", "reduce": "reduce(MPI_SUM)"}


def run(command, ranks=2, **environment):
    return subprocess.run([MPIEXEC, "-n", str(ranks), *command], capture_output=True, text=True, timeout=90,
                          env={**os.environ, **environment}, check=False)


def preloaded(*libraries):
    """LD_PRELOAD with these before what the tests preload."""
    return ":".join([*libraries, *filter(None, [os.environ.get("LD_PRELOAD")])])


def is_policy(text):
    return subprocess.run([RUN, "--check-policy", "--policy", text], capture_output=True, check=False).returncode == 0


class Advice(unittest.TestCase):
    def advised(self, *arguments, ranks=2, options=(), **environment):
        """The JSON report of a program that ends well: its results are MPI's."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.json")
            done = run([RUN, "--advise", *options, "--report", path, ADVISED, *arguments], ranks, **environment)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        self.assertEqual((report["mode"], report["lossy_results"]), ("advise", 0))
        self.assertNotIn("compressed", {name for name, count in report["reasons"].items() if count})
        return report

    def test_every_form_is_sampled_and_its_error_is_known(self):
        for collective, operation in OPERATIONS.items():
            for form in ("even", "uneven", "in_place"):
                with self.subTest(collective=collective, form=form):
                    of_class, = self.advised(collective, form, ranks=3)["advice"]
                    self.assertEqual((of_class["collective"], of_class["op"]), (collective, operation))
                    self.assertGreater(of_class["samples"], 0)
                    self.assertEqual(of_class["calls"], CALLS)
                    errors = {m["method"]: m["error"] for m in of_class["methods"]}
                    self.assertTrue(5e-4 < errors["bf16"] < 5e-3, errors)
                    self.assertTrue(errors["bf16"] < errors["int8"] < errors["int4"] < errors["onebit"], errors)
                    # Of a sine one bit and a mean leave out sqrt(1 - 8 / pi^2) of it. Of what is gathered or
                    # broadcast that is all.
                    self.assertTrue(0.3 < errors["onebit"] < 0.46, errors)
                    if collective in ("allgather", "bcast"):
                        self.assertAlmostEqual(errors["onebit"], 0.435, delta=0.02)

    def test_rules_for_the_collective_change_no_result_and_no_advice(self):
        for collective in OPERATIONS:
            report = self.advised(collective, "even", options=("--policy", f"{collective} 64K-: int8"))
            self.assertEqual(report["reasons"]["would_be_compressed"], CALLS)
            self.assertEqual([c["collective"] for c in report["advice"]], [collective])

    def test_what_is_faster_than_mpi_is_suggested_by_a_rule_for_its_collective(self):
        for collective in OPERATIONS:
            with self.subTest(collective=collective):
                report = self.advised(collective, "even", LD_PRELOAD=preloaded(SLOW_MPI))
                suggestion = report["suggestion"]
                self.assertRegex(suggestion["policy"], rf"^{collective} 128K-256K@2 f32: (bf16|int8)$")
                self.assertTrue(is_policy(suggestion["policy"]))
                if not collective.startswith("reduce"):
                    self.assertNotIn("feedback", suggestion["with_feedback"])
                automatic = f"{collective} 128K-256K@2 f32: auto(error=0.01)"
                self.assertEqual(suggestion["auto"], automatic if is_policy(automatic) else "")
                measured = {m["method"]: m["measured_s"] for m in report["advice"][0]["methods"]}
                self.assertTrue(all(measured.values()), measured)

    def test_the_text_names_the_collective(self):
        for collective, operation in OPERATIONS.items():
            said = run([RUN, "--advise", ADVISED, collective, "even"]).stderr
            self.assertRegex(said, rf"(?m)^MPI_COMM_WORLD, 2 ranks, MPI_FLOAT {re.escape(operation)}, 128K-256K bytes: {CALLS} calls")
            for method in ("mpi", "bf16", "onebit"):
                self.assertRegex(said, rf"(?m)^  {method}, {collective} 160000@2: predicted \S+ ms, measured \S+ ms, ratio ")

    def test_nothing_is_suggested_where_the_data_do_not_compress_within_the_limit(self):
        for collective in OPERATIONS:
            with self.subTest(collective=collective):
                report = self.advised(collective, "huge", LD_PRELOAD=preloaded(SLOW_MPI))
                of_class, = report["advice"]
                self.assertTrue(all(m["overflows"] or m["error"] > 0.01 for m in of_class["methods"]), of_class)
                suggestion = report["suggestion"]
                self.assertEqual((suggestion["policy"], suggestion["auto"]), ("", ""))
                if not collective.startswith("reduce"):  # feedback serves sums only
                    self.assertEqual(suggestion["with_feedback"], "")

    def test_ranks_that_differ_as_mpi_allows_do_not_wait_for_each_other(self):
        for ranks in (2, 3):
            advice = self.advised("all", "others", ranks=ranks)["advice"]
            self.assertEqual({c["collective"] for c in advice}, {"bcast"})  # of floats on the root, with gaps on the others

    def test_ranks_of_different_modes_do_not_wait_for_each_other(self):
        library = re.search(r"LD_PRELOAD=(\S+)", subprocess.run([RUN, "/usr/bin/env"], capture_output=True, text=True, check=True).stdout).group(1)
        both = ["env", "LD_PRELOAD=" + library, "MPIQ_WATCHDOG=1", "MPIQ_REPORT=-"]
        for collective in OPERATIONS:
            done = run([*both, "MPIQ_MODE=advise", ADVISED, collective, "even", ":", "-n", "1", *both, ADVISED, collective, "even"], 1)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


unittest.main(argv=sys.argv[:1])
