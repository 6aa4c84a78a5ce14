"""Tests of scripts/gpu_check as far as they need no GPU and no build: options, the list of stages, what it makes of results.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/gpu_check_test.py
"""
import json
import os
import subprocess
import unittest

from scripts_common import InTemporaryFolder, call, script

# The column of the speed-up is where bench/console.cpp has it.
ROWS = """# mpiq-bench
#       size              count type  ranks method                    ratio        time    +-%    algbw    busbw speed-up [low, high]
    67108864     64M   16777216  f32      2 mpi                           1   20.10 ms    1.0     3.34     3.34       1 [1, 1]   2.8e-08      0
    67108864     64M   16777216  f32      2 onebit                    30.91   2.40 ms    1.0     27.9     27.9    8.37 [8.3, 8.5]   6.0e-01      0
#   phases: encode 1 ms, wait 1 ms, decode 1 ms, other 1 ms
"""


def case(name, share):
    return {"name": f"{name}/f32/cuda/1048576KiB/min_time:0.100/manual_time", "run_name": name, "iterations": 10, "real_time": 1.5,
            "copy_GB/s": 3900.0, "of_copy": share, "wire_B/elt": 2.0}


# Another launch, whose mpi was slower.
OTHER_ROWS = """# mpiq-bench
    67108864     64M   16777216  f32      2 mpi                           1   90.10 ms    1.0     3.34     3.34       1 [1, 1]   2.8e-08      0
    67108864     64M   16777216  f32      2 topk                      99.10   9.40 ms    1.0     27.9     27.9    9.58 [9.3, 9.8]   6.0e-01      0
"""


KERNELS = {"onebit/encode+feedback": 0.93, "onebit/decode+add": 0.95, "bf16/encode": 0.96, "bf16/decode": 0.94,
           "int8/encode+feedback": 0.91, "mxfp8/encode+feedback": 0.92, "mxfp4/encode+feedback": 0.9,
           "threshold/encode+feedback": 0.75, "adaptive/encode+feedback": 0.74, "topk/encode": 0.61, "threshold/decode": 0.65,
           "topk/decode": 0.62}


class GpuCheck(InTemporaryFolder):
    def test_help_and_stages_need_nothing(self):
        done = call(script("gpu_check"), "--help")
        self.assertEqual((done.returncode, "--pack" in done.stdout), (0, True), done.stderr)
        done = call(script("gpu_check"), "--dry-run", "--out", self.path("none"))
        self.assertEqual(done.returncode, 0, done.stderr)
        stages = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual([s[0] for s in stages],
                         ["configure", "build", "kernels", "allreduce", "sharing", "rows", "calls", "streams", "ptx", "memcheck", "racecheck",
                          "initcheck", "synccheck"])
        self.assertTrue(all(s[2] == "s" and 10 <= int(s[1]) <= 300 for s in stages), stages)
        self.assertLess(sum(int(s[1]) for s in stages), 14 * 60, "a stage that is slow must leave the others their time")
        self.assertFalse(os.path.exists(self.path("none")))
        done = call(script("gpu_check"), "--dry-run", "--stages", "rows,build")
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], ["build", "rows"])

    def test_usage_errors(self):
        for words in (("--nonsense",), ("--stages", "rows,none"), ("--minutes", "0"), ("--minutes", "x"), ("--out",)):
            done = call(script("gpu_check"), *words)
            self.assertEqual((done.returncode, "usage:" in done.stderr), (2, True), words)

    def test_without_what_it_needs_it_says_what(self):
        done = call(script("gpu_check"), "--stages", "configure", "--out", self.path("out"), "--build", self.path("build"),
                    "--deps", self.path("none.tar.gz"), env={"MPIQ_GPU_DEPS": "1"})
        self.assertEqual(done.returncode, 1, done.stdout)
        with open(self.path("out/configure.log"), encoding="utf-8") as file:
            self.assertIn("gpu_check --pack", file.read())

    def test_a_copied_pack_is_unpacked_once_and_again_when_it_is_newer(self):
        root = self.path("root")
        os.makedirs(self.path("pack"))
        for name, text in (("GLIBC", "2.1\n"), ("PACKAGES", "mpich 1\n")):
            with open(self.path("pack/" + name), "w", encoding="utf-8") as file:
                file.write(text)
        subprocess.run(["tar", "-C", self.path("pack"), "-czf", self.path("deps.tar.gz"), "."], check=True)

        def unpack():
            words = f"source {script('gpu_pack.sh')}; unpack {self.path('deps.tar.gz')} {root}"
            return subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
        self.assertEqual(unpack().returncode, 0)
        os.remove(root + "/PACKAGES")
        self.assertEqual((unpack().returncode, os.path.exists(root + "/PACKAGES")), (0, False))
        os.utime(self.path("deps.tar.gz"), (2 ** 32, 2 ** 32))
        self.assertEqual((unpack().returncode, os.path.exists(root + "/PACKAGES")), (0, True))
        with open(self.path("pack/GLIBC"), "w", encoding="utf-8") as file:
            file.write("99.1\n")
        subprocess.run(["tar", "-C", self.path("pack"), "-czf", self.path("deps.tar.gz"), "."], check=True)
        os.utime(self.path("deps.tar.gz"), (2 ** 32, 2 ** 32))
        done = unpack()
        self.assertEqual((done.returncode, "need glibc 99.1" in done.stdout), (1, True), done.stdout)

    def allreduce(self, failing):
        """Runs the stage with a launcher that fails at the launch of that number: exit code, arguments of each launch."""
        tools, out = self.path("tools"), self.path("out")
        os.makedirs(tools, exist_ok=True)
        for name in ("mpicc.mpich", "mpiexec.mpich"):
            with open(os.path.join(tools, name), "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\necho "$*" >>{self.path("log")}; echo row; [ $(wc -l <{self.path("log")}) != {failing} ]\n')
            os.chmod(os.path.join(tools, name), 0o755)
        with open(self.path("log"), "w", encoding="utf-8"):
            pass
        done = call(script("gpu_check"), "--stage", "allreduce", "--out", out, "--build", self.path("build"), "--deps",
                    self.path("none"), env={"PATH": tools + ":" + os.environ["PATH"], "MPIQ_GPU_DEPS": ""})
        with open(self.path("log"), encoding="utf-8") as file:
            return done.returncode, [line.split() for line in file]

    def test_the_most_important_methods_are_launched_first_and_alone(self):
        code, launches = self.allreduce(failing=0)
        self.assertEqual(code, 0, launches)
        methods = [words[words.index("--methods") + 1].split(",") for words in launches]
        self.assertEqual([m[0] for m in methods], ["mpi"] * 3)
        self.assertIn("onebit", methods[0])
        self.assertEqual(len(sum(methods, [])), len(set(sum(methods, []))) + 2, "a method is in two launches")
        files = [words[words.index("-O") + 1] for words in launches]
        self.assertEqual([os.path.basename(f) for f in files], [f"allreduce-{n}.h5" for n in (1, 2, 3)])
        for name in ("allreduce-1.txt", "allreduce-2.txt", "allreduce-3.txt"):
            with open(self.path("out", name), encoding="utf-8") as file:
                self.assertEqual(file.read(), "row\n")

    def test_every_case_of_the_rows_runs_in_a_process_of_its_own(self):
        """Cases with parameters have a slash in their names; one case that fails fails the stage, and all others run."""
        os.makedirs(self.path("build", "bin"))
        with open(self.path("build", "gpu_check_tests.txt"), "w", encoding="utf-8") as file:
            file.write("device_x_test\ndevice_calls_mpi_test\n")
        program = self.path("build", "bin", "device_x_test")
        with open(program, "w", encoding="utf-8") as file:
            file.write(f"""#!/bin/sh
if [ "$1" = --gtest_list_tests ]; then
  printf 'Running main() from gtest_main.cc\nAll/Rows.\n  Case/0  # GetParam() = 1\n  Case/1  # GetParam() = 2\nTable.  # TypeParam = float\n  Whole\n'
else
  echo "$MPIQ_TEST_DEVICE $1" >>{self.path("log")}; echo "ran $1"
  [ "$1" != --gtest_filter="$FAILS" ]
fi
""")
        os.chmod(program, 0o755)
        cases = ["All/Rows.Case/0", "All/Rows.Case/1", "Table.Whole"]
        for fails in ("", cases[1]):
            with open(self.path("log"), "w", encoding="utf-8"):
                pass
            done = call(script("gpu_check"), "--stage", "rows", "--out", self.path("out"), "--build", self.path("build"),
                        env={"FAILS": fails})
            self.assertEqual(done.returncode, 1 if fails else 0, done.stdout + done.stderr)
            with open(self.path("log"), encoding="utf-8") as file:
                self.assertEqual(sorted(file.read().splitlines()), [f"cuda --gtest_filter={case}" for case in cases])
            for case in cases:
                self.assertIn(f"ran --gtest_filter={case}", done.stdout)
            self.assertEqual("failed.log" in done.stdout, fails != "", done.stdout)

    def test_sharing_is_measured_for_all_numbers_of_segments_with_and_without_mps(self):
        tools, out = self.path("tools"), self.path("out")
        os.makedirs(tools)
        for name, text in (("mpicc.mpich", ""), ("nvidia-cuda-mps-control", f"echo mps $1 >>{self.path('log')}; cat >>{self.path('log')} </dev/stdin"),
                           ("mpiexec.mpich", f"echo segments $MPIQ_CUDA_SEGMENTS in ${{CUDA_MPS_PIPE_DIRECTORY:-none}} >>{self.path('log')}")):
            with open(os.path.join(tools, name), "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\n{text}\n")
            os.chmod(os.path.join(tools, name), 0o755)
        done = call(script("gpu_check"), "--stage", "sharing", "--out", out, "--build", self.path("build"), "--deps", self.path("none"),
                    env={"PATH": tools + ":" + os.environ["PATH"], "MPIQ_GPU_DEPS": ""})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(self.path("log"), encoding="utf-8") as file:
            log = file.read().splitlines()
        counts = ("4", "8", "16", "32")
        self.assertEqual(log, [f"segments {n} in none" for n in counts] + ["mps -d"] + [f"segments {n} in {out}/mps" for n in counts]
                         + ["mps", "quit"])

    def test_the_driver_is_compared_with_the_toolkit(self):
        def said(nvcc, smi):
            tools, out = self.path("tools"), self.path("out-" + nvcc + smi)
            os.makedirs(tools, exist_ok=True)
            for name, text in (("nvcc", f"Cuda compilation tools, release {nvcc}, V{nvcc}.1"), ("nvidia-smi", f"| Driver CUDA Version: {smi}  |")):
                with open(os.path.join(tools, name), "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/sh\necho '{text}'\n")
                os.chmod(os.path.join(tools, name), 0o755)
            call(script("gpu_check"), "--stages", "configure", "--out", out, "--build", self.path("build"), "--deps", self.path("none.tar.gz"),
                 env={"PATH": tools + ":" + os.environ["PATH"], "MPIQ_GPU_DEPS": "1"})
            with open(os.path.join(out, "machine.txt"), encoding="utf-8") as file:
                return next(line for line in file if line.startswith("driver  "))
        self.assertIn("takes the binaries", said("13.0", "13.1"))
        self.assertIn("takes the binaries", said("12.9", "12.2"))
        self.assertIn("OLDER than nvcc 13.0", said("13.0", "12.8"))
        self.assertIn("not known", said("13.0", "unknown"))

    def test_a_launch_that_fails_fails_the_stage_and_keeps_no_other_from_running(self):
        code, launches = self.allreduce(failing=1)
        self.assertEqual((code, len(launches)), (1, 3))

    def summary(self, kernels, rows=(ROWS, OTHER_ROWS), stages="build\tpassed\t100\texit code 0", gpu="name, uuid\nNVIDIA H200, GPU-1\n"):
        for name, text in (("machine.txt", "date x\n" + gpu), ("stages.tsv", stages + "\n"),
                           ("kernels.json", json.dumps({"context": {}, "benchmarks": [case(*k) for k in kernels.items()]}, indent=2)),
                           *((f"allreduce-{i}.txt", text) for i, text in enumerate(rows, 1))):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(text)
        done = call(script("gpu_summary.sh"), self.folder)
        with open(self.path("summary.json"), encoding="utf-8") as file:
            return done.returncode, json.load(file)

    def test_targets_are_judged(self):
        code, found = self.summary(KERNELS)
        self.assertEqual(code, 0, found)
        self.assertEqual({t["verdict"] for t in found["targets"]}, {"pass"})
        self.assertEqual([t["found"] for t in found["targets"]], [*KERNELS.values(), 8.37])
        self.assertEqual(found["gpu"], "NVIDIA H200, GPU-1")
        code, found = self.summary({**KERNELS, "topk/encode": 0.59})
        self.assertEqual((code, [t["verdict"] for t in found["targets"]].count("miss")), (3, 1))
        code, found = self.summary({}, rows=("", ""))
        self.assertEqual((code, {t["verdict"] for t in found["targets"]}), (3, {"not measured"}))
        self.assertEqual({t["found"] for t in found["targets"]}, {None})

    def test_the_speedup_is_that_of_its_own_launch(self):
        def found(*rows):
            targets = self.summary(KERNELS, rows=rows)[1]["targets"]
            return [t["found"] for t in targets if t["kind"] == "allreduce"]
        self.assertEqual(found(OTHER_ROWS, ROWS), [8.37])
        cut_off = "".join(line for line in ROWS.splitlines(True) if " onebit " not in line)
        self.assertEqual(found(cut_off, OTHER_ROWS), [None])

    def test_figures_of_the_tests_driver_are_judged_by_nobody(self):
        code, found = self.summary(KERNELS, gpu="FAKE GPU  the tests' driver\n")
        self.assertEqual((code, found["gpu"], found["fake"]), (0, "", True))
        self.assertEqual({(t["verdict"], t["found"]) for t in found["targets"]}, {("fake GPU", None)})
        with open(self.path("summary.txt"), encoding="utf-8") as file:
            self.assertIn("FAKE GPU  the tests' driver", file.read())
        self.assertEqual(self.summary(KERNELS)[1]["fake"], False)

    def test_a_stage_that_did_not_pass_is_a_failure(self):
        for status, code in (("failed", 1), ("timeout", 1), ("skipped", 0)):
            self.assertEqual(self.summary(KERNELS, stages=f"rows\t{status}\t1\tsee rows.log")[0], code, status)
        self.assertEqual(self.summary(KERNELS, stages="rows\tskipped\t0\tthe time was over")[0], 1)


if __name__ == "__main__":
    unittest.main()
