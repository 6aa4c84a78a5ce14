"""Tests of scripts/: figures from a made-up result file, refusal of bad files, planted violations, argument errors.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts_test.py
"""
import csv
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
SCRIPTS = os.path.join(ROOT, "scripts")
sys.path.insert(0, SCRIPTS)
sys.dont_write_bytecode = True  # leave no files in scripts/

import mpiq_results  # noqa: E402

TEXTS = {"key": 32, "status": 12, "grade": 8, "collective": 32, "algorithm": 32, "compressor": 32, "comp_params": 96,
         "dtype": 8, "op": 8, "memory": 8, "place": 8, "model": 32, "buffers": 8, "sync": 8, "mode": 12, "base_key": 32,
         "method": 128, "link": 48}
NUMBERS = {"ranks": "i4", "nodes": "i4", "count": "i8", "bytes": "i8", "input_id": "i4", "launch": "i4", "reps": "i4",
           "t_median_s": "f8", "t_ci_lo_s": "f8", "t_ci_hi_s": "f8", "t_p95_s": "f8", "speedup": "f8", "speedup_lo": "f8",
           "speedup_hi": "f8", "err_rel_l2": "f8", "oversubscribed": "i1", "feedback": "i1"}
POINT = np.dtype([(name, f"S{size}") for name, size in TEXTS.items()] + list(NUMBERS.items()))
INPUT = np.dtype([("input_id", "i4"), ("distribution", "S32"), ("rho", "f8")])


def point(method, size, time, **changes):
    """One row as mpiq-bench writes it; mpi at 1 ms is the baseline of the speedups."""
    row = np.zeros(1, dtype=POINT)[0]
    codec = "none" if method == "mpi" else method
    values = dict(
        key=f"{method}-{size}", status="ok", grade="smoke", collective="allreduce", compressor=codec, dtype="f32", op="sum",
        algorithm="mpi" if method == "mpi" else "direct", memory="host", place="out", buffers="rotate", sync="barrier",
        mode="interleaved", base_key=f"mpi-{size}", method=method, link="test", ranks=2, nodes=1, count=size // 4, bytes=size,
        reps=20, t_median_s=time, t_ci_lo_s=0.9 * time, t_ci_hi_s=1.1 * time, t_p95_s=1.5 * time, speedup=1e-3 / time,
        speedup_lo=0.9e-3 / time, speedup_hi=1.1e-3 / time, err_rel_l2=3e-8 if method == "mpi" else 0.5,
        feedback=0 if method == "mpi" else 1)
    values.update(changes)
    for name, value in values.items():
        row[name] = value.encode() if isinstance(value, str) else value
    return row


def sweep(**changes):
    methods = (("mpi", 1e-3), ("onebit", 2.5e-4))
    return [point(method, size, time, **changes) for size in (65536, 1 << 20) for method, time in methods]


def write_results(path, rows, **attributes):
    with h5py.File(path, "w") as file:
        head = {"schema_name": "mpi_quant.bench", "schema_version": 1, "git_commit": "0123456789abcdef", "git_dirty": 0}
        file.attrs.update({**head, **attributes})
        file.create_dataset("points", data=np.array(rows, dtype=POINT))
        file.create_dataset("inputs", data=np.array([(0, b"normal", 0.0)], dtype=INPUT))
        file.create_group("run").attrs["mpi_library"] = "MPICH Version: 4.0.2"
    return path


def call(*command, env=None):
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})})


def script(name):
    return os.path.join(SCRIPTS, name)


class InTemporaryFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="mpiq-scripts-test-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def plot(self, *arguments):
        return call(script("plot"), *arguments, "-o", self.path("out"), env={"PYTHONDONTWRITEBYTECODE": "1"})

    def csv(self, name):
        with open(self.path("out", name), encoding="utf-8") as file:
            return list(csv.DictReader(file))


class Plot(InTemporaryFolder):
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
        done = self.plot("all", write_results(self.path("a.h5"), sweep()))
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = [f"a-{plot}.{suffix}" for plot in ("error", "speedup", "time") for suffix in ("csv", "pdf", "png")]
        self.assertEqual(sorted(os.listdir(self.path("out"))), expected)

    def test_a_figure_is_the_same_bytes_when_made_again(self):
        file = write_results(self.path("a.h5"), sweep())
        images = []
        for _ in range(2):
            self.plot("speedup", file)
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
        import mpiq_figure
        variant = mpiq_figure.look("onebit(block=512)/direct")
        self.assertEqual(variant[0], mpiq_figure.look("onebit")[0])
        self.assertNotEqual(variant, mpiq_figure.look("onebit"))
        self.assertEqual(mpiq_figure.look("unheard-of"), mpiq_figure.look("unheard-of"))


class BadFiles(InTemporaryFolder):
    def refused(self, path, reason, *arguments):
        done = self.plot("all", path, *arguments)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(path, done.stderr)
        self.assertIn(reason, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_a_missing_file_is_named(self):
        self.refused(self.path("none.h5"), "no such file")

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


class Table(InTemporaryFolder):
    def test_the_table_has_a_line_for_every_row(self):
        rows = sweep() + [point("mpi", 2 << 20, 1e-3, oversubscribed=1)]
        text = mpiq_results.table(mpiq_results.read(write_results(self.path("a.h5"), rows)))
        self.assertEqual(len(text.splitlines()), 1 + len(rows))
        self.assertIn("250.000 us", text)
        self.assertIn("more ranks than cores", text)


class Layers(InTemporaryFolder):
    def check(self, path, text):
        full = self.path(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)
        return call(script("check_layers"), "--root", self.folder)

    def planted(self, path, text, *reports):
        done = self.check(path, text)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(len(done.stdout.splitlines()), len(reports), done.stdout)
        for line, report in zip(done.stdout.splitlines(), reports):
            self.assertIn(f"{path}:{report}", line)

    def clean(self, path, text):
        done = self.check(path, text)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_kernels_must_not_include_the_library(self):
        self.planted("kernels/a.hpp", '// a\n#include "mpi_quant/plan.hpp"\n', "2: kernels/ must not include mpi_quant/plan.hpp")

    def test_hdf5_stays_out_of_the_library_that_every_program_loads(self):
        self.clean("mpi_quant/hdf5/a.hpp", '// a\n#include <hdf5.h>\n#include "mpi_quant/base/status.hpp"\n')
        self.planted("mpi_quant/b.hpp", '// b\n#include <hdf5.h>\n#include "mpi_quant/hdf5/a.hpp"\n',
                     "2: includes <hdf5.h>", "3: mpi_quant/ must not include mpi_quant/hdf5/a.hpp")

    def test_a_relative_include_does_not_hide_its_layer(self):
        self.clean("mpi_quant/plan.hpp", "// plan\n")
        self.planted("mpi_quant/base/a.hpp", '// a\n#include "../plan.hpp"\n', "2: mpi_quant/base/ must not include mpi_quant/plan")

    def test_lower_layers_and_the_own_folder_may_be_included(self):
        self.clean("mpi_quant/a.hpp",
                   '// a\n#include "kernels/codec.hpp"\n#include "mpi_quant/base/status.hpp"\n#include "b.hpp"\n#include <mpi.h>\n')

    def test_the_public_header_is_for_the_library_itself_the_benchmark_and_the_tests(self):
        self.clean("mpi_quant/include/mpi_quant.h", "/* a */\n")
        self.clean("tests/a.cpp", '// a\n#include <mpi_quant.h>\n')
        self.planted("sparse_allreduce/a.cpp", '// a\n#include "mpi_quant.h"\n', "2: sparse_allreduce/ must not include")

    def test_bench_and_tests_do_not_include_each_other(self):
        self.clean("tests/bench_test.cpp", '// a\n#include "bench/stats.hpp"\n')
        self.planted("tests/plan_test.cpp", '// a\n#include "bench/stats.hpp"\n', "2: tests/ must not include bench/stats.hpp")

    def test_bench_does_not_include_tests(self):
        self.planted("bench/a.cpp", '// a\n#include "tests/inputs.hpp"\n', "2: bench/ must not include tests/inputs.hpp")

    def test_kernels_name_no_mpi_symbol(self):
        self.planted("kernels/a.cpp", "// MPI_Send in a comment is fine\nint x = MPI_INT;\n",
                     "2: kernels/ must not know MPI: names MPI_INT")

    def test_kernels_do_not_include_mpi(self):
        self.planted("kernels/a.cpp", "// a\n#include <mpi.h>\n", "2: kernels/ must not know MPI: includes <mpi.h>")

    def test_cuda_stays_in_its_folder(self):
        self.clean("kernels/cuda/a.cu", "// a\n#include <cuda_runtime.h>\n")
        self.planted("mpi_quant/a.cpp", "// a\n#include <cuda_runtime.h>\n", "2: includes <cuda_runtime.h>")

    def test_the_library_calls_pmpi_only(self):
        self.planted("mpi_quant/a.cpp", 
                     "// a\nint f(MPI_Comm c) {\n  PMPI_Barrier(c);\n  return MPI_Barrier(c) + MPI_Count(1);\n}\n",
                     "4: calls MPI_Barrier")

    def test_the_shim_defines_mpi_functions_and_calls_none(self):
        self.planted("mpi_quant/pmpi/shim.cpp",
                     "// a\nint MPI_Allreduce(int a) {\n  return MPI_Barrier(a);\n}\n", "3: calls MPI_Barrier")

    def test_the_environment_is_read_in_one_file(self):
        self.clean("mpi_quant/base/env.cpp", '// a\nauto a = getenv("A");\n')
        self.planted("mpi_quant/policy.cpp", '// a\nauto a = std::getenv("A");\n', "2: reads the environment")

    def test_virtual_functions_are_reported(self):
        self.planted("kernels/a.hpp", "// virtual in a comment is fine\nstruct A {\n  virtual void f();\n};\n", "3: virtual")

    def test_instruction_set_flags_are_reported(self):
        self.clean("cmake/a.cmake", "# -mavx2 in a comment is fine\nset(a x86-march)\n")
        self.planted("kernels/CMakeLists.txt", "set(f -O3 -mavx2)\n", "1: -mavx2")

    def test_a_source_begins_with_a_comment(self):
        self.planted("kernels/a.cpp", "#include <vector>\n", "1: does not begin with a // comment")

    def test_long_files_need_a_reason(self):
        self.clean("mpi_quant/a.hpp", "// long on purpose: a table\n" + "int a;\n" * 400)
        self.planted("mpi_quant/b.hpp", "// b\n" + "int a;\n" * 400, "401: 401 lines")

    def test_long_functions_are_reported_at_their_first_line(self):
        text = "// a\nnamespace b {{\nstruct S {{\n  int f(\n      int a) {{\n{}  }}\n}};\n}}\n"
        self.clean("mpi_quant/a.cpp", text.format("    if (a) {\n      g();\n    }\n" * 19))  # 60 lines
        self.planted("mpi_quant/b.cpp", text.format("    g();\n" * 58), "4: function of 61 lines")

    def test_long_scripts_functions_are_reported(self):
        self.planted("scripts/a", "#!/bin/bash\nf() {\n" + "  true\n" * 60 + "}\n", "2: function of 62 lines")


class Lab(unittest.TestCase):
    def usage_error(self, *arguments, text, **env):
        done = call(script("lab"), *arguments, env=env)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(text, done.stderr)
        self.assertIn("usage:", done.stderr)

    def test_arguments_are_checked_before_anything_is_made(self):
        self.usage_error(text="what to do?")
        self.usage_error("explode", text="unknown command 'explode'")
        self.usage_error("up", text="number of hosts")
        self.usage_error("up", "two", text="not 'two'")
        self.usage_error("up", "2", "fast", text="RATE=fast")
        self.usage_error("run", "2", text="which command?")
        self.usage_error("run", "x", "true", text="number of ranks")
        self.usage_error("with", "2", "1gbit", "2", text="expected N RATE NP CMD")
        self.usage_error("exec", "1", text="expected HOST CMD")

    def test_a_name_too_long_for_an_interface_is_refused(self):
        self.usage_error("down", text="LAB_PREFIX=averylongname", LAB_PREFIX="averylongname")

    def test_help_goes_to_standard_output(self):
        done = call(script("lab"), "--help")
        self.assertEqual((done.returncode, done.stdout[:6]), (0, "usage:"))


# A dpkg-query for which everything is installed but mpich.
ALL_BUT_MPICH = 'for name; do :; done; [ "$name" = mpich ] && exit 1; echo installed'


class Setup(InTemporaryFolder):
    def with_tools(self, **tools):
        """A PATH with these made-up commands before the real ones."""
        for name, text in tools.items():
            path = self.path(name.replace("_", "-"))
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\n{text}\n")
            os.chmod(path, 0o755)
        return {"PATH": self.folder + ":/usr/bin:/bin"}

    def test_nothing_is_said_if_nothing_is_missing(self):
        done = call(script("setup"), env=self.with_tools(dpkg_query="echo installed"))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_missing_packages_are_named_where_they_cannot_be_installed(self):
        tools = self.with_tools(dpkg_query=ALL_BUT_MPICH, id="echo 1000", sudo="exit 1", apt_get="echo never >&2; exit 9")
        done = call(script("setup"), env=tools)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("missing packages: mpich\n", done.stderr)
        self.assertIn("apt-get install --no-install-recommends mpich", done.stderr)
        self.assertNotIn("never", done.stderr)

    def test_a_removed_package_whose_configuration_is_left_is_missing(self):
        tools = self.with_tools(dpkg_query="echo config-files", id="echo 1000", sudo="exit 1")
        self.assertEqual(call(script("setup"), "run", env=tools).returncode, 3)

    def test_as_root_only_what_is_missing_is_installed_after_one_update(self):
        log = self.path("log")
        tools = self.with_tools(dpkg_query=ALL_BUT_MPICH, id="echo 0", apt_get=f'echo "$@" >>{log}')
        self.assertEqual(call(script("setup"), "run", env=tools).returncode, 0)
        with open(log, encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines(), ["-q update", "-q install -y --no-install-recommends mpich"])

    def test_an_unknown_group_is_a_usage_error(self):
        self.assertEqual(call(script("setup"), "kitchen").returncode, 2)


class Run(unittest.TestCase):
    def test_unknown_arguments_are_refused_before_anything_is_built(self):
        for name, arguments in (("run", ["--fast"]), ("run", ["--ranks", "many"]), ("test", ["--preset", "quick"])):
            done = call(script(name), *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))


if __name__ == "__main__":
    unittest.main()
