"""mpiq-bench reduce_scatter, allgather, bcast and reduce: what their files hold, among equal and unequal parts, in place and not.
Usage: bench_parted_test.py BIN MPIEXEC..."""
import json
import os
import subprocess
import sys
import unittest

import h5py
import numpy as np

from result_files import WithFiles, points_of, tool

BIN, *MPIEXEC = sys.argv[1:]
del sys.argv[1:]
COLLECTIVES = ("reduce_scatter", "allgather", "bcast", "reduce")
SAME_ON_ALL = ("allgather", "bcast")
SIZES = (60000, 100000)  # bytes: 3 ranks divide the elements of the first one only
METHODS = "mpi,raw,bf16,onebit"


class Parted(WithFiles):
    def bench(self, collective, ranks, *words, code=0, buffers="warm", sizes=SIZES[:1]):
        done = subprocess.run([*MPIEXEC, str(ranks), os.path.join(BIN, "mpiq-bench"), collective, "--sizes", ",".join(map(str, sizes)),
                               "--methods", METHODS, "-n", "6", "-w", "1", "--buffers", buffers, *words], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def measured(self, collective, ranks, *words, **options):
        path = self.path(f"{collective}-{len(os.listdir(self.folder))}.h5")
        self.bench(collective, ranks, *words, "-O", path, **options)
        done = tool("check_results", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return path, points_of(path)

    def test_rows_are_right_and_say_which_collective_it_was(self):
        for collective in COLLECTIVES:
            for ranks, words in ((1, ()), (2, ()), (3, ()), (3, ("--in-place", "--dtype", "f64"))):
                _, rows = self.measured(collective, ranks, *words, buffers="rotate" if ranks == 2 else "warm", sizes=SIZES)
                self.assertEqual(len(rows), len(SIZES) * 4)
                self.assertEqual({(row["collective"], row["status"], int(row["n_wrong"])) for row in rows}, {(collective.encode(), b"ok", 0)})
                self.assertEqual(set(rows["replicas_equal"]), {1 if collective in SAME_ON_ALL else -1})
                self.assertEqual(set(rows["bytes"]), set(SIZES))
                self.assertEqual(set(rows["place"]), {b"in" if words or collective == "bcast" else b"out"})
                plans = {plan.decode().split("_tree")[0] for plan in rows["algorithm"][rows["compressor"] != b"none"]}
                self.assertEqual(plans, {collective})

    def test_a_lossy_method_makes_the_error_of_its_codec(self):
        for collective in COLLECTIVES:
            _, rows = self.measured(collective, 2)
            errors = {method: rows["err_rel_l2"][rows["method"] == method.encode()].max() for method in METHODS.split(",")}
            self.assertLess(max(errors["mpi"], errors["raw"]), 1e-6)
            self.assertEqual(errors["mpi"] == 0, collective in SAME_ON_ALL)
            self.assertTrue(1e-4 < errors["bf16"] < 1e-2 and 0.2 < errors["onebit"] < 0.8, errors)

    def test_rates_and_ratios_are_of_one_pass_over_the_vector(self):
        for collective in COLLECTIVES:
            _, rows = self.measured(collective, 3)
            self.assertTrue(np.allclose(rows["algbw_Bps"], rows["bytes"] / rows["t_median_s"]))
            self.assertTrue(np.allclose(rows["busbw_Bps"], rows["algbw_Bps"] * (1 if collective in ("bcast", "reduce") else 2 / 3)))
            raw = rows[rows["method"] == b"raw"]
            # Each byte goes to the two ranks that do not have it, or in a reduction leaves the two that are
            # not the root.
            headers = raw["wire_bytes_sum"] - 2 * raw["bytes"]
            self.assertTrue(((0 < headers) & (headers < 12 * 256)).all(), headers)
            self.assertTrue(np.allclose(raw["ratio_achieved"], 2 * raw["bytes"] / raw["wire_bytes_sum"]))

    def test_residuals_are_of_the_whole_vector_or_of_the_part(self):
        for collective, words, parts in (("reduce_scatter", (), 1), ("allgather", ("--feedback",), 2), ("allgather", (), 0),
                                         ("reduce", (), 1), ("bcast", (), 0)):
            _, rows = self.measured(collective, 2, *words)
            mine = rows[rows["method"] == b"onebit"]
            for size, residual in zip(mine["bytes"], mine["residual_bytes"]):
                least = size // parts if parts else 0
                self.assertTrue(least <= residual < least + 64, (collective, size, residual))  # in whole cache lines
            self.assertEqual(set(mine["feedback"]), {int(parts > 0)})

    def test_a_file_goes_on_and_never_with_another_collective(self):
        path, rows = self.measured("reduce_scatter", 2)
        with h5py.File(path) as file:
            self.assertEqual(json.loads(file["run"].attrs["config_json"])["collective"], "reduce_scatter")
        self.assertIn("1 of 1 points are in", self.bench("reduce_scatter", 2, "-O", path).stdout)
        self.assertEqual(len(points_of(path)), len(rows))
        refused = self.bench("allgather", 2, "-O", path, "--feedback", code=2)
        self.assertIn("collective: reduce_scatter in the file, allgather now", refused.stderr)

    def test_the_head_says_what_the_size_counts_and_how_bandwidths_are_meant(self):
        for collective, what, factor in (("reduce_scatter", "the whole vector, which a rank gives; it gets a part", " (P-1)/P"),
                                         ("allgather", "the whole vector, which a rank gets; it gives a part", " (P-1)/P"),
                                         ("bcast", "the vector, which rank 0 gives and each rank gets", ","),
                                         ("reduce", "the vector, which a rank gives; rank 0 gets the sum", ",")):
            said = self.bench(collective, 2).stdout
            self.assertIn(f"# {collective}: the size counts {what}", said)
            self.assertIn(f"busbw = algbw{factor}", said)
            self.assertIn(f"uncompressed optimal {collective}", said)


if __name__ == "__main__":
    unittest.main()
