"""Tests of slurm/ with made-up commands of Slurm: plans, what is submitted and how far it is, what is refused.

Needs neither Slurm nor MPI nor a build: /usr/bin/python3 tests/scripts/slurm_test.py
"""
import argparse
import glob
import os
import re
import subprocess
import tempfile
import time
import unittest
import unittest.mock

from scripts_common import ROOT
from slurm_fakes import SLURM, WithFakes

from mpi_quant.slurm import batch, planning, run_folder


class Plans(unittest.TestCase):
    def test_lists_of_nodes(self):
        for text, expected in (("4", [4]), ("1-64", [1, 2, 4, 8, 16, 32, 64]), ("3,1,2", [1, 2, 3]), ("1-6", [1, 2, 4, 6]),
                               ("2,2-4", [2, 4]), ("5-5", [5])):
            self.assertEqual(planning.numbers(text, "--nodes"), expected)
        for text in ("", "0", "-1", "4-2", "1-", "a", "1;2", "1,,2", "9999999", "１"):
            with self.assertRaises(run_folder.Refused, msg=text):
                planning.numbers(text, "--nodes")

    def test_times(self):
        for text, expected in (("30", 1800), ("1:30", 90), ("1:30:00", 5400), ("2-12", 216000), ("1-0:30", 88200),
                               ("0-0:01:30", 90)):
            self.assertEqual(planning.seconds(text), expected)
        for text in ("", "0", "0:59", "now", "1:2:3:4", "-1", "1d"):
            with self.assertRaises(run_folder.Refused, msg=text):
                planning.seconds(text)

    def test_cells_are_shuffled_within_an_array_of_equal_nodes(self):
        def made(shapes):
            return planning.cells(shapes, 5, [()])
        cells = made([(1, 2), (2, 1), (2, 2), (4, 1)])
        self.assertEqual([c.nodes for c in cells], [1] * 5 + [2] * 10 + [4] * 5)
        self.assertEqual(cells, made([(1, 2), (2, 1), (2, 2), (4, 1)]), "a run that goes on has the same plan")
        self.assertEqual({c[:4] for c in cells[5:15]}, {(f"2x{m}-{i}", 2, m, i) for m in (1, 2) for i in range(5)})
        self.assertNotEqual([c.launch for c in cells[5:15]], sorted(c.launch for c in cells[5:15]))
        self.assertNotEqual([c.ranks_per_node for c in cells[5:15]], [1] * 5 + [2] * 5)

    def test_words_of_varied_options_are_file_names(self):
        names = [c.name for c in planning.cells([(2, 1)], 1, [("--data=a:1",), ("--data=a/1",), ("--data=../x",)])]
        self.assertEqual(sorted(names), ["2x1-.._x-0", "2x1-a_1-0", "2x1-a_1_2-0"])
        with self.assertRaises(run_folder.Refused):
            planning.cells([(2, 1)], 1, [("--data=a\tb",)])

    def test_the_command_line_wins_over_defaults(self):
        experiment = planning.Experiment("bench", options=("--a=1", "--b=2"), quick_options=("--b=3",))
        options = argparse.Namespace(extra=["--a", "9"], quick=True)
        self.assertEqual(planning.program_options(experiment, options), ["--b=3", "--a", "9"])
        self.assertEqual(planning.option_of(["-n", "1", "--a=2", "x"], "--a"), ("2", ["-n", "1", "x"]))
        self.assertEqual(planning.option_of(["-n", "1", "--a"], "--a"), ("", ["-n", "1"]))

    def test_what_is_written_for_bash_comes_back_as_it_was(self):
        hostile = ["$(touch x)", "a b", "'", '"', "`id`", "\\", "*", "", "é", "--x=;rm", "a\nb"]
        text = run_folder.settings_text({"words": hostile, "one": hostile[0]})
        reader = 'run=/nowhere; eval "$1"; printf "%s\\0" "$one" "${words[@]}"'
        done = subprocess.run(["bash", "-c", reader, "x", text], capture_output=True, check=True)
        self.assertEqual(done.stdout.decode().split("\0")[:-1], [hostile[0], *hostile])


class Submitted(WithFakes):
    def test_cells_then_what_depends_on_them(self):
        done = self.submit("--nodes", "1-4", "--ranks-per-node", "2", "--launches", "3", "--yes", "--partition", "p q",
                           "--gpus", "4")
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = self.calls("sbatch")
        self.assertEqual(len(calls), 4)
        for call, words in zip(calls, (
                ["--array=0,1,2%1", "--nodes=1", "--ntasks-per-node=2", "--partition=p q", "--gpus-per-node=4", "--cpus-per-task=1",
                 "--time=5", "--job-name=" + self.job_name()],
                ["--array=3,4,5%1", "--nodes=2", "--dependency=afterany:101"], ["--array=6,7,8%1", "--dependency=afterany:102"],
                ["--dependency=afterany:101:102:103", "--job-name=" + self.job_name(), f"job.sbatch {self.run_folder}"])):
            for word in words:
                self.assertIn(" " + word if word.startswith("-") else word, call)
        self.assertIn("allreduce (bench/sweeps/reference.toml)\ncells: 9, each at most 5 minutes", done.stdout)
        self.assertIn("  nodes: 2, ranks per node: 2, cells: 3\n", done.stdout)
        self.assertIn("mpiq-bench expects of a cell: 2 points of", done.stdout)
        # 3 (1 + 2 + 4) nodes for 5 minutes, which are expected to take 90 s.
        self.assertIn("cost: at most 1.75 node-hours", done.stdout)
        self.assertEqual(set(self.run_of_test().jobs().values()), {*(f"{101 + i // 3}_{i}" for i in range(9)), "104"})
        with open(os.path.join(self.run_folder, "plan.tsv"), encoding="utf-8") as plan:
            self.assertEqual(len(plan.readlines()), 9)

    def test_cells_at_the_same_time_do_not_wait_for_each_other(self):
        self.assertEqual(self.submit("--nodes", "2,3", "--launches", "2", "--at-once", "4", "--yes").returncode, 0)
        self.assertIn("--array=0,1%4", self.calls("sbatch")[0])
        self.assertNotIn("dependency", self.calls("sbatch")[1])

    def test_nothing_is_submitted_without_being_asked_to(self):
        self.assertEqual(self.submit().returncode, 2)
        dry = self.submit("--dry-run", "--quick")
        self.assertEqual(dry.returncode, 0, dry.stderr)
        self.assertIn("sbatch --parsable --job-name=mpiq-allreduce-", dry.stdout)
        self.assertIn("kind=bench", dry.stdout)
        ranks = self.submit("--dry-run", "--sweep", os.path.join(ROOT, "bench/sweeps/ranks.toml"))
        self.assertIn("a cell: 3 x 2 points", ranks.stdout, "three numbers of ranks in a launch")
        self.assertIn("each at most 10 minutes", ranks.stdout)
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
        (cancelled,) = self.calls("scancel")
        self.assertIn(" --name=" + self.job_name(), cancelled)

    def test_what_is_done_is_not_submitted_again_and_another_run_needs_another_folder(self):
        words = ("--launches", "4", "--yes")
        self.assertEqual(self.submit(*words).returncode, 0)
        cells, name = self.run_of_test().cells(), self.job_name()
        for i in (0, 1):
            self.file(f"run/state/{cells[i].name}.state", f"t\tfailed\t101_{i}\tn1\twhy\nt\tdone\t101_{i}\tn1\t\n")
        lock = self.file(f"run/cells/{cells[2].name}.h5.lock", "other/12345678 77 55 9\n")
        self.assertEqual(self.submit(*words, "--time", "90").returncode, 0)
        self.assertIn("--array=2,3%1", self.calls("sbatch")[2])
        self.assertIn(f"--job-name={name} ", self.calls("sbatch")[2])
        self.assertFalse(os.path.exists(lock), "no job of the run is left, so that the owner of the lock has ended")
        other = self.submit("--launches", "5", "--yes")
        self.assertEqual(other.returncode, 2)
        self.assertIn("another run (other launches)", other.stderr)
        self.file(lock, "")
        self.file("queue", "103_2|RUNNING|None|1:00|n1\n")
        self.assertIn("jobs 103_2 of", self.submit(*words).stderr)
        self.assertIn(f"squeue -h -r --name={name} ", self.calls("squeue")[-1], "jobs of others are not taken for its own")
        self.assertTrue(os.path.exists(lock))

    def test_a_run_that_is_done_is_not_submitted_again(self):
        self.assertEqual(self.submit("--launches", "1", "--yes").returncode, 0)
        for name, job in self.run_of_test().jobs().items():
            self.file(f"run/state/{name}.state", f"t\tdone\t{job}\tn1\t\n")
        done = self.submit("--launches", "1", "--yes")
        self.assertEqual((done.returncode, len(self.calls("sbatch"))), (0, 2), done.stderr)
        self.assertIn("is complete", done.stdout)
        self.assertIn("to fetch it: slurm/collect", self.call(os.path.join(SLURM, "status"), self.run_folder).stdout)

    def test_sites(self):
        site = self.file("site.sh", "partition=big\nsmall_partition=tiny\nlauncher=openmpi\nsbatch_options=(--x='a b')\n"
                         "link=$((1 + 1))nd\n")
        done = self.submit("--site", site, "--account", "me", "--yes")
        self.assertEqual(done.returncode, 0, done.stderr)
        first, merge = self.calls("sbatch")[:2]
        self.assertIn(" --partition=big --account=me ", first)
        self.assertIn(" --x=a b ", first)
        self.assertIn(" --partition=tiny --account=me ", merge)
        with open(os.path.join(self.run_folder, "settings.sh"), encoding="utf-8") as settings:
            self.assertIn("link=slurm-2nd\n", settings.read())
        for example in glob.glob(os.path.join(SLURM, "sites", "*.sh")):
            self.assertEqual(planning.site_of(example)["link"], {"cray": "slingshot", "openmpi_gpu": "infiniband", "plain": ""}[
                os.path.basename(example)[:-3]])

    def test_refused(self):
        self.file("bad.sh", "launcher=rsh\n")
        self.file("old.sh", "max_nodes=4\n")
        self.file("worse.sh", "echo broken >&2\nfalse || return 1\n")
        full = self.path("full")
        os.mkdir(full)
        self.file("full/x", "")
        for text, *words in (("--nodes", "--nodes", "0"), ("no shape", "--nodes", "1"), ("--time", "--time", "soon"),
                             ("a minute at least", "--time", "0:59"), ("--gpus", "--gpus", "-1"),
                             ("no file 'none'", "--site", "none"), ("launcher=rsh", "--site", self.path("bad.sh")),
                             ("max_nodes is no setting any more", "--site", self.path("old.sh")),
                             ("broken", "--site", self.path("worse.sh")), ("no experiment 'nosuch'", "nosuch"), ("has a %", "--out", "a%j"),
                             ("control", "--out", "a\nb"), ("from 1 on", "--launches", "0"), ("--at-once", "--at-once", "-1"),
                             ("something else", "--yes", "--out", full), ("--nosuch: what?", "--", "--nosuch"),
                             ("-- PROGRAM ARGUMENTS", "dropin", "--time", "5"),
                             ("--methods is no option of slurm/submit; options of mpiq-bench go behind --", "--quick", "--methods", "onebit"),
                             ("slurm/submit --quick -- --sizes ...", "--sizes=64K"), ("-n is no option", "-n", "10"),
                             ("no program", "dropin", "--", "/none"), ("how long", "dropin", "--", "true"), ("no folder", "train"),
                             ("onebt", "train", "--", "--data", full, "--methods", "onebt"),
                             ("onebt", "dropin", "--time", "5", "--policy", "1M-: onebt", "--", "true"),
                             ("only for dropin", "--policy", "x"),
                             ("Slurm refuses cells on 2 nodes: sbatch: allocation failure: not available", "--partition", "nosuch"),
                             ("Slurm refuses cells on 65 nodes: ", "--nodes", "2,65"),
                             ("MaxArraySize", "--launches", "50"),
                             ("No such file", "--sweep", "none.toml"), ("only for", "kernels", "--sweep", "x.toml"),
                             ("one rank on one node", "kernels", "--nodes", "2")):
            done = self.submit(*words, MNIST_DIR="")
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(text, done.stderr)
            self.assertIn("usage: slurm/submit", done.stderr)
            self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(self.calls("sbatch"), [])
        for text in ("no folder of a run", "of an older version"):
            for tool in ("status", "collect"):
                done = self.call(os.path.join(SLURM, tool), full)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertRegex(done.stderr, f"usage: (.*\n)*.*{text}")
            self.file("full/record.json", "{}")


class OtherSites(WithFakes):
    """What clusters do that differ from ours."""

    def test_a_banner_before_the_number_of_the_job(self):
        banner = self.file("banner", "-----\n          Welcome to the 1st Supercomputer\n--> Verifying valid submit host (login1)...OK\n 7 days\n")
        done = self.submit("--nodes", "2", "--launches", "1", "--yes", FAKE_BANNER=banner)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(set(self.run_of_test().jobs().values()), {"101_0", "102"})
        self.assertEqual(self.calls("scancel"), [])

    def test_a_number_with_the_name_of_a_cluster(self):
        self.file("bin/sbatch", "#!/bin/sh\necho 'hello'; echo '4711;here'\n")
        with unittest.mock.patch.dict(os.environ, PATH=self.path("bin") + ":" + os.environ["PATH"]):
            self.assertEqual(batch.submit(["sbatch", "--parsable", "--job-name=x", "y"]), "4711")

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
    def setUp(self):
        super().setUp()
        self.assertEqual(self.submit("--launches", "3", "--yes").returncode, 0)
        self.first = self.run_of_test().cells()[0].name

    def status(self, *words):
        return self.call(os.path.join(SLURM, "status"), self.run_folder, *words)

    def expect(self, line, code=0):
        """That slurm/status has this line for the first cell: its state and why."""
        done = self.status("--cells")
        self.assertRegex(done.stdout, rf"\n  {self.first} +{line}", done.stderr)
        self.assertEqual(done.returncode, code, done.stdout)

    def test_states_come_from_the_queue_then_from_the_job(self):
        others = "101_1|RUNNING|None|1:00|n2\n101_2|RUNNING|None|1:00|n2\n102|PENDING|Dependency||\n"
        for said, job, queued, line, code in (
                ("running", "101_0", "101_0|PENDING|BeginTime|1:00|\n", "waiting +101_0 +BeginTime\n", 0),
                ("left", "101_0", "101_0|PENDING|BeginTime|1:00|\n", r"waiting +101_0 +why \(Slurm: BeginTime\)\n", 0),
                ("failed", "101_0", "101_0|PENDING|BeginTime|1:00|\n", "waiting +101_0 +BeginTime\n", 0),
                ("running", "101_0", "101_0|RUNNING|None|5:00|n1\n", "running +101_0 +on n1, 5:00 left\n", 0),
                ("failed", "77_0", "101_0|RUNNING|None|5:00|n1\n", "running +101_0 +on n1, 5:00 left\n", 0),
                ("done", "101_0", "", "done +101_0\n|done +101_0 +why\n", 0),
                ("failed", "101_0", "", "failed +101_0 +why\n", 1), ("failed", "77_0", "", "cut off +101_0 +ended without a word", 1)):
            self.file(f"run/state/{self.first}.state", f"t\t{said}\t{job}\tn\twhy\n")
            self.file("queue", queued + others)
            self.expect(line, code)
        self.assertIn("cells: 2 running, 1 cut off\n", self.status().stdout)
        self.assertRegex(self.status().stdout, r"to go on: cd .* --out ")

    def test_without_slurm_the_folder_tells_what_it_knows(self):
        names = [cell.name for cell in self.run_of_test().cells()] + ["finish"]
        jobs = ["101_0", "101_1", "101_2", "102"]
        for name, job in zip(names, jobs):
            self.file(f"run/state/{name}.state", f"t\tdone\t{job}\tn\t\n")
        os.remove(self.path("bin/squeue"))
        self.file("bin/squeue", "#!/bin/bash\necho 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1\n")
        os.chmod(self.path("bin/squeue"), 0o755)
        done = self.status()
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("cells: 3 done\n", done.stdout)
        self.assertIn("to fetch it: ", done.stdout)
        self.file(f"run/state/{names[0]}.state", "t\trunning\t101_0\tn\t\n")
        self.expect("unknown +101_0 +its last word: running\n", 1)
        self.assertIn("Slurm does not answer, so this is what the folder knows. ", self.status().stdout)

    def test_a_controller_that_does_not_answer_for_a_while_ends_no_waiting(self):
        os.remove(self.path("bin/squeue"))
        self.file("bin/squeue", f"""#!/bin/bash
echo "squeue $*" >>"{self.folder}/calls"
case $(grep -c ^squeue "{self.folder}/calls") in 1 | 3) exit 1 ;; 2) echo "102|PENDING|None||" ;; esac
""")
        os.chmod(self.path("bin/squeue"), 0o755)
        self.run_folder = self.path("other")
        done = self.submit("--launches", "3", "--yes", "--wait")
        self.assertEqual(len(self.calls("squeue")), 5, "four of --wait, the last of slurm/status")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("cells: 3 cut off", done.stdout)

    def test_wait_names_the_command_that_fetches_the_results(self):
        os.remove(self.path("bin/squeue"))
        self.run_folder = self.path("other")
        self.file("bin/squeue", f"""#!/bin/bash
while IFS=$'\t' read -r name job; do printf 't\tdone\t%s\tn\t\n' "$job" >"{self.run_folder}/state/$name.state"; done <"{self.run_folder}/jobs.tsv"
""")
        os.chmod(self.path("bin/squeue"), 0o755)
        done = self.submit("--launches", "3", "--yes", "--wait")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"cells: 3 done\nfinish: done\nto fetch it: slurm/collect {self.run_folder}\n", done.stdout)

    def test_ends_that_nobody_explained(self):
        for said, expected in (("JobState=TIMEOUT ExitCode=0:15 Reason=TimeLimit", "TIMEOUT, TimeLimit, 0:15: see its log"),
                               ("JobState=FAILED ExitCode=74:0 Reason=None", "FAILED, 74:0: see its log"), ("", "no longer knows"),
                               ("JobName=another JobState=TIMEOUT ExitCode=0:15", "no longer knows")):
            name = f"JobName={self.job_name()} " if said.startswith("JobState") else ""
            self.file("bin/scontrol", f"#!/bin/sh\necho '{name}{said}'\n")
            self.expect(rf"cut off +101_0 .*{expected}", 1)
        self.file("bin/sacct", f"#!/bin/sh\ncase $* in *--name={self.job_name()}) echo 'CANCELLED by 0|0:0' ;; esac\n")
        self.expect("cut off +101_0 +CANCELLED by 0, 0:0: see its log", 1)

    def test_status_says_why_cells_wait(self):
        self.file("queue", "".join(f"101_{task}|PENDING|{reason}|1:00|\n" for task, reason in
                                   enumerate(("Resources", "Resources", "PartitionNodeLimit"))) + "102|PENDING|Dependency||\n")
        self.assertIn("\n  2 waiting: Resources\n  1 waiting: PartitionNodeLimit\nfinish: waiting (Dependency)\nto stop it: scancel ",
                      self.status().stdout)


class Scripts(unittest.TestCase):
    def scripts(self):
        found = [os.path.join(ROOT, "scripts", "slurm_lab")]
        for pattern in ("*.sbatch", "sites/*.sh"):
            found += glob.glob(os.path.join(SLURM, pattern))
        self.assertGreater(len(found), 4)
        return found

    def test_bash_reads_all_of_them(self):
        for path in self.scripts():
            done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

    def lab_with_dead_controller(self, slurmctld, seconds, addresses="192.0.2.1 ", code=1):
        """scripts/slurm_lab up, where slurmctld only does this and every command of Slurm waits for it: the output and the seconds."""
        bodies = {"munged": "exit 0", "slurmd": "exit 0", "slurmctld": slurmctld, "sbatch": "exit 1", "srun": "exit 1", "scontrol": "exit 1",
                  "sinfo": "exec sleep 20", "scancel": "exec sleep 20", "squeue": "exec sleep 20", "hostname": f"echo '{addresses}'"}
        with tempfile.TemporaryDirectory(prefix="lab") as folder:
            for name, body in bodies.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/bash\n{body}\n")
                os.chmod(os.path.join(folder, name), 0o755)
            env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "LAB": os.path.join(folder, "lab"), "LAB_SECONDS": seconds}
            started = time.monotonic()
            done = subprocess.run([os.path.join(ROOT, "scripts", "slurm_lab"), "up", "2"], capture_output=True, text=True, check=False, env=env)
            self.assertEqual((done.returncode, os.path.exists(os.path.join(folder, "lab"))), (code, False), done.stderr)
            return done.stderr, time.monotonic() - started

    def test_the_lab_ends_at_once_where_slurmctld_dies_and_shows_why(self):
        said, seconds = self.lab_with_dead_controller("echo 'fatal: slurm_init_msg_engine_port' >$LAB/log/slurmctld.log", "600")
        self.assertIn("The last line of slurmctld's log: fatal: slurm_init_msg_engine_port", said)
        self.assertNotIn("127.0.0.1", said)
        self.assertLess(seconds, 10, "no command of Slurm is asked, each of which would wait")
        said, seconds = self.lab_with_dead_controller("echo $$ >$LAB/run/slurmctld.pid; echo was here >$LAB/log/slurmctld.log", "600")
        self.assertIn("log: was here", said)
        self.assertLess(seconds, 10)

    def test_a_machine_off_line_is_told_at_once(self):
        said, seconds = self.lab_with_dead_controller("exit 0", "600", addresses="", code=3)
        self.assertIn("this machine has no address but 127.0.0.1", said)
        self.assertLess(seconds, 10)

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
