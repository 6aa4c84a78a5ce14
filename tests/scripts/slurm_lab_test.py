"""Tests of slurm/ on a real Slurm: the nodes are this machine under several names (scripts/slurm_lab), all else is as on a cluster.

    scripts/slurm_lab up 4; /usr/bin/python3 tests/scripts/slurm_lab_test.py BIN [TESTS]; scripts/slurm_lab down

BIN holds mpiq-bench and the other programs. Exits 77, with a reason, where there is no Slurm. One lab serves all tests; runs
that take long begin first and are looked at last.
"""
import base64
import glob
import os
import re
import shlex
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree

from scripts_common import ROOT, InTemporaryFolder, script  # finds the package for the next ones
from mpi_quant.results import whole_files
from mpi_quant.slurm import run_folder

SKIPPED = 77
LAB = script("slurm_lab")
# Three points of two methods: 0.1 s in a quiet moment.
TINY = ("--sizes", "16K,32K,64K", "--methods", "mpi,onebit", "-n", "6", "-w", "0", "--buffers", "warm")
# The same, two seconds a point, so that there is something to interrupt.
SLOW = ("--sizes", "16K,32K,64K", "--methods", "mpi,onebit", "--point-time", "0.9", "--rel-ci", "1e-9", "--max-reps", "30000",
        "-w", "0", "--buffers", "warm")
PATIENCE_S = 300
BIN = ""


def lab(*words, **env):
    return subprocess.run([LAB, "sh", *words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, "SECRET_TOKEN": "xyzzy", **env})


def scontrol(*words):
    return lab("scontrol", *words)


class OnTheLab(InTemporaryFolder):
    def run_at(self, name="run"):
        return run_folder.Folder(self.path(name))

    def number(self):
        """The job of the first array."""
        return next(job.partition("_")[0] for job in self.run_at().jobs().values() if job.endswith("_0"))

    def submit(self, *words, name="run", options=TINY, wait=False):
        """slurm/submit; fails the test if it does."""
        command = [os.path.join(ROOT, "slurm", "submit"), *words, "--bin", BIN, "--out", self.path(name), "--yes",
                   *(["--wait"] if wait else []), "--", *options]
        done = lab(*command)
        self.assertIn("submitted: jobs", done.stdout, done.stderr)
        return done

    def status(self, *words, name="run"):
        return lab(os.path.join(ROOT, "slurm", "status"), self.path(name), *words)

    def until(self, holds, what):
        end = time.monotonic() + PATIENCE_S
        while not (found := holds()):
            if time.monotonic() > end:
                self.fail(f"{what} did not come\n{lab('squeue', '-r').stdout}{self.logs()}")
            subprocess.run([LAB, "hurry"], check=False, capture_output=True)
            time.sleep(0.2)
        return found

    def logs(self):
        text = ""
        for path in sorted(glob.glob(self.path("*", "log", "*"))):
            with open(path, encoding="utf-8", errors="replace") as file:
                text += f"--- {os.path.basename(path)}\n{file.read()[-2000:]}"
        return text

    def outcome(self, name="run"):
        """What outcome.txt says, once it is there."""
        def read():
            try:
                with open(self.path(name, "outcome.txt"), encoding="utf-8") as file:
                    return file.read()
            except FileNotFoundError:
                return ""
        return self.until(read, "outcome.txt")

    def running(self, name="run"):
        """Waits until a cell runs."""
        def found():
            return any(self.run_at(name).state(cell.name)[0] == "running" for cell in self.run_at(name).cells())
        return self.until(found, "a running cell")

    def rows(self, path):
        file = whole_files.load(path)
        return file.points[file.done()]

    def keys(self, name="run"):
        """Of the good rows of the merged file; each may be there once."""
        keys = [row["key"] for row in self.rows(self.path(name, "results", "slurm-lab.h5"))]
        self.assertEqual(len(set(keys)), len(keys))
        return set(keys)

    def states(self, cell, name="run"):
        with open(self.path(name, "state", cell + ".state"), encoding="utf-8") as file:
            return [line.split("\t")[1] for line in file]

    def site(self, text):
        with open(self.path("site.sh"), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path("site.sh")


class InOneCommand(InTemporaryFolder):
    """scripts/slurm_lab with: a lab of its own beside the lab of the other tests."""

    def begin(self, *words):
        self.env = {**os.environ, "LAB": os.environ.get("LAB", f"/tmp/mpiq-slurm-{os.getuid()}") + "-with"}
        return subprocess.Popen([LAB, "with", "1", *words], env=self.env)

    def test_it_ends_as_its_command_does(self):
        with self.begin("bash", "-c", "sinfo -h -o %D | grep -qx 1 && exit 7") as process:
            self.assertEqual(process.wait(PATIENCE_S), 7)
        self.assertFalse(os.path.exists(self.env["LAB"]))

    def test_a_signal_ends_the_command_and_the_lab(self):
        with self.begin("bash", "-c", f"echo $$ >{self.path('pid')}; exec sleep 600") as process:
            end = time.monotonic() + PATIENCE_S
            while not (os.path.exists(self.path("pid")) and os.path.getsize(self.path("pid"))):
                self.assertLess(time.monotonic(), end, "the command did not begin")
                time.sleep(0.1)
            process.terminate()
            self.assertEqual(process.wait(PATIENCE_S), 143)
        with open(self.path("pid"), encoding="utf-8") as file:
            self.assertFalse(os.path.exists("/proc/" + file.read().strip()))
        self.assertFalse(os.path.exists(self.env["LAB"]))


class FromNothingToAPage(OnTheLab):
    def check_page(self, path):
        """That it is whole, and has figures in it that are whole."""
        with open(path, encoding="utf-8") as file:
            page = file.read()
        for text in ("</html>", "onebit", "slurm-lab"):
            self.assertIn(text, page)
        figures = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
        self.assertGreater(len(figures), 1)
        for figure in figures:
            self.assertTrue(xml.etree.ElementTree.fromstring(base64.b64decode(figure)).tag.endswith("svg"))

    def test_one_command_makes_a_checked_file_and_a_page(self):
        done = self.submit("--quick", "--nodes", "1,2", "--ranks-per-node", "1,2", options=(*TINY, "--sizes", "1K")[2:], wait=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logs())
        rows = self.rows(self.path("run", "results", "slurm-lab.h5"))
        shapes = {(int(r["nodes"]), int(r["ranks_per_node"]), int(r["ranks"])) for r in rows}
        self.assertEqual(shapes, {(1, 2, 2), (2, 1, 2), (2, 2, 4)})
        self.assertIn("0 violations", self.logs())
        self.check_page(self.path("run", "results", "report.html"))
        collected = subprocess.run([os.path.join(ROOT, "slurm", "collect"), self.path("run"), "--to", self.path("results")],
                                   capture_output=True, text=True, check=False)
        self.assertEqual(collected.returncode, 0, collected.stderr)
        self.assertEqual(sorted(os.listdir(self.path("results"))), ["jobs", "report.html", "slurm-lab.h5"])
        with open(self.path("results", "jobs", "2x1-0.txt"), encoding="utf-8") as file:
            ran_on = file.read()
        for text in ("NodeList=n[", "SLURM_VERSION ", "CPU_IDs=", "SLURM_JOB_END_TIME=", "NodeName=n", "--cpu-bind=verbose,cores"):
            self.assertIn(text, ran_on)
        for path in glob.glob(self.path("**"), recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    self.assertNotIn(b"xyzzy", file.read(), path)


class Interrupted(OnTheLab):
    """Every way of being interrupted ends with the keys of the uninterrupted run, which is made once."""

    expected = None

    def uninterrupted(self):
        if Interrupted.expected is None:
            self.assertEqual(self.submit("--launches", "2", name="whole", wait=True).returncode, 0, self.logs())
            Interrupted.expected = self.keys("whole")
            self.assertEqual(len(Interrupted.expected), 12)
        return Interrupted.expected

    def test_a_deadline_requeues_each_task_alone(self):
        # The harness ends a minute before the limit, but not before it has measured a point: a life is one of
        # three.
        self.submit("--launches", "2", "--time", "1")
        self.assertIn("cells: 2 done\nfinish: done", self.outcome())
        for cell in ("2x1-0", "2x1-1"):
            self.assertEqual(self.states(cell), ["running", "left"] * 2 + ["running", "done"], self.logs())
        self.assertEqual(self.keys(), self.uninterrupted())

    def test_a_node_that_goes_down_and_a_cell_that_is_cancelled(self):
        self.submit("--launches", "2", options=SLOW)
        self.until(lambda: glob.glob(self.path("run", "cells", "*.h5")), "a point")
        cells = self.number()
        node = re.search(r"n\d", lab("squeue", "-h", "-t", "R", "-j", cells, "-o", "%N").stdout.replace("[", ""))[0]
        scontrol("update", "nodename=" + node, "state=down", "reason=test")
        self.until(lambda: "Restarts=1" in scontrol("show", "job", cells).stdout, "a requeue")
        scontrol("update", "nodename=" + node, "state=resume")
        self.until(lambda: any(map(self.run_at().is_done, ("2x1-0", "2x1-1"))),
                   "the end of a cell")
        self.running()
        stop = re.search(r"to stop it: (.*)", self.status().stdout)[1]
        self.assertEqual(lab(*shlex.split(stop)).returncode, 0)
        name = self.run_at().record()["job_name"]
        self.until(lambda: not lab("squeue", "-h", "--name=" + name).stdout.strip(), "the end of all jobs")
        self.assertEqual(self.processes(), [], "scancel leaves nothing behind")
        self.assertEqual(self.submit("--launches", "2", options=SLOW, wait=True).returncode, 0, self.logs())
        self.assertEqual(self.keys(), self.uninterrupted())

    def processes(self):
        """The processes of jobs of this test."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    line = file.read()
            except OSError:
                continue
            if self.folder.encode() in line and int(pid) != os.getpid():
                found.append(line)
        return found


class Failing(OnTheLab):
    def test_a_poisoned_cell_cancels_what_follows_and_is_named(self):
        site = self.site('site_setup() { if [ "$name" = 2x1-1 ]; then echo poison >"$run/cells/$name.h5"; fi; }\n')
        done = self.submit("--launches", "2", "--site", site, wait=True)
        self.assertEqual(done.returncode, 1)
        text = self.outcome()
        self.assertRegex(text, r"cells: 1 done, 1 failed\n  2x1-1 +failed +\d+_\d ")
        self.assertIn("finish: failed (1 of 2 cells not done)", text)
        self.assertIn(f"--site {site}", text)
        self.assertFalse(os.path.exists(self.path("run", "results")))
        partial = lab(os.path.join(ROOT, "slurm", "collect"), self.path("run"), "--to", self.path("results"), "--partial")
        self.assertEqual(partial.returncode, 1, "the poisoned file is no result file")
        os.remove(self.path("run", "cells", "2x1-1.h5"))
        partial = lab(os.path.join(ROOT, "slurm", "collect"), self.path("run"), "--to", self.path("results"), "--partial")
        self.assertEqual(partial.returncode, 0, partial.stderr)
        self.assertIn("1 of 2 cells", partial.stdout)

    def test_singletons_a_missing_module_and_a_full_disk_are_clear_messages(self):
        cases = {"alone": ("srun_options=(--mpi=none)\n", "(refused its options|SIGTERM)"),
                 "module": ("modules=nosuch/1\n", "module nosuch/1: there is no 'module' command"),
                 "disk": ('site_setup() { if [ -n "$cell" ]; then ln -s /dev/full "$run/cells/$cell.probe"; fi; }\n', "cannot write to ")}
        for name, (text, _) in cases.items():
            self.submit("--nodes", "2", "--site", self.site(text), name=name)
        for name, (_, why) in cases.items():
            self.assertRegex(self.outcome(name), r"cells: 1 failed\n.*" + why)
        self.assertIn("srun started 2 processes (SLURM_STEP_NUM_TASKS), but MPI_COMM_WORLD has 1 rank", self.logs())

    def test_a_refusal_of_slurm(self):
        for text, *words in (("nvalid feature", "--constraint", "nosuch"), ("nvalid partition", "--partition", "nosuch"),
                             ("Slurm refuses cells on 9 nodes", "--nodes", "2,9"), ("Slurm refuses cells on 5 nodes", "--nodes", "5"),
                             ("Requested node configuration", "--ranks-per-node", "99"),
                             ("onebt", "dropin", "--time", "5", "--policy", "1M-: onebt", "--", "true"),
                             ("onebt", "--", "--methods", "onebt")):
            refused = lab(os.path.join(ROOT, "slurm", "submit"), "--bin", BIN, "--out", self.path("none"), "--yes", *words)
            self.assertEqual((words, refused.returncode), (words, 2), refused.stderr)
            self.assertIn(text, refused.stderr)


class Programs(OnTheLab):
    def test_dropin(self):
        program = (os.path.join(BIN, "mpiq-bench"), "allreduce", *TINY)
        done = self.submit("dropin", "--nodes", "2", "--time", "5", "--policy", "1G-: onebit", options=program, wait=True)
        self.assertEqual(done.returncode, 0, done.stdout + self.logs())
        with open(self.path("run", "results", "dropin.md"), encoding="utf-8") as table:
            lines = table.read().splitlines()
        self.assertEqual(([line[0] for line in lines[:5]], lines[6]), (["|"] * 5, "2 nodes x 1 rank, advice of 1 of 1 launches:"))
        self.assertEqual(len(glob.glob(self.path("run", "cells", "*.json"))), 2)
        done = lab(os.path.join(ROOT, "slurm", "collect"), self.path("run"), "--to", self.path("results"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(glob.glob(self.path("results", "reports", "*.json"))), 2)

    def test_train_and_kernels(self):
        for program in ("mpiq-train", "mpiq-kernels"):
            if not os.access(os.path.join(BIN, program), os.X_OK):
                self.skipTest(f"no {program}: its library was not there when this was built")
        self.submit("train", "--quick", "--nodes", "2", "--launches", "2", name="train",
                    options=("--data", os.path.join(ROOT, "tests/data/mnist"), "--images", "20", "--batch", "10", "--epochs", "1",
                             "--network", "mlp:8", "--methods", "mpi,onebit"))
        self.submit("kernels", "--quick", "--nodes", "1", name="kernels",
                    options=("--benchmark_filter=onebit/encode/f32/scalar/65536KiB|onebit/decode.add/f32/scalar/65536KiB",))
        for name, cells, files in (("train", 2, ("train.md", "slurm-lab-training.png")),
                                   ("kernels", 1, ("kernels.json", "quality.csv", "kernels-roofline.png"))):
            self.assertIn(f"cells: {cells} done\nfinish: done", self.outcome(name), self.logs())
            for file in files:
                self.assertTrue(os.path.exists(self.path(name, "results", file)), file)

    def test_gpus_are_asked_for_and_a_node_without_says_so(self):
        done = self.submit("gpu", "--quick", "--nodes", "1", "--ranks-per-node", "2", wait=True)
        if not any(os.path.exists(f"{folder}/libcuda.so.1") for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib")):
            self.assertEqual(done.returncode, 1)
            self.assertIn("libcuda.so.1", self.logs())
        job = self.number()
        self.assertIn("gres:gpu:1", scontrol("show", "job", job).stdout)

    def test_hydra_inside_an_allocation(self):
        site = self.site("launcher=hydra\n")
        done = self.submit("--nodes", "2", "--site", site, wait=True)
        self.assertEqual(done.returncode, 0, done.stdout + self.logs())
        self.assertEqual({int(r["nodes"]) for r in self.rows(self.path("run", "results", "slurm-lab.h5"))}, {2})


class TimeLimit(OnTheLab):
    """Slurm looks at limits every half minute: the run that is to meet its limit begins before all other tests."""

    early = None

    @classmethod
    def begin(cls):
        cls.early = cls("test_a_time_limit")
        cls.early.setUp()
        cls.early.submit("dropin", "--nodes", "1", "--time", "1", "--at-once", "2", options=("sleep", "300"))
        jobs = [f"{cls.early.number()}_{task}" for task in (0, 1)]
        cls.early.until(lambda: all("JobState=RUNNING" in scontrol("show", "job", job).stdout for job in jobs), "two running cells")
        for job in jobs:
            scontrol("update", f"jobid={job}", "EndTime=now")  # the limit itself would come after a minute or more

    def test_a_time_limit(self):
        text = self.early.outcome()
        self.assertRegex(text, r"cells: [12] (failed|cut off)")
        self.assertEqual(len(re.findall("killed by its time limit|TIMEOUT", text)), 2, text)


def setUpModule():
    TimeLimit.begin()


def tearDownModule():
    TimeLimit.early.doCleanups()


def main(words):
    global BIN  # pylint: disable=global-statement
    if not words or words[0].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    BIN = os.path.abspath(words[0])
    check = subprocess.run([LAB, "check"], capture_output=True, text=True, check=False)
    if check.returncode != 0:
        print(check.stderr.strip())
        return SKIPPED
    if lab("sinfo").returncode != 0:
        print(f"no lab: {shlex.quote(LAB)} up 4", file=sys.stderr)
        return 1
    return 0 if unittest.main(argv=[sys.argv[0], *words[1:]], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
