"""mpiq-bench and mpiq-kernels with vectors in the memory of a GPU, over the tests' driver: what rows a file has, and that
scripts/check_results accepts it. Times are never looked at.

Run by CTest, which says where things are: MPIQ_BENCH, MPIQ_KERNELS, MPIEXEC (with its options for the number of ranks), FAKE_CUDA
(the folder of the driver).
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
WITH_GPU = {"LD_LIBRARY_PATH": os.environ["FAKE_CUDA"] + ":" + os.environ.get("LD_LIBRARY_PATH", "")}
LIMIT_S = 120


def run(*command, env=None):
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S, env={**os.environ, **(env or {})})


class Cuda(WithFiles):
    def bench(self, *options, ranks=2, code=0, env=None, collective="allreduce"):
        done = run(*MPIEXEC, str(ranks), BENCH, collective, "--sizes", "16K", "-n", "6", "-w", "1", "--buffers", "warm", *options,
                   env={**WITH_GPU, **(env or {})})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def measured(self, *options, **how):
        path = self.path("out.h5")
        if os.path.exists(path):
            os.remove(path)
        self.bench("-O", path, *options, **how)
        done = tool("check_results", path)
        self.assertEqual(done.returncode, 0, done.stdout)
        return points_of(path)

    def test_rows_say_where_the_vectors_were_and_errors_are_those_of_the_host(self):
        methods = ("--methods", "mpi,bf16,onebit")
        rows = self.measured("--memory", "cuda", *methods)
        self.assertEqual((set(rows["memory"]), set(rows["status"]), set(rows["n_wrong"])), ({b"cuda"}, {b"ok"}, {0}))
        self.assertEqual(set(rows["algorithm"][rows["method"] == b"mpi"]), {b"mpi"})
        with h5py.File(self.path("out.h5")) as file:
            gpus, ranks = file["run/gpus"][...], file["run/ranks"][...]
            self.assertEqual(json.loads(file["run"].attrs["config_json"])["memory"], "cuda")
        self.assertEqual((len(gpus), set(ranks["gpu_uuid"])), (1, set(gpus["gpu_uuid"])))
        self.assertTrue(gpus["gpu_uuid"][0].startswith(b"GPU-") and gpus["name"][0])
        host = self.measured(*methods)
        self.assertEqual(dict(zip(rows["method"], rows["err_rel_l2"])), dict(zip(host["method"], host["err_rel_l2"])))
        self.assertEqual(set(host["key"]) & set(rows["key"]), set())
        with h5py.File(self.path("out.h5")) as file:
            self.assertNotIn("gpus", file["run"])
            self.assertNotIn("memory", json.loads(file["run"].attrs["config_json"]))

    def test_parts_of_vectors_are_right_in_place_and_out_of_place(self):
        for collective in ("reduce_scatter", "allgather"):
            for words in ((), ("--in-place",)):
                rows = self.measured("--memory", "cuda", "--methods", "mpi,bf16", *words, ranks=3, collective=collective)
                self.assertEqual((set(rows["collective"]), set(rows["status"]), set(rows["n_wrong"])), ({collective.encode()}, {b"ok"}, {0}))
                self.assertLess(rows["err_rel_l2"].max(), 0.01)

    def test_in_place_and_three_ranks_and_other_types(self):
        rows = self.measured("--memory", "cuda", "--in-place", "--methods", "mpi,bf16", "--dtype", "f32,f64", ranks=3)
        self.assertEqual((set(rows["place"]), set(rows["n_wrong"]), len(rows)), ({b"in"}, {0}, 4))
        rows = self.measured("--memory", "cuda", "--methods", "bf16", "--dtype", "bf16", "--baseline", "bf16")
        self.assertEqual(set(rows["status"]), {b"ok"})

    def test_what_cannot_be_measured_here_is_skipped_and_says_why(self):
        rows = self.measured("--memory", "cuda", "--methods", "mpi,mpi-direct,nccl")
        said = {row["method"]: (row["status"], row["note"]) for row in rows}
        self.assertEqual(said[b"mpi"][0], b"ok")
        for method, words in ((b"mpi-direct", b"MPI"), (b"nccl", b"NCCL")):
            self.assertEqual(said[method][0], b"skipped")
            self.assertIn(words, said[method][1])
        self.assertTrue(np.isnan(rows["t_median_s"][rows["method"] == b"nccl"]).all())

    def test_phases_are_of_the_clock_of_the_gpu_if_it_was_asked(self):
        phases = ("--memory", "cuda", "--methods", "mpi,bf16", "--phases")
        self.assertRegex(self.bench(*phases), "phases: wait .*; on the GPU, beside it: encode .*, decode ")
        self.assertIn("beside it: not measured", self.bench(*phases, env={"MPIQ_CUDA_TIME": "off"}))

    def test_a_machine_without_a_driver_says_so_on_one_rank(self):
        out = self.bench("--memory", "cuda", code=2, env={"LD_LIBRARY_PATH": ""})
        self.assertEqual(out.count("libcuda.so.1"), 1, out)
        self.assertIn("--memory cuda", self.bench("--methods", "mpi,nccl", code=2))
        self.assertIn("none of", self.bench("--memory", "disk", code=2))

    def test_kernels_have_cases_on_a_gpu(self):
        path = self.path("kernels.json")
        done = run(os.environ["MPIQ_KERNELS"], "--memory", "cuda", "--benchmark_filter=^bf16/decode/f32/cuda/4096KiB",
                   f"--benchmark_out={path}", "--benchmark_out_format=json", env={**WITH_GPU, "FAKE_CUDA_EAGER": "1"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        self.assertTrue(result["context"]["gpu"])
        case, = result["benchmarks"]
        self.assertNotIn("error_occurred", case)
        self.assertTrue(case["of_copy"] > 0 and abs(case["wire_B/elt"] - 2) < 0.01, case)
        self.assertEqual(run(os.environ["MPIQ_KERNELS"], "--memory", "disk").returncode, 2)


if __name__ == "__main__":
    unittest.main()
