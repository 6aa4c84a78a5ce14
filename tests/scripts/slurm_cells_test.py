"""Tests of slurm/job.sbatch with made-up commands of Slurm: what a job does when its launch ends or cannot begin, what it says, and
what the last job makes for slurm/collect.

Needs neither Slurm nor MPI nor a build: /usr/bin/python3 tests/scripts/slurm_cells_test.py
"""
import glob
import json
import os
import re
import shutil
import unittest

from scripts_common import ROOT
from slurm_fakes import SLURM, WithFakes


class Cells(WithFakes):
    """A job by hand: the same script, with the variables that Slurm would set."""

    def setUp(self):
        super().setUp()
        self.assertEqual(self.submit("--nodes", "2", "--launches", "2", "--yes", "--max-restarts", "3").returncode, 0)
        self.first = self.run_of_test().cells()[0].name
        os.remove(self.path("calls"))

    def job(self, **env):
        slurm = {"SLURM_JOB_ID": "101", "SLURM_ARRAY_JOB_ID": "101", "SLURM_ARRAY_TASK_ID": "0", "SLURM_JOB_NUM_NODES": "2",
                 "SLURM_JOB_NODELIST": "n[1-2]", "SECRET_TOKEN": "xyzzy"}
        return self.call("bash", os.path.join(SLURM, "job.sbatch"), self.run_folder, **{**slurm, **env})

    def expect(self, code, state, why, **env):
        done = self.job(**env)
        said, _, reason = self.run_of_test().state(self.first)
        self.assertEqual((done.returncode, said), (code, state), done.stderr)
        self.assertIn(why, reason)
        return done

    def settings(self, **changed):
        with open(os.path.join(self.run_folder, "settings.sh"), "a", encoding="utf-8") as file:
            file.writelines(f"{name}={value}\n" for name, value in changed.items())

    def test_a_launch_is_told_where_and_bound(self):
        self.expect(0, "done", "")
        (call,) = self.calls("srun")
        for word in ("--mpi=pmi2", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--cpus-per-task=1",
                     "--distribution=block:block", "--cpu-bind=verbose,cores", "--kill-on-bad-exit=1", "--expect-ranks 2",
                     "--deadline auto", "--link slurm-toy"):
            self.assertIn(" " + word, call)
        self.assertEqual(self.job().returncode, 0)
        self.assertEqual(len(self.calls("srun")), 1, "what is done is not done again")

    def test_points_left_requeue_exactly_this_task(self):
        # SLURM_JOB_ID is the number of the whole array here: to requeue it would start every task again.
        self.expect(75, "failed", "did not come", FAKE_SRUN="75")
        self.assertEqual([c for c in self.calls("scontrol") if "requeue" in c], ["scontrol requeue 101_0"])
        self.assertEqual(self.run_of_test().state(self.first)[1], "101_0")
        with open(os.path.join(self.run_folder, "state", self.first + ".state"), encoding="utf-8") as file:
            self.assertRegex(file.read(), "\tleft\t101_0\t.*\tused up its time limit and was requeued; faster with more --time\n")

    def test_points_left_on_a_disk_too_full_to_say_so_are_left_all_the_same(self):
        # What runs in the launch is real: a program that has points left, in the shell that notes its exit
        # code.
        self.file("bin/srun", '#!/bin/bash\nwhile [ "$1" != bash ]; do shift; done\n"$@"\n')
        os.mkdir(self.path("programs"))
        self.file("programs/mpiq-bench", "#!/bin/sh\nexit 75\n")
        os.chmod(self.path("programs/mpiq-bench"), 0o755)
        self.settings(bin=self.path("programs"))
        self.expect(75, "failed", "did not come")
        # the job removes the file before the launch, so that the link has to come during it.
        self.file("programs/mpiq-bench", f'#!/bin/sh\nln -sf /dev/full "{self.run_folder}/cells/{self.first}.exit"\nexit 75\n')
        self.expect(75, "failed", "did not come")

    def test_a_run_that_its_node_cannot_see(self):
        for task in ("0", ""):
            done = self.call("bash", os.path.join(SLURM, "job.sbatch"), self.path("nowhere"), SLURM_JOB_ID="101", SLURM_ARRAY_TASK_ID=task)
            self.assertEqual(done.returncode, 74)
            self.assertRegex(done.stderr.strip().split("\n")[-1], r"^cannot read .*/nowhere/settings\.sh on .*: is it on a shared file system\?$")

    def test_a_cell_does_not_begin_again_for_ever(self):
        self.expect(1, "failed", "left after 3 restarts", FAKE_SRUN="75", SLURM_RESTART_COUNT="3")
        self.expect(1, "failed", "gave up after 3 restarts", SLURM_RESTART_COUNT="4")
        self.assertEqual([c for c in self.calls("scontrol") if "requeue" in c], [])

    def test_other_ends(self):
        self.expect(1, "failed", "refused its options", FAKE_SRUN="2")
        self.expect(1, "failed", "a point failed", FAKE_SRUN="1")
        self.expect(1, "failed", "137 (SIGKILL)", FAKE_SRUN="137")

    def test_the_reason_of_a_failure_is_what_this_life_of_the_log_says_first(self):
        job = ["bash", "-c", 'exec bash "$@" >>"$LOG" 2>&1', "x", os.path.join(SLURM, "job.sbatch"), self.run_folder]
        for said, reason in (("step 10 relative L2 error: 0.002\nsrun: error: task 0: Exited", "srun: error: task 0: Exited"),
                             ("mpiq-bench: warning: no counters\nmpiq-bench: the launch has 1\nsrun: error: n1: task 0: Exited", "mpiq-bench: the launch has 1"),
                             ("# rel_err: of errors\n[n1:7] PMIX ERROR: UNREACHABLE in file", "[n1:7] PMIX ERROR: UNREACHABLE in file"),
                             ("Fatal error in internal_Init: Other MPI error", "Fatal error in internal_Init: Other MPI error"),
                             ("error: " + "x" * 500, "error: " + "x" * 293)):
            self.file("log", "== of an earlier life\nsrun: error: long ago\n")
            self.file("said", said + "\n")
            self.file("bin/srun", f"#!/bin/sh\ncat {self.path('said')}\nexit 137\n")
            self.call(*job, LOG=self.path("log"), SLURM_JOB_ID="101", SLURM_ARRAY_JOB_ID="101", SLURM_ARRAY_TASK_ID="0", SLURM_JOB_NODELIST="n[1-2]")
            self.assertEqual(self.run_of_test().state(self.first)[::2], ("failed", f"the launch ended with 137 (SIGKILL): {reason}; see the log"))

    def test_other_launchers(self):
        for name, program, expected in (("openmpi", "mpirun", "-n 2 --map-by ppr:1:node:PE=1 --bind-to core --report-bindings"),
                                        ("hydra", "mpiexec.hydra", "-n 2 -ppn 1 -bind-to core:1")):
            self.file("bin/" + program, f'#!/bin/sh\necho "{program} $*" >>"{self.folder}/calls"\n')
            os.chmod(self.path("bin", program), 0o755)
            self.settings(launcher=name)
            self.expect(0, "done", "")
            self.assertTrue(self.calls(program)[0].startswith(f"{program} {expected} "), self.calls(program))
            os.remove(os.path.join(self.run_folder, "state", self.first + ".state"))
        self.assertEqual(self.calls("srun"), [])

    def test_what_is_missing_is_named(self):
        self.settings(modules="nosuch/1")
        self.expect(69, "failed", "there is no 'module' command")
        self.settings(modules="", bin="/none")
        self.expect(69, "failed", "no program /none/mpiq-bench")
        self.assertEqual(self.calls("srun"), [])

    def test_a_job_without_the_function_module_finds_it(self):
        os.makedirs(self.path("lmod", "init"))
        self.file("lmod/init/bash", f'module() {{ echo "module $*" >>"{self.folder}/calls"; }}\n')
        self.settings(modules="good/1")
        for variable in ("LMOD_PKG", "MODULESHOME"):
            self.expect(0, "done", "", **{variable: self.path("lmod")})
            os.remove(os.path.join(self.run_folder, "state", self.first + ".state"))
        self.assertEqual(self.calls("module"), ["module load good/1"] * 2)

    def test_ranks_get_the_environment_of_the_job_whatever_the_job_was_submitted_with(self):
        self.expect(0, "done", "", SLURM_EXPORT_ENV="NONE", MINE="1")
        (call,) = self.calls("srun")
        self.assertIn(" --export=ALL ", call)
        got = self.environment_of("srun")
        self.assertNotIn("SLURM_EXPORT_ENV", got)
        self.assertEqual(got["MINE"], "1")

    def test_a_module_that_does_not_load(self):
        with open(os.path.join(self.run_folder, "site.sh"), "w", encoding="utf-8") as site:
            site.write('module() { [ "$2" = good/1 ] || { echo "Unable to locate a modulefile for $2"; }; }\n')
        self.settings(modules="'good/1 bad/2'")
        self.expect(69, "failed", "module bad/2 cannot be loaded")

    def test_the_outcome_without_python_says_what_the_jobs_said(self):
        self.settings(modules="python/9")
        self.expect(69, "failed", "there is no 'module' command")
        self.settings(python="/none/python3")
        done = self.call("bash", os.path.join(SLURM, "job.sbatch"), self.run_folder, SLURM_JOB_ID="109")
        self.assertEqual(done.returncode, 69)
        with open(os.path.join(self.run_folder, "outcome.txt"), encoding="utf-8") as file:
            outcome = file.read()
        self.assertRegex(outcome, rf"^no /none/python3 on (.*\n)+.*/{self.first}\.state .*\n.*\tfailed\t101_0\t.*\tmodule python/9")

    def test_a_disk_that_is_full_only_in_writing(self):
        probe = os.path.join(self.run_folder, "cells", self.first + ".probe")
        os.symlink("/dev/full", probe)
        done = self.expect(74, "failed", "cannot write to")
        self.assertIn("No space left", done.stderr)
        self.assertEqual(self.calls("srun"), [])

    def test_a_disk_that_fills_during_the_launch(self):
        self.file("bin/srun", f"#!/bin/sh\nln -s /dev/full {self.run_folder}/cells/{self.first}.probe\nexit 1\n")
        self.expect(74, "failed", "cannot write to")

    def test_a_disk_too_full_to_say_so(self):
        os.mkdir(os.path.join(self.run_folder, "state", self.first + ".state"))  # which nobody can write to, not even root
        done = self.job()
        self.assertEqual(done.returncode, 74)  # which slurm/status explains
        self.assertIn("cannot write", done.stderr)

    def test_the_environment_is_not_written_down(self):
        self.expect(0, "done", "", SLURM_CPU_BIND_TYPE="mask_cpu", UCX_TLS="sm", MPIQ_SITE="/home/someone/site.sh")
        text = ""
        for path in glob.glob(os.path.join(self.run_folder, "**"), recursive=True):
            if os.path.isfile(path):
                with open(path, encoding="utf-8") as file:
                    text += file.read()
        self.assertIn("UCX_TLS=sm", text)
        self.assertNotIn("xyzzy", text)
        self.assertNotIn("/home/someone", text)


class Collected(WithFakes):
    def setUp(self):
        """A run of dropin that has come to its end."""
        super().setUp()
        done = self.submit("dropin", "--time", "5", "--launches", "2", "--policy", ": onebit", "--yes", "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.cells = self.run_of_test().cells()
        for number, cell in enumerate(self.cells):
            self.file(f"run/cells/{cell.name}.seconds", f"{number % 2 + 1}.5\n")
            policy = "64K-@2 f32: bf16" if "advise" in cell.name else ""
            self.file(f"run/cells/{cell.name}.json", json.dumps({"suggestion": {"error": 0.01, "policy": policy, "auto": "", "busy": "",
                                                                 "with_feedback": "64K-@2 f32: onebit feedback=address"}}))
            self.file(f"run/cells/{cell.name}.txt", "[cell]\n")
            self.file(f"run/state/{cell.name}.state", f"t\tdone\t101_{number}\tn1\t\n")

    def finish(self):
        return self.call("bash", os.path.join(SLURM, "job.sbatch"), self.run_folder, SLURM_JOB_ID="102")

    def collect(self, *words):
        return self.call(os.path.join(SLURM, "collect"), self.run_folder, *words)

    def test_the_last_job_makes_the_results_and_collect_copies_them(self):
        self.assertEqual(self.collect("--to", self.path("out")).returncode, 1)
        done = self.finish()
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("run/outcome.txt"), encoding="utf-8") as file:
            self.assertIn("cells: 6 done\nfinish: done\nto fetch it: slurm/collect", file.read())
        self.assertEqual(self.collect("--to", self.path("out")).returncode, 0)
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["dropin.md", "jobs", "reports"])
        self.assertEqual(sorted(os.listdir(self.path("out", "reports"))),
                         sorted(cell.name + end for cell in self.cells for end in (".json", ".seconds")))
        self.assertEqual(sorted(os.listdir(self.path("out", "jobs"))),
                         sorted([*(cell.name + ".txt" for cell in self.cells), "plan.tsv", "record.json"]))
        with open(self.path("out/jobs/record.json"), encoding="utf-8") as file:
            self.assertIn('"launches": 2', file.read())
        for folder, _, names in os.walk(self.path("out")):
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    self.assertNotIn(self.folder, file.read(), name)
        with open(self.path("out/dropin.md"), encoding="utf-8") as file:
            page = file.read()
        self.assertEqual(len(re.findall(r"\| 2 \| 1 \| (?:plain|advise|policy) \| 2 \| \d\.\d00 \| .* to .* \| \d\.\d{3} \|\n", page)), 3)
        self.assertRegex(page, r"2 nodes x 1 rank, advice of 2 of 2 launches:\n\n"
                         r"    64K-@2 f32: bf16 +# each result within a relative error of 0\.01\n"
                         r"    64K-@2 f32: onebit feedback=address +# for training, ")
        again = self.collect("--to", self.path("out"))
        self.assertEqual(again.returncode, 1)
        self.assertIn("exists: another --to, or --force", again.stderr)
        self.assertEqual(self.collect("--to", self.path("out"), "--force").returncode, 0)

    def test_advice_that_finds_nothing_says_so_and_launches_that_differ_are_told_apart(self):
        advised = [cell for cell in self.cells if "advise" in cell.name]
        self.file(f"run/cells/{advised[0].name}.json", json.dumps({"suggestion": {"error": 1e-6, "policy": "", "with_feedback": "", "busy": "Busy."}}))
        self.assertEqual(self.finish().returncode, 0)
        with open(self.path("run/results/dropin.md"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn("advice of 1 of 2 launches:\n\n    none: no method within a relative error of 1e-06 promises to be faster\n\nBusy.\n", page)
        self.assertIn("advice of 1 of 2 launches:\n\n    64K-@2 f32: bf16 ", page)

    def test_runs_of_one_day_are_collected_side_by_side(self):
        self.assertEqual(self.finish().returncode, 0)
        for name in ("slurm", "scripts", "python"):  # in a tree of its own, because results/ is in the tree; not links, which lead to this one
            shutil.copytree(os.path.join(ROOT, name), self.path(name), ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("bench", "CMakeLists.txt"):
            os.symlink(os.path.join(ROOT, name), self.path(name))
        done = self.call(self.path("slurm", "collect"), self.run_folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, rf"results/\d+-\d+-\d+-slurm-toy-{self.job_name()[-8:]}/dropin\.md\n")
        self.assertEqual(len(os.listdir(self.path("results"))), 1)
        self.assertEqual(self.call(self.path("slurm", "collect"), self.run_folder).returncode, 1)

    def test_a_cell_that_is_not_done_leaves_no_results_but_partial_ones(self):
        self.file(f"run/state/{self.cells[0].name}.state", "t\tfailed\t101_0\tn1\tpoison\n")
        self.assertEqual(self.finish().returncode, 1)
        with open(self.path("run/outcome.txt"), encoding="utf-8") as file:
            self.assertRegex(file.read(), r"cells: 5 done, 1 failed\n.* poison\nfinish: failed \(1 of 6 cells not done\)\nlogs: ")
        self.assertIn("did not come to its end", self.collect("--to", self.path("out")).stderr)
        partial = self.collect("--to", self.path("out"), "--partial")
        self.assertEqual(partial.returncode, 0, partial.stderr)
        self.assertIn("5 of 6 cells have results", partial.stdout)


if __name__ == "__main__":
    unittest.main()
