"""Tests of scripts/sweep with a made-up launcher and mpiq-bench: which launches it starts, resumes, ends and refuses.

Needs neither MPI nor a build: /usr/bin/python3 tests/scripts/sweep_test.py
"""
import json
import os
import pty
import signal
import subprocess
import unittest

from result_files import WithFiles, points_of, script, tool
from scripts_common import call

from mpi_quant.sweep import launching, sweep_files

# Copies the file that the test has prepared for this launch; then does what the test wants of it.
BENCH = r"""#!/usr/bin/python3
import os, shutil, sys, time
folder, words = os.path.dirname(os.path.abspath(sys.argv[0])), sys.argv[1:]
def of(option):
    return words[words.index(option) + 1] if option in words else ""
if words == ["--version"]:
    print("mpiq-bench 0 " + os.environ.get("FAKE_COMMIT", "abc"))
    sys.exit(0)
if "--nosuch" in words:
    print("--nosuch: no such option", file=sys.stderr)
    sys.exit(2)
if "--dry-run" in words:
    print("# 1 points of 3 methods; about 3M bytes on each rank; about 1.500 s if the stop rule is met in time")
    sys.exit(0)
with open(folder + "/calls", "a") as calls:
    calls.write(" ".join(words) + "\n")
index, what = of("--launch-index"), dict(w.split(":") for w in os.environ.get("FAKE", "").split()).get(of("--launch-index"), "")
print("a row of launch " + index, flush=True)
if what == "fail":
    sys.exit(1)
if what == "slow":
    time.sleep(4)
if what != "stuck":
    shutil.copy(f"{folder}/launch-{index}-1.0.h5", of("-O"))
if what == "left":
    import h5py
    with h5py.File(of("-O"), "a") as file:
        file.attrs.modify("status", b"partial")
    sys.exit(75)
if what in ("hang", "stuck"):
    time.sleep(600)
"""
MPIEXEC = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift 2; done
exec "$@"
"""
SWEEP = '[allreduce]\nsizes = ["64K"]\n[launch]\nlaunches = 3\nranks = 1\n'


class WithFakes(WithFiles):
    prepared = {}  # name -> bytes of the file of a launch

    def setUp(self):
        super().setUp()
        self.executable("mpiq-bench", BENCH)
        self.executable("mpiexec", MPIEXEC)
        if not self.prepared:
            for path in map(self.launch, range(3)):
                with open(path, "rb") as file:
                    self.prepared[os.path.basename(path)] = file.read()
        for name, content in self.prepared.items():
            with open(self.path(name), "wb") as file:
                file.write(content)

    def executable(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), 0o755)

    def toml(self, text=SWEEP, name="tiny.toml"):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def words(self, *arguments, out="out"):
        return ["--bin", self.folder, "--mpiexec", self.path("mpiexec"), "--out", self.path(out), *arguments]

    def sweep(self, *arguments, **env):
        return call(script("sweep"), *self.words(*arguments), env={"PYTHONDONTWRITEBYTECODE": "1", **env})

    def calls(self):
        try:
            with open(self.path("calls"), encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []


class Launches(WithFakes):
    def test_launches_of_a_link_become_one_file_that_is_checked(self):
        done = self.sweep(self.toml())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(sorted(set(points_of(self.path("out", "shm.h5"))["launch"])), [0, 1, 2])
        self.assertIn("scripts/check_results: 1 file, 9 rows, 0 violations", done.stdout)
        self.assertIn("a row of launch 2", done.stdout)
        plots = tool("plot", "launches", self.path("out", "shm.h5"), "-o", self.folder)
        self.assertEqual(plots.returncode, 0, plots.stderr)

    def test_one_launch_needs_no_merging(self):
        done = self.sweep(self.toml(), "--launches", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("run", points_of(self.path("out", "shm.h5")).dtype.names)

    def test_the_order_is_shuffled_and_stored(self):
        self.assertEqual(self.sweep(self.toml()).returncode, 0)
        with open(self.path("out", "cells", "sweep.json"), encoding="utf-8") as file:
            record = json.load(file)
        self.assertEqual([call.split("--launch-index ")[1][0] for call in self.calls()], [n[-1] for n in record["order"]])
        self.assertEqual(record["order_seed"], 1)
        cells = sweep_files.cells(sweep_files.read(self.toml()))
        self.assertEqual(len({tuple(c.name for c in sweep_files.shuffled(cells, seed)) for seed in range(20)}), 6)

    def test_what_is_complete_is_not_measured_again_and_more_launches_may_follow(self):
        self.assertEqual(self.sweep(self.toml(), "--launches", "1").returncode, 0)
        self.assertEqual(self.sweep(self.toml()).returncode, 0)
        self.assertEqual(sorted(call.split("--launch-index ")[1][0] for call in self.calls()), ["0", "1", "2"])

    def test_points_that_are_left_exit_75_and_are_resumed(self):
        done = self.sweep(self.toml(), FAKE="1:left")
        self.assertEqual(done.returncode, 75, done.stdout + done.stderr)
        self.assertEqual(len(self.calls()), 3)
        self.assertEqual(self.sweep(self.toml()).returncode, 0)
        self.assertEqual(len(self.calls()), 4)

    def test_a_terminal_shows_how_far_a_long_launch_is(self):
        ours, its = pty.openpty()
        with subprocess.Popen([script("sweep"), *self.words(self.toml(), "--launches", "1")], stdout=subprocess.DEVNULL, stderr=its,
                              env={**os.environ, "FAKE": "0:slow", "PYTHONDONTWRITEBYTECODE": "1"}) as sweep:
            os.close(its)
            self.assertEqual(sweep.wait(60), 0)
        shown = os.read(ours, 1 << 16).decode()
        os.close(ours)
        self.assertRegex(shown, r"\[1/1\] shm-0, [23] s; 0 s left")
        self.assertTrue(shown.endswith("\r\033[K"))

    def test_no_launch_begins_after_the_deadline(self):
        done = self.sweep(self.toml(), "--deadline", "0")
        self.assertEqual((done.returncode, self.calls()), (75, []), done.stderr)

    def test_a_launch_that_fails_does_not_stop_the_others(self):
        done = self.sweep(self.toml(), FAKE="0:fail")
        self.assertEqual(done.returncode, 1)
        self.assertIn("shm-0: ended with 1", done.stderr)
        self.assertEqual(sorted(set(points_of(self.path("out", "shm.h5"))["launch"])), [1, 2])

    def test_options_behind_the_dashes_and_those_of_vary_reach_the_program(self):
        text = '[allreduce]\n[launch]\nranks = 1\n[launch.vary]\ndata = ["a:1", "a/1"]\n'
        cells = sweep_files.cells(sweep_files.read(self.toml(text)))
        self.assertEqual([c.name for c in cells], ["shm-a_1-0", "shm-a_1_2-0"])
        self.assertEqual(cells[1].options, ["--data=a/1"])
        self.sweep(self.toml(), "--launches", "1", "--", "--warmup", "7")
        self.assertIn("--warmup 7", self.calls()[0])

    def test_several_files_have_folders_of_their_own(self):
        done = self.sweep(self.toml(), self.toml(name="other.toml"), "--launches", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(os.path.exists(self.path("out", "tiny", "shm.h5")))
        self.assertTrue(os.path.exists(self.path("out", "other", "shm.h5")))

    def test_a_dry_run_starts_and_writes_nothing(self):
        done = self.sweep(self.toml(), "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3 launches, about 10 s", done.stdout)  # 1.5 s of points and 2 s of its own each
        self.assertRegex(done.stdout, r"shm-2 +1 points +1 ranks +3MB each +about 4 s")
        self.assertEqual((self.calls(), os.path.exists(self.path("out"))), ([], False))


class Hanging(WithFakes):
    def test_a_launch_that_does_not_end_although_its_file_is_complete_is_ended_and_its_file_counts(self):
        done = self.sweep(self.toml(), "--patience", "0.5", FAKE="1:hang")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("complete, but it does not end", done.stderr)
        self.assertEqual(len(points_of(self.path("out", "shm.h5"))), 9)

    def test_a_launch_that_gets_nowhere_is_ended_and_has_failed(self):
        done = self.sweep(self.toml(), "--limit", "0.5", FAKE="1:stuck")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("has not ended after", done.stderr)

    def test_a_signal_ends_the_launch_too(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            folder = f"out-{number}"
            with subprocess.Popen([script("sweep"), *self.words(self.toml(), "--launches", "1", out=folder)],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "FAKE": "0:stuck"}) as process:
                for line in process.stdout:
                    if line.startswith(b"a row"):
                        break
                process.send_signal(number)
                process.stdout.read()
                self.assertEqual(process.wait(), 128 + number)
            self.assertEqual(self.running(), [], "the made-up mpiq-bench")

    def running(self):
        """Processes of the made-up mpiq-bench of this test."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if self.path("mpiq-bench").encode() in words[:2] and int(pid) != os.getpid():
                found.append(words)
        return found

    def test_a_complete_file_with_a_point_that_failed_is_not_done(self):
        path = self.launch(0)
        self.assertTrue(launching.is_complete(path))
        self.change(path, status=(1, b"failed"))
        self.assertFalse(launching.is_complete(path))
        self.assertFalse(launching.is_complete(self.path("none.h5")))
        self.assertFalse(launching.is_complete(self.toml()))


class Refused(WithFakes):
    def refused(self, text, *arguments, **env):
        done = self.sweep(*arguments, **env)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn(text, done.stderr)
        self.assertIn("usage: scripts/sweep", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def unreadable(self, text, path):
        with self.assertRaises(sweep_files.SweepError) as caught:
            sweep_files.read(path)
        self.assertIn(text, str(caught.exception))

    def test_bad_files(self):
        self.refused("No such file", self.path("none.toml"))
        self.unreadable("Is a directory", self.folder)
        self.unreadable("bad.toml: ", self.toml("[allreduce\n", "bad.toml"))
        with open(self.path("latin.toml"), "wb") as file:
            file.write(b'[allreduce]\nlink = "\xe4"\n')
        self.unreadable("latin.toml: ", self.path("latin.toml"))
        for text in ("", "a = 1\n", "[allreduce]\n[sparse]\n", "allreduce = 1\n", "[allreduce]\nnosuch = 1\n[other]\n",
                     "launch = 1\n[allreduce]\n"):
            self.unreadable("needs one section", self.toml(text))

    def test_bad_launch_sections(self):
        for text, why in (("launches = 0", "launches: 0 is not"), ("launches = true", "launches: True is not"), ("ranks = 'two'", "'two'"),
                          ("labs = []", "no link"), ("labs = ['2x']", "neither shm nor"), ("labs = ['shm', 'shm']", "twice"),
                          ("labs = [1]", "neither shm nor"), ("labs = ['999x1gbit']", "at most 200"), ("hosts = 2", "hosts: unknown"),
                          ("env = 3", "not a table"), ("vary = 3", "not a table"), ("vary = {seed = []}", "not a list"),
                          ("vary = {seed = 3}", "not a list")):
            self.unreadable(why, self.toml(f"[allreduce]\n[launch]\n{text}\n"))

    def test_bad_command_lines(self):
        self.refused("--launches", self.toml(), "--launches", "0")
        self.refused("--ranks", self.toml(), "--ranks", "-1")
        self.refused("--labs", self.toml(), "--labs", "2x")
        self.refused("--labs", self.toml(), "--labs", ",")
        self.refused("--nosuch", self.toml(), "--nosuch")
        self.refused("no mpiq-bench in", self.toml(), "--bin", self.path("none"))
        self.refused("--mpiexec", self.toml(), "--mpiexec", self.path("none"))
        self.refused("two files of one name", self.toml(), self.toml())
        self.refused("--nosuch: no such option", self.toml(), "--", "--nosuch")
        self.assertEqual(self.calls(), [])

    def test_a_place_that_cannot_be_written(self):
        done = self.sweep(self.toml(), "--out", self.path("mpiexec", "out"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("Not a directory", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_a_folder_that_holds_another_sweep(self):
        self.assertEqual(self.sweep(self.toml(), "--launches", "1").returncode, 0)
        self.refused("made with other options", self.toml(), "--", "--warmup", "3")
        self.refused("made with other options", self.toml(SWEEP.replace("64K", "1M")))
        self.refused("this is mpiq-bench 0 def", self.toml(), FAKE_COMMIT="def")
        for text in ("{", "[]", '{"version": 1}', '{"version": 1, "cells": 1}'):
            with open(self.path("out", "cells", "sweep.json"), "w", encoding="utf-8") as file:
                file.write(text)
            self.refused("not what scripts/sweep writes", self.toml())


if __name__ == "__main__":
    unittest.main()
