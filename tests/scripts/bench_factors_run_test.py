"""What can be chosen about a measurement, from the command line to a result file that scripts/check_results accepts.

Run by CTest, which says where the programs are: MPIQ_BENCH, MPIEXEC (with its options for the number of ranks). Times are
never looked at.
"""
import json
import os
import shlex
import subprocess
import unittest

import h5py
import numpy as np

from result_files import WithFiles, points_of, tool

BENCH, MPIEXEC = os.environ["MPIQ_BENCH"], shlex.split(os.environ["MPIEXEC"])
LIMIT_S = 120


class Factors(WithFiles):
    def bench(self, *options, ranks=2, code=0):
        """What mpiq-bench prints; a rank that hangs is an error. To fill buffers larger than the caches takes most of a short run, so
        they are small unless the options say more."""
        if "--buffers" not in options:
            options = ("--buffers", "warm", *options)
        done = subprocess.run([*MPIEXEC, str(ranks), BENCH, "allreduce", *options], capture_output=True, text=True, check=False,
                              timeout=LIMIT_S)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def measured(self, *options, ranks=2, code=0, sizes=("--sizes", "64K,8"), reps=8):
        """The rows of a result file without violations."""
        path = self.path("out.h5")
        if os.path.exists(path):
            os.remove(path)
        self.bench(*sizes, "-n", str(reps), "-w", "1", "-O", path, *options, ranks=ranks, code=code)
        done = tool("check_results", path)
        self.assertEqual(done.returncode, 0, done.stdout)
        return points_of(path)

    def samples(self, name):
        with h5py.File(self.path("out.h5")) as file:
            return file["samples"][name][...]

    def test_a_method_against_itself_is_a_row_of_its_own(self):
        rows = self.measured("--methods", "mpi,mpi#2,onebit,onebit#2")
        self.assertEqual(set(rows["method"]), {b"mpi", b"mpi#2", b"onebit", b"onebit#2"})
        self.assertEqual(len(set(rows["key"])), len(rows))
        again = rows["method"] == b"mpi#2"
        self.assertEqual((set(rows["compressor"][again]), set(rows["algorithm"][again])), ({b"none"}, {b"mpi"}))
        self.assertTrue(np.isfinite(rows["speedup"]).all())

    def test_every_start_is_recorded_and_repetitions_add_up(self):
        keys = set()
        for sync in ("barrier", "round", "none"):
            rows = self.measured("--sync", sync, code=None)
            self.assertEqual(set(rows["sync"]), {sync.encode()})
            self.assertEqual(set(rows["reps"] + rows["invalid_reps"]), {8})
            self.assertEqual(self.samples("valid").sum(axis=1).tolist(), rows["reps"].tolist())
            self.assertTrue(np.isfinite(self.samples("skew_in_s")[:, :8]).all(), "one machine has one clock")
            keys |= set(rows["key"])
        self.assertEqual(len(keys), 3 * 6)

    def test_repetitions_that_ranks_without_a_processor_missed_are_kept_apart(self):
        processors = len(os.sched_getaffinity(0))
        if processors > 4:
            self.skipTest("needs more ranks than processors")
        rows = self.measured("--sync", "round", "--methods", "mpi,onebit", ranks=2 * processors, code=None, sizes=("--sizes", "4K"))
        self.assertEqual(set(rows["reps"] + rows["invalid_reps"]), {8})
        for row in rows[rows["reps"] == 0]:
            self.assertEqual(row["status"], b"failed")
            self.assertIn(b"too late", row["note"])

    def test_every_life_gets_one_point_further_however_short_it_is(self):
        path, codes = self.path("out.h5"), []
        for life in range(3):
            done = subprocess.run([*MPIEXEC, "2", BENCH, "allreduce", "--sizes", "4K,8K,12K", "--methods", "mpi", "-n", "6",
                                   "--deadline", "0", "-O", path], capture_output=True, text=True, check=False, timeout=LIMIT_S)
            codes.append(done.returncode)
            self.assertEqual(len(points_of(path)), life + 1, done.stderr)
        self.assertEqual(codes, [75, 75, 0])

    def test_the_time_of_every_rank_is_kept_where_asked_for(self):
        rows = self.measured("--keep-ranks", "--ranks", "1,2", "--methods", "mpi,bf16")
        times, longest = self.samples("t_rank_s"), self.samples("t_max_s")
        self.assertEqual(times.shape[0::2], (len(rows), 2))
        for row, mine, largest in zip(rows, times, longest):
            ranks, reps = row["ranks"], row["reps"]
            self.assertEqual(mine[:reps, :ranks].max(axis=1).tolist(), largest[:reps].tolist())
            self.assertTrue(np.isnan(mine[reps:]).all() and np.isnan(mine[:, ranks:]).all())
        self.measured()
        with h5py.File(self.path("out.h5")) as file:
            self.assertNotIn("t_rank_s", file["samples"])

    def test_isolated_methods_are_compared_with_nothing(self):
        rows = self.measured("--mode", "isolated", "--methods", "mpi,mpi#2,onebit")
        self.assertEqual(set(rows["mode"]), {b"isolated"})
        self.assertTrue(np.isnan(rows["speedup"]).all())
        self.assertEqual(set(rows["base_key"]), {b""})
        order = [order[order != 0xFFFFFFFF] for order in self.samples("order")]
        self.assertTrue(all((np.diff(mine) == 1).all() for mine in order), "nothing ran between its repetitions")
        both = self.measured("--methods", "mpi,mpi#2,onebit")
        self.assertEqual(set(both["key"]) & set(rows["key"]), set())

    def test_recorded_input_is_reduced_and_named(self):
        for rank in (0, 1):
            np.random.default_rng(rank).normal(size=5000).astype("f4").tofile(self.path(f"g{rank}.f32"))
        for word in (self.path("g{rank}.f32"), self.path("g0.f32")):
            rows = self.measured("--data", f"file:{word}", "--dtype", "f32,f64", "--methods", "mpi,onebit")
            self.assertEqual(set(rows["n_wrong"]), {0})
            with h5py.File(self.path("out.h5")) as file:
                inputs = file["inputs"][...]
                self.assertEqual(json.loads(file["run"].attrs["config_json"])["data"], f"file:{word}")
            self.assertEqual(set(inputs["path"]), {word.encode()})
            self.assertTrue((inputs["entropy_bits"] > 3).all())

    def test_recorded_input_that_is_none_is_a_usage_error_on_all_ranks(self):
        np.ones(10, "f4").tofile(self.path("bad0.f32"))
        for name, content, said in (("none", None, "No such file"), ("empty", b"", "empty"), ("odd", b"12345", "5 bytes"),
                                    ("nan", np.full(4, np.nan, "f4").tobytes(), "finite")):
            if content is not None:
                with open(self.path("bad1.f32"), "wb") as file:
                    file.write(content)
            out = self.bench("--sizes", "4K", "-n", "6", "--data", f"file:{self.path('bad{rank}.f32')}", "-O", self.path("no.h5"), code=2)
            self.assertIn(said, out, name)
            self.assertIn("bad1.f32", out)
            self.assertFalse(os.path.exists(self.path("no.h5")))

    def test_layers_come_from_a_file_and_in_buckets(self):
        with open(self.path("own.csv"), "w", encoding="utf-8") as file:
            file.write("name,count\nfirst,1000\nsecond,20\nthird,30\n")
        rows = self.measured("--layers", self.path("own.csv"), "--methods", "mpi", sizes=())
        self.assertEqual({(r["layer"], int(r["count"]), r["model"]) for r in rows},
                         {(b"first", 1000, b"own"), (b"second", 20, b"own"), (b"third", 30, b"own")})
        rows = self.measured("--layers", self.path("own.csv"), "--bucket-bytes", "200", "--methods", "mpi", sizes=())
        self.assertEqual({(r["layer"], int(r["count"]), r["model"]) for r in rows},
                         {(b"third+1", 50, b"own/200"), (b"first", 1000, b"own/200")})
        rows = self.measured("--model", "lenet", "--bucket-bytes", "1M", "--dtype", "f32,f64", "--methods", "mpi", sizes=())
        for dtype in (b"f32", b"f64"):
            mine = rows[rows["dtype"] == dtype]
            self.assertEqual(int((mine["count"] * mine["layers_alike"]).sum()), 431080)

    def test_a_file_of_layers_that_is_none_is_a_usage_error_on_all_ranks(self):
        with open(self.path("bad.csv"), "w", encoding="utf-8") as file:
            file.write("first,1000\nsecond\n")
        self.assertIn("line 2", self.bench("--layers", self.path("bad.csv"), code=2))
        self.assertIn("none.csv", self.bench("--layers", self.path("none.csv"), code=2))

    def test_cold_buffers_give_the_same_results(self):
        rows = self.measured("--buffers", "cold", "--methods", "mpi,bf16", sizes=("--sizes", "64K"))
        self.assertEqual((set(rows["buffers"]), set(rows["n_wrong"]), set(rows["status"])), ({b"cold"}, {0}, {b"ok"}))
        warm = self.measured("--buffers", "warm", "--methods", "mpi,bf16", sizes=("--sizes", "64K"))
        self.assertEqual(rows["err_rel_l2"].tolist(), warm["err_rel_l2"].tolist())
        rows = self.measured("--buffers", "cold", "--in-place", "--methods", "mpi,bf16", sizes=("--sizes", "64K"))
        self.assertEqual(set(rows["n_wrong"]), {0})

    def test_short_calls_are_timed_together_but_never_in_place(self):
        rows = self.measured("--methods", "mpi,bf16,onebit", ranks=1, sizes=("--sizes", "8"))
        self.assertEqual(len(set(rows["batch"])), 1, "one for the methods of a point")
        self.assertTrue(1 < rows["batch"][0] <= 1000, "a sum of two numbers on one rank is far too short for the clock")
        self.assertEqual(set(rows["n_wrong"]), {0})
        rows = self.measured("--in-place", "--methods", "mpi,onebit", ranks=1, sizes=("--sizes", "8"))
        self.assertEqual(set(rows["batch"]), {1})
        self.assertEqual(set(rows["batch"]), {1})

    def test_a_sweep_goes_on_with_what_is_left_of_it(self):
        options = ("--sync", "round", "--mode", "isolated", "--keep-ranks", "--methods", "mpi,mpi#2", "--sizes", "4K", "-n", "6",
                   "-O", self.path("out.h5"))
        self.bench(*options, code=None)
        before = len(points_of(self.path("out.h5")))
        self.bench(*options, code=None)
        rows = points_of(self.path("out.h5"))
        self.assertTrue(len(rows) == before or (rows["status"] != b"ok").any())
        self.assertIn("options", self.bench(*options, "--buffers", "cold", code=2))


if __name__ == "__main__":
    unittest.main()
