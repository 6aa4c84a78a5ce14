"""Tests of scripts/policy on made-up result files whose best rules are known, and on committed ones.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/policy_script_test.py
"""
import os
import unittest

import h5py
import numpy as np

from results_test import point, write_results
from scripts_common import ROOT, InTemporaryFolder, call, script

from mpi_quant.report import advice

KIB, MIB = 1 << 10, 1 << 20
SIZES = [64 * KIB << (2 * i) for i in range(6)]  # 64 KiB to 64 MiB
FASTER, SAME, SLOWER = (1.9, 2, 2.1), (0.9, 1, 1.1), (0.4, 0.5, 0.6)
REFERENCE = os.path.join(ROOT, "results", "reference")


def dense(sizes, **changes):
    return [point("mpi", size, 1e-3, **changes) for size in sizes]


def line(method, gains, sizes=SIZES, error=0.002, **changes):
    """The rows of a method. gains: (low, speed-up, high) at each size."""
    return [point(method, size, 1e-3 / value, speedup_lo=low, speedup=value, speedup_hi=high, err_rel_l2=error, **changes)
            for size, (low, value, high) in zip(sizes, gains)]


class WithPolicies(InTemporaryFolder):
    maxDiff = None

    def file(self, rows, name="a.h5"):
        return write_results(self.path(name), rows)

    def run_policy(self, *arguments):
        done = call(script("policy"), *arguments, env={"PYTHONDONTWRITEBYTECODE": "1"})
        return done.returncode, done.stdout, done.stderr

    def text(self, rows, *arguments):
        code, out, problem = self.run_policy(self.file(rows), *arguments)
        self.assertEqual((code, problem), (0, ""))
        return out

    def rules(self, rows, *arguments):
        return [text for text in self.text(rows, *arguments).splitlines() if text and not text.startswith("#")]

    def comments(self, rows, *arguments):
        return [text for text in self.text(rows, *arguments).splitlines() if text.startswith("#")]


class Windows(WithPolicies):
    def test_a_window_has_two_ends_where_dense_wins_again_at_large_sizes(self):
        rows = dense(SIZES) + line("bf16", [SAME, FASTER, FASTER, FASTER, SAME, SLOWER])
        self.assertEqual(self.rules(rows), [f"256K-{4 * MIB + 1} @2 f32: bf16"])
        self.assertEqual(self.comments(rows), [
            "# Use: mpiexec -n N mpiq-run --policy-file THIS_FILE ./app",
            f"# From {self.path('a.h5')}: host ?, MPICH 4.0.2, link test, normal input, commit 0123456789.",
            "# The fastest method with a relative L2 error of one call of at most 0.01.",
            "# It is chosen where the lower end of the 95 % interval of its speed-up over the fastest of MPI's own is at least 1.2, at two "
            "neighbouring sizes or more.",
            "# The upper end of a rule is excluded: 4194305 lets 4M in, and nothing above it. Sizes, numbers of ranks and types without a rule were "
            "not measured, or are MPI's own.",
            "# 2 ranks on 1 node, f32, measured at 64 KiB to 64 MiB.",
            "# bf16: speed-up 2 [1.9, 2.1] at 256 KiB to 2 [1.9, 2.1] at 4 MiB, relative L2 error of one call 0.002"])

    def test_nothing_is_said_beyond_the_largest_size(self):
        self.assertEqual(self.rules(dense(SIZES) + line("bf16", [FASTER] * 6)), [f"64K-{64 * MIB + 1} @2 f32: bf16"])

    def test_noise_wins_nothing(self):
        once, unsure, wide = [SAME, FASTER, SAME] * 2, [(1.1, 1.6, 2.1)] * 6, [(2.93, 8.65, 458)] * 6
        for gains in (once, unsure, [(1.02, 1.03, 1.04)] * 6, wide):
            self.assertEqual(self.rules(dense(SIZES) + line("bf16", gains)), [], gains)
        self.assertIn("# 2 ranks on 1 node, f32, measured at 64 KiB to 64 MiB. No method within the limit is worth it: MPI's own stays.", self.comments(dense(SIZES) + line("bf16", once)))
        self.assertIn("# Not judged, because the interval is too wide: bf16 at 64 KiB, 8.65 [2.93, 458]",
                      self.comments(dense(SIZES) + line("bf16", wide)))

    def test_a_size_with_bad_rows_ends_a_window(self):
        rows = dense(SIZES) + line("bf16", [FASTER] * 6)
        rows[6 + 2]["status"] = b"invalid"
        self.assertEqual(self.rules(rows), [f"64K-{256 * KIB + 1} @2 f32: bf16", f"4M-{64 * MIB + 1} @2 f32: bf16"])

    def test_another_method_takes_over_only_where_its_interval_is_ahead(self):
        faster, ahead = [(1.95, 2.05, 2.15)] * 3, [(2.9, 3, 3.1)] * 3
        rows = dense(SIZES) + line("bf16", [FASTER] * 6) + line("int8", [SAME] + faster[:2] + ahead, error=0.007)
        self.assertEqual(self.rules(rows), ["64K-4M @2 f32: bf16", f"4M-{64 * MIB + 1} @2 f32: int8"])

    def test_short_sums_need_the_word_small_and_the_shortest_have_no_rule(self):
        sizes = [KIB, 2 * KIB, 8 * KIB, 16 * KIB]
        self.assertEqual(self.rules(dense(sizes) + line("bf16", [FASTER] * 4, sizes)), [f"4K-{16 * KIB + 1} @2 f32 small: bf16"])
        rows = dense(sizes) + line("bf16", [FASTER, FASTER, SAME, SAME], sizes)
        self.assertEqual(self.rules(rows), [])
        self.assertIn("# No rule: sums below 4 KiB are MPI's own.", self.comments(rows))

    def test_each_type_has_its_rules(self):
        rows = dense(SIZES) + line("bf16", [FASTER] * 6)
        rows += [point("mpi", size, 1e-3, dtype="f64", key=f"d{size}") for size in SIZES]
        rows += line("bf16", [SAME] * 6, dtype="f64")
        for i, row in enumerate(rows):
            row["key"] = f"k{i}".encode()
        self.assertEqual(self.rules(rows), [f"64K-{64 * MIB + 1} @2 f32: bf16"])

    def test_a_rule_names_its_collective(self):
        rows = dense(SIZES, collective="reduce_scatter") + line("bf16", [FASTER] * 6, collective="reduce_scatter")
        self.assertEqual(self.rules(rows), [f"reduce_scatter 64K-{64 * MIB + 1} @2 f32: bf16"])
        code, _, problem = self.run_policy(self.file(dense(SIZES, collective="sparse_allreduce") + line("bf16", [FASTER] * 6, collective="sparse_allreduce")))
        self.assertEqual(code, 1)
        self.assertIn("no rows of vectors that a rule can be about", problem)


class Limits(WithPolicies):
    ROWS = (dense(SIZES) + line("bf16", [(1.4, 1.5, 1.6)] * 6) + line("onebit", [(8, 9, 10)] * 6, error=0.6)
            + line("zerorun", [(1.25, 1.3, 1.35)] * 6, error=3e-8) + line("topk memory=momentum", [(20, 25, 30)] * 6, error=0.9)
            + line("onebit#2", [(18, 19, 20)] * 6, error=0.6))
    END = 64 * MIB + 1

    def test_the_error_of_a_call_is_limited(self):
        for words, rule in (((), f"64K-{self.END} @2 f32: bf16"), (("--error", "0.001"), f"64K-{self.END} @2 f32: zerorun"),
                            (("--error", "0"), f"64K-{self.END} @2 f32: zerorun"), (("--error", "0.6"), f"64K-{self.END} @2 f32: onebit"),
                            (("--error", "feedback"), f"64K-{self.END} @2 f32: onebit feedback=address")):
            self.assertEqual(self.rules(self.ROWS, *words), [rule], words)

    def test_exact_results_need_no_feedback(self):
        rows = dense(SIZES) + line("zerorun", [FASTER] * 6, error=3e-8)
        self.assertEqual(self.rules(rows, "--error", "feedback"), [f"64K-{self.END} @2 f32: zerorun"])

    def test_an_unknown_error_is_none(self):
        self.assertEqual(self.rules(dense(SIZES) + line("bf16", [FASTER] * 6, error=np.nan)), [])

    def test_feedback_of_gathered_vectors_has_a_warning(self):
        for collective, warnings in (("allgather", 1), ("reduce_scatter", 0)):
            rows = dense(SIZES, collective=collective) + line("onebit", [FASTER] * 6, error=0.6, feedback=1, collective=collective)
            comments = self.comments(rows, "--error", "feedback")
            self.assertEqual(sum("not for parameters" in text for text in comments), warnings, collective)

    def test_feedback_must_have_been_measured(self):
        rows = dense(SIZES) + line("onebit", [FASTER] * 6, error=0.6, feedback=0)
        code, out, problem = self.run_policy(self.file(rows), "--error", "feedback")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("measured without feedback", problem)
        self.assertEqual(self.rules(rows, "--error", "0.6"), [f"64K-{self.END} @2 f32: onebit"])

    def test_what_is_no_limit_is_a_usage_error(self):
        for word in ("-1", "nan", "inf", "feedback:3", "much"):
            code, out, problem = self.run_policy(self.file(self.ROWS), f"--error={word}")
            self.assertEqual((code, out), (2, ""), word)
            self.assertIn("is neither a relative error", problem)


def of_ranks(ranks, gains, **changes):
    rows = dense(SIZES, ranks=ranks) + line("bf16", gains, ranks=ranks)
    for i, row in enumerate(rows):
        row["key"] = f"r{ranks}-{i}".encode()
        for name, value in changes.items():
            row[name] = value
    return rows


class Ranks(WithPolicies):
    def test_only_measured_numbers_have_rules(self):
        rows = of_ranks(2, [FASTER] * 6) + of_ranks(4, [SAME, SAME, FASTER, FASTER, FASTER, FASTER])
        self.assertEqual(self.rules(rows), [f"64K-{64 * MIB + 1} @2 f32: bf16", f"1M-{64 * MIB + 1} @4 f32: bf16"])
        self.assertEqual(self.rules(rows, "--ranks", "4"), [f"1M-{64 * MIB + 1} @4 f32: bf16"])

    def test_a_number_that_was_not_measured_is_refused(self):
        code, out, problem = self.run_policy(self.file(of_ranks(2, [FASTER] * 6)), "--ranks", "2,3,8")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("--ranks 3,8: not in ", problem)

    def test_more_ranks_than_cores_have_no_rule(self):
        rows = of_ranks(2, [FASTER] * 6) + of_ranks(4, [FASTER] * 6, oversubscribed=1)
        self.assertEqual(self.rules(rows), [f"64K-{64 * MIB + 1} @2 f32: bf16"])
        self.assertIn("# 4 ranks on 1 node, f32: no rule, because all 6 compared rows are invalid or have more ranks than cores.", self.comments(rows))

    def test_what_no_rule_can_tell_apart_is_refused(self):
        rows = of_ranks(2, [FASTER] * 6) + of_ranks(4, [FASTER] * 6, link=b"other")
        code, out, problem = self.run_policy(self.file(rows))
        self.assertEqual((code, out), (1, ""))
        self.assertIn("rows differ in link (other, test), which no rule can tell apart: choose with --where link=other", problem)
        self.assertEqual(self.rules(rows, "--where", "link=test"), [f"64K-{64 * MIB + 1} @2 f32: bf16"])

    def test_nothing_is_concluded_from_a_busy_machine(self):
        path = self.file(of_ranks(2, [FASTER] * 6))
        with h5py.File(path, "a") as file:
            file["run/nodes"] = np.array([(b"node1", b"cpu", 12.0, 2)], dtype=[("host", "S8"), ("cpu_model", "S8"), ("load1", "f8"), ("cores", "i4")])
        for more in ((), ("--knowledge",)):
            code, out, problem = self.run_policy(path, *more)
            self.assertEqual((code, out), (1, ""))
            self.assertIn("nothing is concluded: host node1 was busy", problem)


class Simulated(WithPolicies):
    def simulated(self, gains, dense_method="mpi"):
        rows = [point(dense_method, size, 1e-3, ranks=64, nodes=64, status="simulated", link="sim:test", key=f"s{size}",
                      compressor="none" if dense_method == "mpi" else "raw") for size in SIZES]
        rows += [point(method, size, 1e-3 / gain, ranks=64, nodes=64, status="simulated", link="sim:test", key=f"s{method}{size}", err_rel_l2=np.nan,
                       speedup=np.nan, speedup_lo=np.nan, speedup_hi=np.nan) for method, gain in gains for size in SIZES]
        return self.file(rows, "s.h5")

    def test_they_are_taken_only_when_asked_and_the_rule_says_so(self):
        measured = self.file(of_ranks(2, [FASTER] * 6))
        path = self.simulated([("bf16", 2), ("int8", 3)])
        code, out, problem = self.run_policy(measured, path)
        self.assertEqual((code, out), (1, ""))
        self.assertIn(f"{path}: simulated, not measured: --simulated takes such files", problem)
        code, out, problem = self.run_policy(measured, path, "--simulated")
        self.assertEqual((code, problem), (0, ""))
        # Nobody has measured the error of int8.
        self.assertEqual([text for text in out.splitlines() if text and text[0] != "#"],
                         [f"64K-{64 * MIB + 1} @2 f32: bf16", f"64K-{64 * MIB + 1} @64 f32: bf16"])
        self.assertIn("# 64 ranks on 64 nodes, f32, simulated at 64 KiB to 64 MiB. Simulated, not measured: times are taken to be off by a factor of 1.4.", out)
        self.assertIn("# bf16: speed-up 2 [1.43, 2.8] at 64 KiB to 2 [1.43, 2.8] at 64 MiB, relative L2 error of one call 0.002 (measured with other ranks)", out)

    def test_errors_of_another_collective_say_nothing(self):
        measured = self.file([*dense(SIZES, collective="allgather"), *line("bf16", [FASTER] * 6, collective="allgather")])
        code, out, _ = self.run_policy(measured, self.simulated([("bf16", 2)]), "--simulated", "--ranks", "64")
        self.assertEqual((code, [text for text in out.splitlines() if text and text[0] != "#"]), (0, []))

    def test_a_gain_within_what_simulations_are_off_is_none(self):
        measured = self.file(of_ranks(2, [FASTER] * 6))
        code, out, _ = self.run_policy(measured, self.simulated([("bf16", 1.6)]), "--simulated", "--ranks", "64")
        self.assertEqual((code, [text for text in out.splitlines() if text and text[0] != "#"]), (0, []))

    def test_one_dense_algorithm_among_several_is_no_baseline(self):
        code, out, problem = self.run_policy(self.simulated([("bf16", 3)], "raw/ring"), "--simulated", "--error", "feedback")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("raw/ring alone is no baseline", problem)

    def test_measured_rows_go_before_simulated_ones(self):
        measured = self.file(of_ranks(64, [SAME] * 6))
        code, out, _ = self.run_policy(measured, self.simulated([("bf16", 3)]), "--simulated")
        self.assertEqual((code, [text for text in out.splitlines() if text and text[0] != "#"]), (0, []))


class Knowledge(WithPolicies):
    def test_each_size_has_a_line_with_what_was_the_fastest(self):
        sizes = SIZES[:3]
        rows = dense(sizes) + line("bf16", [SAME, FASTER, FASTER], sizes) + line("onebit/allgather", [(8, 9, 10)] * 3, sizes, error=0.6)
        self.assertEqual(self.rules(rows, "--knowledge", "--error", "0.02"), [
            "65536 f32 @2 auto(error=0.02): mpi seconds=0.001 mpi=0.001 margin=1.25 calls=20",
            "262144 f32 @2 auto(error=0.02): bf16/direct seconds=0.0005 mpi=0.001 margin=1.25 calls=20"
            "  # speed-up 2 [1.9, 2.1], relative L2 error of one call 0.002",
            "1048576 f32 @2 auto(error=0.02): bf16/direct seconds=0.0005 mpi=0.001 margin=1.25 calls=20"
            "  # speed-up 2 [1.9, 2.1], relative L2 error of one call 0.002"])
        first = self.rules(rows, "--knowledge", "--error", "feedback")[0]
        self.assertTrue(first.startswith("65536 f32 @2 auto(error=feedback): onebit/allgather seconds=0.000111111 mpi=0.001 "), first)
        self.assertEqual({text.split(": ")[0].split(" ", 3)[3] for text in self.rules(rows, "--knowledge", "--error", "0")}, {"auto"})

    def test_a_line_names_nodes_where_several_ranks_share_each_of_several(self):
        for ranks, nodes, place in ((4, 1, "@4"), (4, 2, "@4 nodes=2"), (4, 4, "@4")):
            shape = {"ranks": ranks, "nodes": nodes}
            rows = dense(SIZES, **shape) + line("bf16", [FASTER] * 6, **shape)
            places = {text.split(" auto")[0].split(" ", 2)[2] for text in self.rules(rows, "--knowledge", "--error", "0.02")}
            self.assertEqual(places, {place}, shape)

    def test_lines_of_other_collectives_name_them_and_no_plan(self):
        for collective in ("reduce_scatter", "allgather", "bcast", "reduce"):
            shape = {"collective": collective, "ranks": 4, "nodes": 2}
            rows = dense(SIZES, **shape) + line("bf16", [FASTER] * 6, **shape)
            lines = self.rules(rows, "--knowledge", "--error", "0.02")
            self.assertEqual({text.split(" seconds=")[0].split(" ", 2)[2] for text in lines}, {"f32 @4 auto(error=0.02): bf16"})
            self.assertEqual({text.split()[0] for text in lines}, {collective})
            _, out, _ = self.run_policy(self.file(rows), "--knowledge", "--error", "0.02")
            self.assertIn(f"mpiq-run --policy '{collective} : auto(error=0.02)' ./app", out.splitlines()[0])
            adds = collective.startswith("reduce")
            self.assertEqual(bool(self.rules(rows, "--knowledge", "--error", "feedback")), adds, "auto(error=feedback) serves sums")

    def test_without_a_dense_time_there_is_no_line(self):
        code, out, problem = self.run_policy(self.file(dense(SIZES) + line("bf16", [FASTER] * 6)), "--knowledge", "--where", "method=bf16")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("no row of a dense method", problem)


class Committed(WithPolicies):
    def test_the_rules_of_the_reference_begin_where_the_readme_says(self):
        for name in ("shm", "lab-2x1gbit", "lab-2x10gbit"):
            path = os.path.join(REFERENCE, f"{name}.h5")
            code, out, problem = self.run_policy(path)
            self.assertEqual((code, problem), (0, ""))
            rule = [text for text in out.splitlines() if text and text[0] != "#"][-1]
            first = advice.candidate_of(path, "bf16").first
            self.assertEqual(rule, f"{first // MIB}M-{64 * MIB + 1} @2 f32: bf16" if first >= MIB else f"{first // KIB}K-{64 * MIB + 1} @2 f32: bf16")

    def test_the_file_is_written_whole_or_not_at_all(self):
        out = self.path("policy.txt")
        self.assertEqual(self.run_policy(os.path.join(REFERENCE, "shm.h5"), "-o", out)[:2], (0, ""))
        self.assertEqual(os.listdir(self.folder), ["policy.txt"])
        self.assertEqual(self.run_policy(os.path.join(REFERENCE, "shm.h5"), "-o", self.path("none", "x"))[0], 1)


if __name__ == "__main__":
    unittest.main()
