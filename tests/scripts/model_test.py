"""Tests of the model behind plots: it finds the coefficients that points were made of, and its bands hold the truth.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/model_test.py
"""
import math
import unittest

import numpy as np

from plots_test import KIB, MIB, Drawn, linear
from results_test import point

import mpiq_model
import mpiq_predict
import mpiq_results
import mpiq_schedules
from mpiq_selection import PlotError

TRUE = {"alpha": 2e-5, "beta": 1e-9, "own": 3e-5, "gamma": 3e-10}
SIZES = [16 * KIB << (2 * i) for i in range(7)]


def dense(ranks, size):
    """What the best dense algorithm takes; of a power of two of ranks."""
    steps, share = math.log2(ranks), (ranks - 1) / ranks
    return min(steps * (TRUE["alpha"] + TRUE["beta"] * size), 2 * steps * TRUE["alpha"] + 2 * share * TRUE["beta"] * size)


def onebit(ranks, size, share=0.5):
    """(seconds, bytes sent, plan): a 32nd on the wire, an encoded element costs as much as a decoded one. share: of the time of a
    message, what the processors take. ranks: a power of two."""
    plan, log2 = mpiq_schedules.choose_plan(size, ranks), math.log2(ranks)
    columns = min(2 ** int(math.log2(2.83 * ranks**0.5)), ranks // 2)
    rows = ranks // columns
    of_grid = 2 * (columns - 1) + rows - 1
    rounds, messages, moved, coded, chunks = {
        "allgather": (1, ranks - 1, ranks - 1, 1 + ranks, 1),
        "direct": (2, 2 * (ranks - 1), 2 * (ranks - 1) / ranks, 3 - 1 / ranks, ranks),
        "grid": (3, of_grid, of_grid / columns, 3 + rows / columns, columns),
        "recursive_doubling": (log2, log2, log2, 3 * log2, 1)}[plan]
    messages = (1 - share) * rounds + share * messages
    wire, codec = TRUE["beta"] * moved * size / 32, TRUE["gamma"] * coded / 3 * size
    alone = mpiq_schedules.PLANS[plan](ranks).alone * min(1, 256 * KIB * chunks / size)
    return TRUE["own"] * messages + max(wire, codec) + alone * min(wire, codec), int(moved * size / 32), plan


def measured(noise=0.0, seed=0, ranks=(2,), sizes=SIZES, share=0.5, **changes):
    """Rows of a machine that is as the model says, but for noise."""
    rng, out = np.random.default_rng(seed), []
    for p in ranks:
        for size in sizes:
            seconds, wire, plan = onebit(p, size, share)
            for method, t, more in (("mpi", dense(p, size), {}), ("onebit", seconds, {"wire_bytes_max": wire, "algorithm": plan})):
                t *= math.exp(noise * rng.standard_normal())
                out.append(point(method, size, t, ranks=p, nodes=p, link="lab-1gbit", key=f"{method}-{p}-{size}",
                                 base_key=f"mpi-{p}-{size}", t_ci_lo_s=t, t_ci_hi_s=t, **more, **changes))
    return out


def fitted(rows, exposed=None):
    return mpiq_model.fit(mpiq_results.with_columns(mpiq_results.plain(np.array(rows)), {}), exposed)


class Fit(unittest.TestCase):
    def near(self, found, true, within):
        self.assertLess(abs(found / true - 1), within, f"{found} for {true}")

    def of_truth(self, fit, within):
        self.near(fit["dense"].alpha, TRUE["alpha"], within)
        self.near(fit["dense"].beta, TRUE["beta"], within)
        self.near(fit["onebit"].alpha, TRUE["own"], within)
        self.near(fit["onebit"].gamma, TRUE["gamma"], within)

    def test_more_ranks_than_the_table_has_are_refused(self):
        self.assertGreater(mpiq_schedules.PLANS["direct"](4096).messages, 8000)
        with self.assertRaisesRegex(PlotError, "the table of what plans do ends at 4096"):
            mpiq_schedules.PLANS["direct"](4097)

    def test_it_finds_what_exact_points_were_made_of(self):
        self.of_truth(fitted(measured()), 1e-3)

    def test_it_finds_it_within_a_few_per_cent_through_noise(self):
        self.of_truth(fitted(measured(0.02, seed=7)), 0.06)

    def test_ranks_are_fitted_together(self):
        self.of_truth(fitted(measured(ranks=(2, 4, 8))), 0.02)

    def test_folded_to_the_measured_ranks_it_is_the_fit(self):
        for ranks in ((2,), (8,), (2, 4)):
            for name, fit in fitted(measured(0.05, ranks=ranks)).items():
                for p in fit.points:
                    self.near(mpiq_model.seconds(fit, p.bytes, p.ranks), p.model, 2e-4)  # a byte on the wire is whole

    def test_folded_to_more_ranks_it_is_what_those_take(self):
        fit = fitted(measured())
        for ranks in (4, 64, 1024):
            for size in (16 * KIB, MIB, 64 * MIB):
                self.near(mpiq_model.seconds(fit["dense"], size, ranks), dense(ranks, size), 1e-3)
                self.near(mpiq_model.seconds(fit["onebit"], size, ranks), onebit(ranks, size)[0], 2e-3)

    def test_bands_hold_the_truth(self):
        held, all_of_them = 0, 0
        for seed in range(20):
            fit = fitted(measured(0.06, seed=seed, sizes=SIZES[::2]))
            for ranks, size in ((2, 4 * MIB), (16, MIB), (64, 64 * MIB), (256, 64 * KIB)):
                time, gain = mpiq_predict.call(fit["onebit"], fit["dense"], size, ranks)
                true = onebit(ranks, size)[0]
                held += (time[1] <= true <= time[2]) + (gain[1] <= dense(ranks, size) / true <= gain[2])
                all_of_them += 2
        self.assertGreaterEqual(held / all_of_them, 0.9)

    def test_two_ranks_do_not_tell_latency_from_overhead_and_bands_hold_both(self):
        fit = fitted(measured())
        time, _ = mpiq_predict.call(fit["onebit"], fit["dense"], MIB, 64)
        self.assertLess(time[1], onebit(64, MIB, share=0.05)[0])
        self.assertGreater(time[2], onebit(64, MIB, share=0.95)[0])

    def test_more_ranks_tell_latency_from_overhead(self):
        for share in (0.0, 0.2, 0.7, 1.0):
            fit = fitted(measured(ranks=(2, 4, 16), share=share))["onebit"]
            self.assertLess(abs(fit.share - share), 0.05)
            self.near(mpiq_model.seconds(fit, MIB, 256), onebit(256, MIB, share)[0], 0.03)

    def test_bands_are_narrow_where_points_are_exact(self):
        fit = fitted(measured(ranks=(2, 4, 16)))
        time, _ = mpiq_predict.call(fit["onebit"], fit["dense"], MIB, 64)
        self.assertLess(time[2] / time[1], 1.05)

    def test_one_bad_point_does_not_bend_the_rest(self):
        rows = linear(sizes=[KIB << i for i in range(0, 14, 2)])
        rows[6]["t_median_s"] *= 3
        self.near(fitted(rows)["dense"].beta, 1e-9, 0.05)

    def test_no_coefficient_is_negative(self):
        for f in fitted(linear(gamma=-2e-10)).values():
            self.assertGreaterEqual(min(f.alpha, f.beta, f.gamma), 0)
            self.assertGreaterEqual(min(np.min(draws) for draws in f.draws), 0)

    def test_two_sizes_are_no_model(self):
        self.assertIsNone(fitted(linear(sizes=(KIB, MIB))))

    def test_a_codec_behind_the_wire_is_known_from_phases(self):
        rows = linear(gamma=1e-10)
        exposed = {row["key"].decode(): {"encode": 1e-10 * row["bytes"], "decode": 1e-10 * row["bytes"]} for row in rows}
        self.near(fitted(rows, exposed)["onebit"].gamma, 2e-10, 0.02)
        self.near(fitted(rows, exposed)["onebit"].encode_share, 2 / 3, 1e-6)  # two vectors are decoded, one is encoded

    def test_rows_without_bytes_or_time_are_left_out(self):
        rows = measured() + [point(m, size, 1e-5, ranks=2, nodes=2, link="lab-1gbit", wire_bytes_max=0, key=f"{m}-{size}",
                                   t_median_s=t) for m in ("mpi", "onebit") for size, t in ((0, 1e-5), (KIB, 0.0))]
        self.of_truth(fitted(rows), 1e-3)

    def test_a_schedule_that_is_not_known_is_fitted_but_not_folded(self):
        rows = linear()
        for row in rows:
            row["algorithm"] = b"mystery" if row["compressor"] != b"none" else row["algorithm"]
        fit = fitted(rows)["onebit"]
        self.assertFalse(fit.folds())
        self.assertTrue(np.isfinite([p.model for p in fit.points]).all())


class Schedules(unittest.TestCase):
    def test_the_plan_is_the_library_s_choice(self):
        self.assertEqual([mpiq_schedules.choose_plan(size, ranks) for size, ranks in
                          ((KIB, 2), (MIB, 2), (20 * KIB, 4), (MIB, 4), (20 * KIB, 16), (MIB, 16))],
                         ["allgather", "allgather", "allgather", "direct", "recursive_doubling", "grid"])
        self.assertEqual(mpiq_schedules.plan_of("onebit(block=512)/allgather", MIB, 64), "allgather")
        self.assertEqual(mpiq_schedules.plan_of("onebit", MIB, 64), "grid")

    def test_plans_between_the_numbers_of_ranks_of_the_table_are_interpolated(self):
        work = mpiq_schedules.PLANS["direct"](1500)
        self.assertEqual((work.rounds, work.messages), (2, 2998))
        self.assertLess(abs(work.moved - 2), 0.01)


class Predictions(Drawn):
    def test_extrapolate_folds_what_it_fitted_and_marks_what_was_measured(self):
        found = self.draw("extrapolate", self.file(measured()))
        modelled = {(int(r["bytes"]), int(r["ranks"])): float(r["speedup"]) for r in found if r["source"] == "modelled"}
        self.assertEqual(sorted({ranks for _, ranks in modelled}), [2**i for i in range(1, 11)])
        for (size, ranks), speedup in modelled.items():
            self.assertLess(abs(speedup * onebit(ranks, size)[0] / dense(ranks, size) - 1), 2e-3)
        self.assertEqual({r["ranks"] for r in found if r["source"] == "measured"}, {"2"})

    def test_ranks_without_a_core_of_their_own_are_marked_and_not_fitted(self):
        rows = measured() + [point(m, MIB, 1.0, key=f"{m}-o", ranks=8, nodes=8, link="lab-1gbit", oversubscribed=1,
                                   wire_bytes_max=1) for m in ("mpi", "onebit")]
        found = self.draw("extrapolate", self.file(rows))
        self.assertEqual([r["ranks"] for r in found if r["source"] == "measured, oversubscribed"], ["8"])
        self.assertLess(abs(float(found[0]["t"]) / onebit(2, int(found[0]["bytes"]))[0] - 1), 1e-3)

    def test_a_shared_host_is_not_extrapolated(self):
        rows = measured()
        for row in rows:
            row["nodes"] = 1
        self.refused("extrapolate", "a rank a host", self.file(rows))

    def test_at_the_measured_link_the_frontier_s_model_is_the_fit(self):
        fit = fitted(measured())
        for one in fit.values():
            seconds, draws = mpiq_predict.on_links(one, [p.bytes for p in one.points], 2, 1.25e8, 0.0, [1.25e8])
            self.assertLess(np.abs(seconds[0] / [p.model for p in one.points] - 1).max(), 1e-3)
            self.assertEqual(draws.shape, (1, len(one.points), mpiq_model.DRAWS))

    def test_the_frontier_is_where_both_take_the_same_time(self):
        found = self.draw("frontier", self.file(measured()))
        self.assertEqual({r["baseline"] for r in found}, {"mpi/fastest"})
        tried = 0
        for r in found:
            # The measured link is faster than its name, 8 Gbit/s, so that all of beta is the link's.
            beta, size = TRUE["beta"] / float(r["link_gbit"]), float(r["bytes_from"])
            if 4 * KIB < size < 256 * KIB:  # one segment: all is added up; sizes are tried in steps of a quarter of log2
                ours, theirs = TRUE["own"] + beta * size / 32 + TRUE["gamma"] * size, TRUE["alpha"] + beta * size
                self.assertLess(abs(ours / theirs - 1), 0.2, r)
                tried += 1
        self.assertGreater(tried, 3)

    def test_bf16_is_a_second_baseline(self):
        rows = measured() + [point("bf16", size, 0.6 * dense(2, size), ranks=2, nodes=2, link="lab-1gbit", algorithm="allgather",
                                   wire_bytes_max=size // 2) for size in SIZES]
        self.assertEqual({r["baseline"] for r in self.draw("frontier", self.file(rows))}, {"mpi/fastest", "bf16"})

    def test_a_link_without_a_rate_has_no_frontier(self):
        self.refused("frontier", "a link with a rate", self.file(linear()))

    def test_the_host_s_part_is_the_least_that_a_link_leaves(self):
        self.assertAlmostEqual(mpiq_predict.host_seconds([(1.25e8, 9e-9), (1.25e9, 1.2e-9)]), 4e-10)
        self.assertEqual(mpiq_predict.host_seconds([(1.25e8, 7e-9)]), 0)


if __name__ == "__main__":
    unittest.main()
