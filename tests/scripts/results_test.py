"""Tests of what reads results: figures, tables and baselines from made-up result files, refusal of bad ones.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/results_test.py
"""
import csv
import json
import os
import unittest

import h5py
import numpy as np

from scripts_common import InTemporaryFolder, call, script  # finds scripts/ for the next ones

from mpi_quant.results import reader

TEXTS = {"key": 32, "status": 12, "grade": 8, "collective": 32, "algorithm": 32, "compressor": 32, "comp_params": 96,
         "dtype": 8, "op": 8, "memory": 8, "place": 8, "model": 32, "buffers": 8, "sync": 8, "mode": 12, "base_key": 32,
         "method": 128, "link": 48, "arrival": 32, "form": 16, "start_utc": 32, "layer": 48}
NUMBERS = {"ranks": "i4", "nodes": "i4", "count": "i8", "bytes": "i8", "input_id": "i4", "launch": "i4", "reps": "i4",
           "t_median_s": "f8", "t_ci_lo_s": "f8", "t_ci_hi_s": "f8", "t_p95_s": "f8", "speedup": "f8", "speedup_lo": "f8",
           "speedup_hi": "f8", "err_rel_l2": "f8", "oversubscribed": "i1", "feedback": "i1", "ratio_achieved": "f8",
           "compute_percent": "i4", "test_interval_us": "i4", "window": "i4", "overlap": "f8", "overlap_lo": "f8", "overlap_hi": "f8",
           "matrix_side": "i8", "ratio_target": "f8", "wire_bytes_max": "i8", "layers_alike": "i4"}
POINT = np.dtype([(name, f"S{size}") for name, size in TEXTS.items()] + list(NUMBERS.items()))
INPUT = np.dtype([("input_id", "i4"), ("distribution", "S32"), ("rho", "f8")])


def point(method, size, time, **changes):
    """One row as mpiq-bench writes it; mpi at 1 ms is the baseline of the speed-ups."""
    row = np.zeros(1, dtype=POINT)[0]
    dense, algorithm = method.partition("/")[0] == "mpi", method.partition("/")[2]
    codec = "none" if dense else method.partition("(")[0]
    values = dict(
        key=f"{method}-{size}", status="ok", grade="smoke", collective="allreduce", compressor=codec, dtype="f32", op="sum",
        algorithm=(algorithm or "mpi") if dense else "direct", memory="host", matrix_side=-1, compute_percent=-1, test_interval_us=-1, ratio_achieved=1, ratio_target=1, place="out", buffers="rotate", sync="barrier", arrival="together", form="blocking", window=1,
        mode="interleaved", base_key=f"mpi-{size}", method=method, link="test", ranks=2, nodes=1, count=size // 4, bytes=size,
        reps=20, t_median_s=time, t_ci_lo_s=0.9 * time, t_ci_hi_s=1.1 * time, t_p95_s=1.5 * time, speedup=1e-3 / time,
        speedup_lo=0.9e-3 / time, speedup_hi=1.1e-3 / time, err_rel_l2=3e-8 if dense else 0.5,
        feedback=0 if dense else 1, wire_bytes_max=-1, start_utc="2026-01-01T00:00:00Z")
    values.update(changes)
    for name, value in values.items():
        row[name] = value.encode() if isinstance(value, str) else value
    return row


def sweep(**changes):
    methods = (("mpi", 1e-3), ("onebit", 2.5e-4))
    return [point(method, size, time, **changes) for size in (65536, 1 << 20) for method, time in methods]


def matrices(link="test"):
    """Two sides with every kind of method; the default of MPI is not its best, onebit is the faster earlier quantizer."""
    times = {"mpi": 1e-3, "mpi/ring": 8e-4, "mpi/slow": 2e-3, "onebit": 4e-4, "threshold(tau=3.875)": 5e-4,
             "adaptive(pi=64)": 2e-4, "adaptive": 1e-4}
    return [point(method, 4 * side * side, time * side / 64, matrix_side=side, link=link, key=f"{link}-{method}-{side}",
                  base_key=f"{link}-mpi-{side}")
            for side in (64, 128) for method, time in times.items()]


def write_results(path, rows, samples=None, **attributes):
    with h5py.File(path, "w") as file:
        head = {"schema_name": "mpi_quant.bench", "schema_version": 1, "git_commit": "0123456789abcdef", "git_dirty": 0}
        file.attrs.update({**head, **attributes})
        file.create_dataset("points", data=np.array(rows, dtype=POINT))
        if samples is not None:
            file["samples/t_max_s"] = samples
        file.create_dataset("inputs", data=np.array([(0, b"normal", 0.0)], dtype=INPUT))
        file.create_group("run").attrs["mpi_library"] = "MPICH Version: 4.0.2"
    return path


def steady(rows, repetitions=20):
    """Samples that are the median of each row, with one more column that was never measured."""
    return np.array([[row["t_median_s"]] * repetitions + [np.nan] for row in rows])


class WithResults(InTemporaryFolder):
    def plot(self, *arguments):
        """PDF files take a third of the time of a figure: they are made where they are looked at."""
        words = () if "--format" in arguments else ("--format", "png")
        return call(script("plot"), *arguments, *words, "-o", self.path("out"), env={"PYTHONDONTWRITEBYTECODE": "1"})

    def csv(self, name):
        with open(self.path("out", name), encoding="utf-8") as file:
            return list(csv.DictReader(file))


class Plot(WithResults):
    def test_the_numbers_of_a_figure_are_those_of_the_file(self):
        file = write_results(self.path("a.h5"), sweep())
        self.assertEqual(self.plot("time", file).returncode, 0)
        with open(self.path("out", "a-time.csv"), encoding="utf-8") as written:
            self.assertEqual(written.read(), (
                "link,nodes,ranks,dtype,data,method,bytes,launches,reps,drawn,t_median_s,t_ci_lo_s,t_ci_hi_s\n"
                "test,1,2,f32,normal,mpi,65536,1,20,line,0.001,0.0009,0.0011\n"
                "test,1,2,f32,normal,mpi,1048576,1,20,line,0.001,0.0009,0.0011\n"
                "test,1,2,f32,normal,onebit,65536,1,20,line,0.00025,0.000225,0.000275\n"
                "test,1,2,f32,normal,onebit,1048576,1,20,line,0.00025,0.000225,0.000275\n"))

    def test_all_plots_are_written_as_png_pdf_and_csv(self):
        done = self.plot("all", write_results(self.path("a.h5"), sweep()), "--format", "png,pdf")
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = [f"a-{plot}.{suffix}" for plot in ("busbw", "error", "speedup", "time")
                    for suffix in ("csv", "pdf", "png")]
        self.assertEqual(sorted(os.listdir(self.path("out"))), expected)

    def test_a_figure_is_the_same_bytes_when_made_again(self):
        file = write_results(self.path("a.h5"), sweep())
        images = []
        for _ in range(2):
            self.plot("speedup", file, "--format", "png,pdf")
            for suffix in ("png", "pdf"):
                with open(self.path("out", f"a-speedup.{suffix}"), "rb") as image:
                    images.append(image.read())
        self.assertEqual(images[:2], images[2:])

    def test_the_baseline_is_the_line_of_the_speedup_and_no_series(self):
        self.plot("speedup", write_results(self.path("a.h5"), sweep()))
        rows = self.csv("a-speedup.csv")
        self.assertEqual([(r["method"], r["speedup"], r["speedup_lo"]) for r in rows], [("onebit", "4", "3.6")] * 2)

    def test_the_last_row_of_a_key_wins(self):
        rows = [point("mpi", 65536, 9.0, status="failed"), point("mpi", 65536, 1e-3)]
        self.plot("time", write_results(self.path("a.h5"), rows))
        self.assertEqual([r["t_median_s"] for r in self.csv("a-time.csv")], ["0.001"])

    def test_oversubscribed_and_invalid_points_are_marked_and_not_joined(self):
        rows = [point("mpi", 65536, 1e-3), point("mpi", 131072, 1e-3, oversubscribed=1),
                point("mpi", 262144, 1e-3, status="invalid")]
        self.plot("time", write_results(self.path("a.h5"), rows))
        self.assertEqual([r["drawn"] for r in self.csv("a-time.csv")], ["line", "oversubscribed", "invalid"])

    def test_failed_points_have_no_place_in_a_figure(self):
        rows = [point("mpi", 65536, 1e-3), point("mpi", 131072, float("nan"), status="failed")]
        self.plot("time", write_results(self.path("a.h5"), rows))
        self.assertEqual([r["bytes"] for r in self.csv("a-time.csv")], ["65536"])

    def test_launches_are_summarised_by_their_median_and_order_statistics(self):
        times = [5e-3, 1e-3, 2e-3, 3e-3, 4e-3, 6e-3]
        rows = [point("mpi", 65536, time, key=f"k{i}", launch=i) for i, time in enumerate(times)]
        self.plot("time", write_results(self.path("a.h5"), rows))
        [row] = self.csv("a-time.csv")
        self.assertEqual([row[c] for c in ("launches", "reps", "t_median_s", "t_ci_lo_s", "t_ci_hi_s")],
                         ["6", "120", "0.0035", "0.001", "0.006"])

    def test_several_files_make_one_figure_with_a_panel_for_each_link(self):
        files = [write_results(self.path("a.h5"), sweep()),
                 write_results(self.path("b.h5"), [point("mpi", 65536, 2e-3, key="other", link="slow")])]
        self.assertEqual(self.plot("time", *files, "--name", "both").returncode, 0)
        self.assertEqual({r["link"] for r in self.csv("both-time.csv")}, {"test", "slow"})

    def test_rows_that_must_not_be_mixed_are_refused_until_chosen(self):
        rows = sweep() + [point("mpi", 65536, 1e-3, key="warm", buffers="warm")]
        file = write_results(self.path("a.h5"), rows)
        refused = self.plot("time", file)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("rows differ in buffers (rotate, warm)", refused.stderr)
        self.assertEqual(self.plot("time", file, "--where", "buffers=warm").returncode, 0)

    def test_a_method_looks_the_same_in_every_figure(self):
        from mpi_quant.figures import look
        variant = look.look("onebit(block=512)/direct")
        self.assertEqual(variant[0], look.look("onebit")[0])
        self.assertNotEqual(variant, look.look("onebit"))
        self.assertEqual(look.look("unheard-of"), look.look("unheard-of"))


    def test_the_fastest_of_mpis_algorithms_can_be_the_baseline(self):
        rows = sweep() + [point("mpi/ring", 65536, 5e-4, base_key="mpi-65536"), point("mpi/nb", 65536, 8e-4, base_key="mpi-65536")]
        file = write_results(self.path("a.h5"), rows, steady(rows))
        done = self.plot("speedup", file, "--baseline", "best-dense", "--format", "pdf")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(r["method"], r["bytes"], r["speedup"]) for r in self.csv("a-speedup.csv")],
                         [("onebit", "65536", "2"), ("onebit", "1048576", "4")])
        self.plot("time", file, "--baseline", "best-dense", "--format", "pdf")
        self.assertEqual([r["t_median_s"] for r in self.csv("a-time.csv") if r["method"] == "mpi/fastest"], ["0.0005", "0.001"])

    def test_without_samples_there_is_no_other_baseline(self):
        done = self.plot("speedup", write_results(self.path("a.h5"), sweep()), "--baseline", "best-dense")
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no samples", done.stderr)

    def test_matrices_are_drawn_against_their_side_with_what_adaptive_gains(self):
        files = []
        for link in ("slow", "fast"):
            rows = matrices(link)
            files.append(write_results(self.path(f"{link}.h5"), rows, steady(rows)))
        done = self.plot("paper", *files, "--name", "p", "--baseline", "best-dense")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [r for r in self.csv("p-paper.csv") if r["link"] == "slow"]
        self.assertEqual(sorted({(r["method"], r["matrix_side"]) for r in rows}),
                         sorted((method, side) for side in ("64", "128") for method in
                                ("adaptive", "adaptive(pi=64)", "mpi/fastest", "onebit", "threshold(tau=3.875)")))
        self.assertEqual([r["t_median_s"] for r in rows if r["method"] == "mpi/fastest"], ["0.0008", "0.0016"])

    def test_a_plot_of_matrices_without_matrices_is_refused_and_left_out_of_all(self):
        file = write_results(self.path("a.h5"), sweep())
        done = self.plot("paper", file)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no row is of a matrix", done.stderr)

    def test_methods_of_one_figure_look_different(self):
        from mpi_quant.figures import look
        methods = ["mpi"] + [f"mpi/{name}" for name in ("nb", "smp", "recursive_doubling", "reduce_scatter_allgather", "ring")]
        self.assertEqual(len({look[:2] for look in look.looks(methods, ["f32"]).values()}), len(methods))
        self.assertEqual(look.looks(["onebit"], ["f32"])["onebit"][:3], look.look("onebit"))


class Baseline(WithResults):
    def test_the_interval_is_that_of_the_harness(self):
        for n, rank in ((6, 1), (10, 2), (20, 6), (30, 10), (100, 40), (10000, 4902)):
            self.assertEqual(reader.median_interval(np.arange(1.0, n + 1)), (rank, n + 1 - rank), n)
        self.assertTrue(np.isnan(reader.median_interval([1.0] * 5)).all())

    def test_speedups_over_another_row_are_medians_of_paired_ratios(self):
        rows = [point("mpi", 65536, 1e-3), point("onebit", 65536, 5e-4), point("bf16", 65536, 8e-4)]
        drift = np.exp(0.1 * np.arange(20))
        samples = np.array([row["t_median_s"] * drift for row in rows])
        rebased = reader.rebased(reader.read(write_results(self.path("a.h5"), rows, samples)),
                                       lambda points: points["compressor"] == "bf16")
        self.assertTrue(np.allclose(rebased.points["speedup"], [0.8, 1.6, 1.0]))
        self.assertTrue(np.allclose(rebased.points["speedup_hi"], rebased.points["speedup"]), "drift is common to all")
        self.assertEqual(set(rebased.points["base_key"]), {"bf16-65536"})

    def test_rows_that_were_not_measured_together_are_not_compared(self):
        rows = [point("mpi", 65536, 1e-3), point("onebit", 65536, 5e-4, start_utc="2026-01-02T00:00:00Z")]
        rebased = reader.rebased(reader.read(write_results(self.path("a.h5"), rows, steady(rows))), reader.dense)
        self.assertEqual(rebased.points["speedup"][0], 1)
        self.assertTrue(np.isnan(rebased.points["speedup"][1]))

    def test_samples_belong_to_the_last_row_of_a_key(self):
        rows = [point("onebit", 65536, 9.0), point("mpi", 65536, 1e-3), point("onebit", 65536, 5e-4)]
        results = reader.read(write_results(self.path("a.h5"), rows, steady(rows)))
        self.assertEqual(list(results.samples[:, 0]), [1e-3, 5e-4])


class Tables(WithResults):
    def test_sizes_are_compared_with_the_best_of_mpi_and_say_which_it_was(self):
        from mpi_quant.report import tables
        rows = sweep() + [point("mpi/ring", 65536, 5e-4, base_key="mpi-65536")]
        points = tables.over_dense(reader.read(write_results(self.path("a.h5"), rows, steady(rows))))
        self.assertEqual(tables.times(points, "bytes", reader.bytes_label, "vector").splitlines()[2:],
                         ["| 64 KiB | 500.000 us (ring) | 250.000 us, 2.00 [2.00, 2.00] |",
                          "| 1 MiB | 1.000 ms | 250.000 us, 4.00 [4.00, 4.00] |"])
        self.assertEqual(tables.errors(points), "rel_err: onebit 5.0e-01")

    def test_a_cell_is_the_median_of_launches_and_its_interval_spans_them(self):
        from mpi_quant.report import tables
        rows = []
        for launch, time in enumerate((1e-3, 3e-3, 2e-3)):
            rows += [point("mpi", 65536, time, key=f"mpi {launch}", base_key=f"mpi {launch}", launch=launch),
                     point("onebit", 65536, 5e-4, key=f"onebit {launch}", base_key=f"mpi {launch}", launch=launch)]
        points = tables.over_dense(reader.read(write_results(self.path("a.h5"), rows, steady(rows))))
        for i, speedup in ((1, 2), (3, 6), (5, 4)):
            for column in ("speedup", "speedup_lo", "speedup_hi"):
                points[column][i] = speedup
        self.assertEqual(tables.times(points, "bytes", reader.bytes_label, "vector").splitlines()[2:],
                         ["| 64 KiB | 2.000 ms | 500.000 us, 4.00 [2.00, 6.00] |"])

    def test_kernels_have_a_line_a_codec_and_a_column_an_instruction_set(self):
        from mpi_quant.report import tables
        names = ("a/encode+feedback/f32/scalar", "a/encode+feedback/f32/avx2", "a/decode+add/f32/avx2", "a/encode/f32/avx2",
                 "b/decode+add/f32/scalar", "b/decode+add/f64/scalar")
        with open(self.path("k.json"), "w", encoding="utf-8") as file:
            json.dump({"benchmarks": [{"name": f"{name}/65536KiB/manual_time", "of_triad": i / 10} for i, name in
                                      enumerate(names)] + [{"name": "a/decode+add/f32/avx2/256KiB", "of_triad": 9}]}, file)
        self.assertEqual(tables.kernels(self.path("k.json")).splitlines()[2:],
                         ["| a | 0.00 | 0.10 |  | 0.20 |", "| b |  |  | 0.40 |  |"])

    def test_quality_leaves_out_lossless_codecs_and_variants_that_change_no_error(self):
        from mpi_quant.report import tables
        with open(self.path("q.csv"), "w", encoding="utf-8") as file:
            file.write("method,data,elements,bytes_per_element,rel_err,optimum,over_optimum,calls,residual\n"
                       "raw,normal,9,4,0,,,5,0\n"
                       "a,normal,9,0.5,0.25,0.2,1.25,5,0.75\n"
                       "a(format=u32),normal,9,0.7,0.25,0.2,1.25,5,0.75\n"
                       '"a(b=1,c=2)",normal,9,0.5,0.5,,,5,1.5\n')
        self.assertEqual(tables.quality(self.path("q.csv")).splitlines(),
                         ["| rel_err of one encode (over the optimum's) | bytes/element, normal | normal | "
                          "residual after 5 calls, normal |", "| --- | --- | --- | --- |",
                          "| a | 0.5 | 0.25 (1.25) | 0.75 |", "| a(b=1,c=2) | 0.5 | 0.5 | 1.5 |"])


    def test_entropy_says_what_it_takes_off_and_up_to_which_rate_it_pays(self):
        from mpi_quant.report import tables
        with open(self.path("e.csv"), "w", encoding="utf-8") as file:
            file.write("data,method,fixed_bytes,fixed_encode_ns,fixed_decode_ns,entropy_bytes,entropy_encode_ns,entropy_decode_ns\n"
                       "x/0,a,0.5,0.25,0.25,0.25,0.75,0.75\n"
                       "y/1,a,0.5,0.25,0.25,0.375,0.75,0.75\n")
        # At 1 Gbit/s, 4 bits and 0.5 ns become 2 or 3 bits and 1.5 ns. Saved are 2 bits or 1 bit for 1 ns.
        self.assertEqual(tables.entropy(self.path("e.csv")).splitlines(),
                         ["| codec | bytes | less on x/0 | less on y/1 | encode, ns | decode, ns | faster at 0.1 Gbit/s | faster at 1 Gbit/s | "
                          "faster at 10 Gbit/s | pays below, Gbit/s |", "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
                          "| `a` | 0.5 | 50 % | 25 % | 0.25 → 0.75 | 0.25 → 0.75 | 1.29 to 1.88 | 1.00 to 1.29 | 0.50 to 0.53 | 1.0 to 2.0 |"])


class BadFiles(WithResults):
    def refused(self, path, reason, *arguments, code=1):
        done = self.plot("all", path, *arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(path, done.stderr)
        self.assertIn(reason, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_a_missing_file_is_named(self):
        self.refused(self.path("none.h5"), "no such file", code=2)

    def test_an_empty_file_is_named(self):
        open(self.path("a.h5"), "wb").close()
        self.refused(self.path("a.h5"), "is empty")

    def test_a_file_that_is_not_hdf5_is_named(self):
        with open(self.path("a.h5"), "w", encoding="utf-8") as file:
            file.write("size,time\n")
        self.refused(self.path("a.h5"), "not an HDF5 file")

    def test_a_truncated_file_is_named(self):
        path = write_results(self.path("a.h5"), sweep())
        os.truncate(path, os.path.getsize(path) // 2)
        self.refused(path, "damaged HDF5 file")

    def test_another_schema_is_refused(self):
        self.refused(write_results(self.path("a.h5"), sweep(), schema_name="other"), "schema_name is 'other'")

    def test_another_version_is_refused(self):
        self.refused(write_results(self.path("a.h5"), sweep(), schema_version=2), "schema version 2")

    def test_a_file_without_rows_is_refused(self):
        self.refused(write_results(self.path("a.h5"), []), "has no rows")

    def test_missing_columns_are_named(self):
        path = write_results(self.path("a.h5"), sweep())
        with h5py.File(path, "a") as file:
            table = file["points"][...]
            del file["points"]
            file["points"] = table[[name for name in table.dtype.names if name != "speedup_lo"]]
        self.refused(path, "lacks the columns speedup_lo")

    def test_an_empty_selection_is_refused(self):
        self.refused(write_results(self.path("a.h5"), sweep()), "no rows match", "--where", "ranks=64")

    def test_rows_without_a_time_are_no_figure(self):
        rows = [point("mpi", 65536, float("nan"), status="skipped")]
        self.refused(write_results(self.path("a.h5"), rows), "no rows to draw")

    def test_an_unknown_plot_is_a_usage_error(self):
        self.assertEqual(self.plot("pie", write_results(self.path("a.h5"), sweep())).returncode, 2)


class Table(WithResults):
    def test_the_table_has_a_line_for_every_row(self):
        rows = sweep() + [point("mpi", 2 << 20, 1e-3, oversubscribed=1)]
        text = reader.table(reader.read(write_results(self.path("a.h5"), rows)))
        self.assertEqual(len(text.splitlines()), 1 + len(rows))
        self.assertIn("250.000 us", text)
        self.assertIn("more ranks than cores", text)


if __name__ == "__main__":
    unittest.main()
