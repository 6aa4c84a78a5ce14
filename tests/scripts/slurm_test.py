"""Tests of slurm/ with made-up commands of Slurm: plans, what is submitted and how far it is, what is refused.

Needs neither Slurm nor MPI nor a build: /usr/bin/python3 tests/scripts/slurm_test.py
"""
import glob
import os
import shutil
import subprocess
import tempfile
import time
import unittest
import unittest.mock

from needs import needs
from scripts_common import ROOT
from slurm_fakes import SLURM, WithFakes

import mpiq_batch
import mpiq_experiments
import mpiq_folder
import mpiq_plan
import mpiq_progress
import mpiq_site
import mpiq_submission


class Plans(unittest.TestCase):
    def test_lists_of_nodes(self):
        for text, expected in (("4", [4]), ("1-64", [1, 2, 4, 8, 16, 32, 64]), ("3,1,2", [1, 2, 3]), ("1-6", [1, 2, 4, 6]),
                               ("2,2-4", [2, 4]), ("5-5", [5])):
            self.assertEqual(mpiq_plan.numbers(text, "--nodes"), expected)
        for text in ("", "0", "-1", "4-2", "1-", "a", "1;2", "1,,2", "9999999", "１"):
            with self.assertRaises(mpiq_plan.PlanError, msg=text):
                mpiq_plan.numbers(text, "--nodes")

    def test_times(self):
        for text, expected in (("30", 1800), ("1:30", 90), ("1:30:00", 5400), ("2-12", 216000), ("1-0:30", 88200),
                               ("0-0:01:30", 90)):
            self.assertEqual(mpiq_plan.seconds(text, "--time"), expected)
        for text in ("", "0", "0:59", "now", "1:2:3:4", "-1", "1d"):
            with self.assertRaises(mpiq_plan.PlanError, msg=text):
                mpiq_plan.seconds(text, "--time")

    def test_cells_are_shuffled_within_an_array_of_equal_nodes(self):
        def made(seed):
            return mpiq_plan.cells([1, 2, 4], [1, 2], 5, {}, seed, 2)
        cells = made(1)
        self.assertEqual([c.nodes for c in cells], [1] * 5 + [2] * 10 + [4] * 10)  # one rank alone reduces nothing
        self.assertEqual(cells, made(1))
        self.assertNotEqual(cells, made(2))
        self.assertNotEqual([c.launch for c in cells[5:15]], sorted(c.launch for c in cells[5:15]))
        self.assertEqual([(a.nodes, a.ranks_per_node, a.first, a.last) for a in mpiq_plan.arrays(cells)],
                         [(1, 2, 0, 4), (2, 2, 5, 14), (4, 2, 15, 24)])

    def test_lists_of_tasks(self):
        self.assertEqual(mpiq_plan.task_list([5, 0, 1, 2]), "0-2,5")
        self.assertTrue(mpiq_progress.in_tasks(5, "0-2,5") and not mpiq_progress.in_tasks(3, "0-2,5"))

    def test_words_of_varied_options_are_file_names(self):
        names = [c.name for c in mpiq_plan.cells([2], [1], 1, {"data": ["a:1", "a/1", "../x"]}, 1, 2)]
        self.assertEqual(sorted(names), ["2x1-.._x-0", "2x1-a_1-0", "2x1-a_1_2-0"])
        with self.assertRaises(mpiq_plan.PlanError):
            mpiq_plan.cells([2], [1], 1, {"data": ["a\tb"]}, 1, 2)

    def test_the_command_line_wins_over_defaults(self):
        self.assertEqual(mpiq_experiments.with_defaults(("--a=1", "--b=2", "--b=3"), ["--a", "9"]), ["--b=3", "--a", "9"])

    def test_what_is_written_for_bash_comes_back_as_it_was(self):
        hostile = ["$(touch x)", "a b", "'", '"', "`id`", "\\", "*", "", "é", "--x=;rm"]
        text = mpiq_folder.settings_text({"words": hostile, "one": hostile[0]})
        reader = 'run=/nowhere; eval "$1"; printf "%s\\0" "$one" "${words[@]}"'
        done = subprocess.run(["bash", "-c", reader, "x", text], capture_output=True, check=True)
        self.assertEqual(done.stdout.decode().split("\0")[:-1], [hostile[0], *hostile])


class Submitted(WithFakes):
    def test_cells_then_what_depends_on_them(self):
        done = self.submit("--nodes", "1-4", "--ranks-per-node", "2", "--launches", "3", "--yes", "--partition", "p q",
                           "--gpus", "4")
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = self.calls("sbatch")
        self.assertEqual(len(calls), 6)
        for call, words in zip(calls, (
                ["--array=0-2%1", "--nodes=1", "--ntasks-per-node=2", "--partition=p q", "--gpus-per-node=4", "--cpus-per-task=1"],
                ["--array=3-5%1", "--nodes=2", "--dependency=afterany:101"], ["--array=6-8%1", "--dependency=afterany:102"],
                ["--dependency=afterok:101:102:103", "--kill-on-invalid-dep=yes", "merge.sbatch"],
                ["--dependency=afterok:104", "report.sbatch"], ["--dependency=afterany:101:102:103:104:105", "outcome.sbatch"])):
            for word in words:
                self.assertIn(" " + word if word.startswith("-") else word, call)
        self.assertIn("allreduce (bench/sweeps/reference.toml): 9 cells", done.stdout)
        # 3 (1 + 2 + 4) nodes for 5 minutes, which are estimated to take 90 s and 20 s to start.
        self.assertIn("cost: at most 1.75 node-hours; about 0.64", done.stdout)
        with open(os.path.join(self.run_folder, "plan.tsv"), encoding="utf-8") as plan:
            self.assertEqual(len(plan.readlines()), 9)

    def test_cells_at_the_same_time_do_not_wait_for_each_other(self):
        self.assertEqual(self.submit("--nodes", "2,3", "--launches", "2", "--at-once", "4", "--yes").returncode, 0)
        self.assertIn("--array=0-1%4", self.calls("sbatch")[0])
        self.assertNotIn("dependency", self.calls("sbatch")[1])

    def test_nothing_is_submitted_without_being_asked_to(self):
        self.assertEqual(self.submit().returncode, 2)
        dry = self.submit("--dry-run", "--quick")
        self.assertEqual(dry.returncode, 0, dry.stderr)
        self.assertIn("#SBATCH --job-name=mpiq-allreduce", dry.stdout)
        self.assertIn("kind=bench", dry.stdout)
        ranks = self.submit("--dry-run", "--sweep", os.path.join(ROOT, "bench/sweeps/ranks.toml"))
        self.assertIn("(6 points", ranks.stdout, "three numbers of ranks in a launch")
        self.assertEqual((self.calls("sbatch"), os.path.exists(self.run_folder)), ([], False))

    def test_it_asks_at_a_terminal(self):
        for answer, submitted in ((b"n\n", False), (b"\n", False), (b"\x04", False), (b"y\n", True)):
            master, slave = os.openpty()
            os.write(master, answer)
            done = self.submit("--nodes", "2", stdin=slave)
            os.close(master)
            os.close(slave)
            self.assertIn("Submit? [y/N]", done.stdout)
            self.assertEqual((done.returncode, "nothing was submitted" in done.stderr), (0, False) if submitted else (2, True))
            self.assertEqual((len(self.calls("sbatch")) > 0, os.path.exists(self.run_folder)), (submitted, submitted))

    def test_where_one_job_is_refused_the_others_are_cancelled(self):
        done = self.submit("--nodes", "2,4", "--yes", FAKE_REFUSE="3")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no such partition", done.stderr)
        self.assertEqual(self.calls("scancel"), ["scancel 101 102"])

    def test_what_is_done_is_not_submitted_again_and_another_run_needs_another_folder(self):
        words = ("--launches", "4", "--yes")
        self.assertEqual(self.submit(*words).returncode, 0)
        cells = mpiq_folder.Folder(self.run_folder).cells()
        for i in (0, 1):
            self.file(f"run/state/{cells[i].name}.state", f"t\tfailed\t101_{i}\tn1\twhy\nt\tdone\t101_{i}\tn1\t\n")
        self.assertEqual(self.submit(*words, "--time", "90").returncode, 0)
        self.assertIn("--array=2-3%1", self.calls("sbatch")[4])
        other = self.submit("--launches", "5", "--yes")
        self.assertEqual(other.returncode, 2)
        self.assertIn("another run (other launches)", other.stderr)
        name = next(job.name for job in mpiq_folder.Folder(self.run_folder).jobs() if job.number == "104")
        self.file("queue", "104|N/A|RUNNING|None|1:00|n1|another job of a controller that counts anew\n")
        self.assertNotIn("have not ended", self.submit(*words, "--dry-run").stderr)
        self.file("queue", f"104|N/A|RUNNING|None|1:00|n1|{name}\n")
        self.assertIn("have not ended", self.submit(*words).stderr)

    def test_sites(self):
        site = self.file("site.sh", "partition=big\nsmall_partition=tiny\nlauncher=openmpi\nsbatch_options=(--x='a b')\n"
                         "link=$((1 + 1))nd\n")
        done = self.submit("--site", site, "--account", "me", "--yes")
        self.assertEqual(done.returncode, 0, done.stderr)
        first, merge = self.calls("sbatch")[:2]
        self.assertIn(" --partition=big --account=me --x=a b ", first)
        self.assertIn(" --partition=tiny --account=me ", merge)
        with open(os.path.join(self.run_folder, "settings.sh"), encoding="utf-8") as settings:
            self.assertIn("link=slurm-2nd\n", settings.read())
        for example in mpiq_site.near_names(SLURM):
            mpiq_site.read(mpiq_site.find(example, SLURM))

    def test_refused(self):
        self.file("bad.sh", "launcher=rsh\n")
        self.file("worse.sh", "echo broken >&2\nfalse || return 1\n")
        full = self.path("full")
        os.mkdir(full)
        self.file("full/x", "")
        for text, *words in (("--nodes", "--nodes", "0"), ("no shape", "--nodes", "1"), ("--time", "--time", "soon"),
                             ("a minute at least", "--time", "0:59"), ("--gpus", "--gpus", "-1"),
                             ("no file 'none'", "--site", "none"), ("launcher=rsh", "--site", self.path("bad.sh")),
                             ("broken", "--site", self.path("worse.sh")), ("invalid choice", "nosuch"), ("has a %", "--out", "a%j"),
                             ("control", "--out", "a\nb"), ("control", "--partition", "a\nb"), ("control", "--", "a\nb"),
                             ("something else", "--yes", "--out", full), ("--nosuch: what?", "--", "--nosuch"),
                             ("which program", "dropin", "--time", "5"),
                             ("--methods is no option of slurm/submit; options of mpiq-bench go behind --", "--quick", "--methods", "onebit"),
                             ("slurm/submit --quick -- --sizes ...", "--sizes=64K"), ("-n is no option", "-n", "10"),
                             ("no program", "dropin", "--", "/none"), ("how long", "dropin", "--", "true"), ("no folder", "train"),
                             ("onebt", "train", "--", "--data", full, "--methods", "onebt"),
                             ("onebt", "dropin", "--time", "5", "--policy", "1M-: onebt", "--", "true"),
                             ("only for dropin", "--policy", "x"),
                             ("no partition 'nosuch' here; there are: batch, p q, big, tiny", "--partition", "nosuch"),
                             ("65, but partition batch has 64 nodes", "--nodes", "65"),
                             ("9, but partition tiny has 1 nodes", "--nodes", "9", "--partition", "tiny"),
                             ("MaxArraySize", "--launches", "50"),
                             ("No such file", "--sweep", "none.toml"), ("only for", "kernels", "--sweep", "x.toml"),
                             ("one rank on one node", "kernels", "--nodes", "2")):
            done = self.submit(*words, MNIST_DIR="")
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(text, done.stderr)
            self.assertIn("usage: slurm/submit", done.stderr)
            self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(self.calls("sbatch"), [])
        for tool in ("status", "collect"):
            done = self.call(os.path.join(SLURM, tool), full)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("usage: ", done.stderr)


class OtherSites(WithFakes):
    """What clusters do that differ from ours."""

    def test_a_banner_before_the_number_of_the_job(self):
        banner = self.file("banner", "-----\n          Welcome to the 1st Supercomputer\n--> Verifying valid submit host (login1)...OK\n 7 days\n")
        done = self.submit("--nodes", "2", "--launches", "1", "--yes", FAKE_BANNER=banner)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([job.number for job in mpiq_folder.Folder(self.run_folder).jobs()], ["101", "102", "103", "104"])
        self.assertEqual(self.calls("scancel"), [])

    def test_a_number_with_the_name_of_a_cluster(self):
        self.file("bin/sbatch", "#!/bin/sh\necho 'hello'; echo '4711;here'\n")
        with unittest.mock.patch.dict(os.environ, PATH=self.path("bin") + ":" + os.environ["PATH"]):
            self.assertEqual(mpiq_batch.submit(["sbatch", "--parsable", "--job-name=x", "y"]), "4711")

    def test_an_answer_without_a_number_leaves_nothing_in_the_queue(self):
        done = self.submit("--nodes", "2", "--launches", "1", "--yes", FAKE_SILENT="1")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("without the number of a job", done.stderr)
        (submitted,), (cancelled,) = self.calls("sbatch"), self.calls("scancel")
        name = [word for word in submitted.split() if word.startswith("--job-name=")][0].split("=")[1]
        self.assertIn("--name=" + name, cancelled.split())

    def test_the_job_that_submits_hands_no_limits_on(self):
        outer = {"SLURM_MEM_PER_CPU": "100", "SLURM_CPU_BIND": "none", "SLURM_TRES_PER_TASK": "cpu=1", "SLURM_GRES": "none",
                 "SLURM_JOB_ID": "7"}
        done = self.submit("--nodes", "2", "--launches", "1", "--yes", SLURM_CONF="/etc/toy.conf", SBATCH_ACCOUNT="mine", **outer)
        self.assertEqual(done.returncode, 0, done.stderr)
        got = self.environment_of("sbatch")
        self.assertEqual({name for name in got if name.startswith("SLURM_")}, {"SLURM_CONF"})
        self.assertEqual(got["SBATCH_ACCOUNT"], "mine")


class Progress(WithFakes):
    def test_states_come_from_the_queue_then_from_the_job(self):
        state = mpiq_folder.State("t", "running", "7_1", "n", "life 1")
        job = mpiq_folder.Job("cells", "7", "0-3")
        queue = {("7", "1"): mpiq_batch.Queued("7", "1", "PENDING", "BeginTime", "5:00", "")}
        self.assertEqual(mpiq_progress.part("a", job, "1", state, queue).state, "waiting")
        failed = mpiq_folder.State("t", "failed", "7_1", "n", "why")
        self.assertEqual(mpiq_progress.part("a", job, "1", failed, {}).why, "why")

    def test_a_controller_that_does_not_answer_for_a_while_ends_no_waiting(self):
        answers = iter([mpiq_batch.BatchError("no answer"), {"7": 1}, mpiq_batch.BatchError("no answer"), {}])

        def queue(_):
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer
        with unittest.mock.patch.object(mpiq_batch, "queue", queue), unittest.mock.patch("time.sleep"):
            mpiq_submission.wait_for_end(["7"])
        with unittest.mock.patch.object(mpiq_batch, "queue", side_effect=mpiq_batch.BatchError("none")) as asked, \
                unittest.mock.patch("time.sleep"):
            with self.assertRaises(mpiq_batch.BatchError):
                mpiq_submission.wait_for_end(["7"])
            self.assertEqual(asked.call_count, mpiq_submission.REFUSALS)

    def fate(self, job, said):
        self.file("bin/scontrol", f"#!/bin/sh\necho '{said}'\n")
        with unittest.mock.patch.dict(os.environ, PATH=self.path("bin") + ":" + os.environ["PATH"]):
            return mpiq_batch.fate(job, "1")

    def test_ends_that_nobody_explained(self):
        for said, expected in (("JobState=TIMEOUT ExitCode=0:15 Reason=TimeLimit", "time limit"),
                               ("JobState=FAILED ExitCode=9:0 Reason=NonZeroExitCode", "(Slurm: NonZeroExitCode)"),
                               ("JobState=FAILED ExitCode=74:0", "could not write"),
                               ("JobState=FAILED ExitCode=9:0 Reason=None", "exit code 9:0: see its log"), ("", "no longer knows")):
            self.assertIn(expected, self.fate(mpiq_folder.Job("cells", "7", "0-3"), said))

    def test_the_end_of_another_job_of_the_same_number_explains_nothing(self):
        job = mpiq_folder.Job("cells", "7", "0-3", "mpiq-allreduce-1a2b")
        said = "JobName=mpiq-allreduce-{} JobState=TIMEOUT ExitCode=0:15"
        self.assertIn("time limit", self.fate(job, said.format("1a2b")))
        self.assertIn("no longer knows", self.fate(job, said.format("9c9c")))

    def test_status_says_why_cells_wait_and_what_never_begins(self):
        self.assertEqual(self.submit("--launches", "3", "--yes").returncode, 0)
        name = mpiq_folder.Folder(self.run_folder).jobs()[0].name
        self.file("queue", "".join(f"101|{task}|PENDING|{reason}|1:00||{name}\n" for task, reason in
                                   enumerate(("Resources", "Resources", "PartitionNodeLimit"))))
        said = self.call(os.path.join(SLURM, "status"), self.run_folder).stdout
        self.assertIn("\n  2 waiting: Resources\n", said)
        self.assertIn("\n  1 waiting: PartitionNodeLimit: does not begin unless", said)

    def ended_dropin(self):
        """A run of dropin that has come to its end."""
        done = self.submit("dropin", "--time", "5", "--launches", "1", "--policy", ": onebit", "--yes", "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        folder = mpiq_folder.Folder(self.run_folder)
        for step in ("merge", "report"):
            self.file(f"run/state/{step}.state", "t\tdone\t1\tn1\t\n")
        self.file("run/dropin.md", "table\n")
        for cell in folder.cells():
            self.file(f"run/cells/{cell.name}.seconds", "1.5\n")
            self.file(f"run/cells/{cell.name}.json", "{}\n")
        return folder

    def test_runs_of_one_day_are_collected_side_by_side(self):
        folder = self.ended_dropin()
        shutil.copytree(SLURM, self.path("slurm"))  # in a tree of its own, because results/ is in the tree
        os.symlink(os.path.join(ROOT, "scripts"), self.path("scripts"))
        collect = self.path("slurm", "collect")
        jobs = [self.path(f"run/cells/{cell.name}.ini") for cell in folder.cells()]
        for run, ends in enumerate(("", "-2", "-3")):
            for path in jobs:
                self.file(path, f"JobId={run}\n")
            done = self.call(collect, self.run_folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, rf"results/\d+-\d+-\d+-slurm-toy{ends}/dropin\.md\n")
        again = self.call(collect, self.run_folder)
        self.assertEqual(again.returncode, 1)
        self.assertIn("-slurm-toy-3/dropin.md exists: another --to, or --force", again.stderr)
        self.assertEqual(self.call(collect, self.run_folder, "--force").returncode, 0)
        self.assertEqual(len(os.listdir(self.path("results"))), 3)

    def test_collect_brings_the_reports_of_a_program(self):
        folder = self.ended_dropin()
        done = self.call(os.path.join(SLURM, "collect"), self.run_folder, "--to", self.path("out"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(os.listdir(self.path("out", "reports"))),
                         sorted(cell.name + end for cell in folder.cells() for end in (".json", ".seconds")))


class Scripts(unittest.TestCase):
    def scripts(self):
        found = [os.path.join(ROOT, "scripts", "slurm_lab")]
        for pattern in ("*.sbatch", "lib/*.sh", "sites/*.sh"):
            found += glob.glob(os.path.join(SLURM, pattern))
        self.assertGreater(len(found), 15)
        return found

    def test_bash_reads_all_of_them(self):
        for path in self.scripts():
            done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

    @needs("shellcheck", shutil.which("shellcheck"), "shellcheck of slurm/")
    def test_shellcheck(self):
        done = subprocess.run(["shellcheck", *self.scripts()], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def lab_with_dead_controller(self, slurmctld, seconds):
        """scripts/slurm_lab up, where slurmctld only does this and every command of Slurm waits for it: the output and the seconds."""
        bodies = {"munged": "exit 0", "slurmd": "exit 0", "slurmctld": slurmctld, "sbatch": "exit 1", "srun": "exit 1", "scontrol": "exit 1",
                  "sinfo": "sleep 3; exit 1", "scancel": "exit 1", "squeue": "exit 1"}
        with tempfile.TemporaryDirectory(prefix="lab") as folder:
            for name, body in bodies.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/bash\n{body}\n")
                os.chmod(os.path.join(folder, name), 0o755)
            env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "LAB": os.path.join(folder, "lab"), "LAB_SECONDS": seconds}
            started = time.monotonic()
            done = subprocess.run([os.path.join(ROOT, "scripts", "slurm_lab"), "up", "2"], capture_output=True, text=True, check=False, env=env)
            self.assertEqual((done.returncode, os.path.exists(os.path.join(folder, "lab"))), (1, False), done.stderr)
            return done.stderr, time.monotonic() - started

    def test_the_lab_ends_at_once_where_slurmctld_dies_and_shows_why(self):
        said, seconds = self.lab_with_dead_controller("echo 'fatal: slurm_init_msg_engine_port' >$LAB/log/slurmctld.log", "600")
        self.assertIn("The last line of slurmctld's log: fatal: slurm_init_msg_engine_port", said)
        self.assertLess(seconds, 60)
        said, seconds = self.lab_with_dead_controller("echo $$ >$LAB/run/slurmctld.pid; echo was here >$LAB/log/slurmctld.log", "600")
        self.assertIn("log: was here", said)
        self.assertLess(seconds, 60)

    def test_the_lab_does_not_wait_longer_than_it_says(self):
        said, seconds = self.lab_with_dead_controller("exit 0", "1")
        self.assertIn("within 1 s (LAB_SECONDS)", said)
        self.assertIn("it has written no log", said)
        self.assertLess(seconds, 60)

    def test_the_lab_refuses_what_it_does_not_know(self):
        lab = os.path.join(ROOT, "scripts", "slurm_lab")
        for words, env in (([], {}), (["nosuch"], {}), (["up", "0"], {}), (["up", "a"], {}), (["up", "1", "2"], {}),
                           (["with", "2"], {}), (["sh"], {}), (["down", "x"], {}), (["up"], {"LAB": "relative"}),
                           (["up"], {"LAB": "/tmp/" + "x" * 80}), (["up"], {"LAB_GPUS": "9"}), (["up"], {"LAB_PORT": "80"}), (["up"], {"LAB_SECONDS": "soon"})):
            done = subprocess.run([lab, *words], capture_output=True, text=True, check=False, env={**os.environ, **env})
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("usage: scripts/slurm_lab", done.stderr)


if __name__ == "__main__":
    unittest.main()
