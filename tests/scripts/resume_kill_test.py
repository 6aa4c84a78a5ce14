"""mpiq-bench, killed at random times and resumed: resume_kill_test.py MPIQ_BENCH MPIEXEC [KILLS]. After every kill the file opens
and has all that it had before; of the points that were printed at most the last is lost; and a sweep that was killed often ends with
the keys of one that never was."""
import os
import random
import re
import signal
import subprocess
import sys
import time
import unittest

import h5py

from scripts_common import InTemporaryFolder, call, script

BENCH, MPIEXEC = os.path.abspath(sys.argv[1]), sys.argv[2]
KILLS = int(sys.argv[3]) if len(sys.argv) > 3 else 200
SIZES = ",".join(str(64 * i) for i in range(1, 25))
SWEEP = ["allreduce", "--sizes", SIZES, "--methods", "mpi,bf16", "--iters", "6", "--warmup", "0", "--buffers", "warm"]
ROW = re.compile(rb"^ +(\d+) .* (mpi|bf16) ", re.M)
SEED = 20


def running(path):
    """Processes that have this path on their command line, but this one and those that have ended."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if path.encode() in file.read() and int(pid) != os.getpid():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def kill(process, path):
    """The whole launch at once: the launcher, what it has started, and the ranks."""
    for pid in {process.pid, *running(path)}:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()
    while running(path):
        time.sleep(0.001)


def content(path):
    """Keys in the order of rows, and the points of the file as bytes and method; nothing where there is no file yet."""
    if not os.path.exists(path):
        return [], set()
    with h5py.File(path) as file:
        table = file["points"][...]
        assert set(table["status"]) <= {b"ok"}, table["status"]
        assert len(table) == 0 or len(file["samples/t_max_s"]) == len(table)
        return list(table["key"]), {(int(row["bytes"]), row["method"].decode()) for row in table}


class Killed(InTemporaryFolder):
    def start(self, path, ranks):
        log = open(path + ".log", "wb")  # pylint: disable=consider-using-with
        process = subprocess.Popen([MPIEXEC, "-n", str(ranks), BENCH, *SWEEP, "-O", path], stdout=log, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        log.close()
        return process

    def finished(self, path, ranks):
        """Keys of a sweep that nobody disturbs, and how long it takes."""
        began = time.monotonic()
        self.assertEqual(self.start(path, ranks).wait(), 0)
        return set(content(path)[0]), time.monotonic() - began

    def printed(self, path):
        with open(path + ".log", "rb") as file:
            return file.read()

    def lives(self, path, ranks, chance, span_s):
        """Runs a sweep to its end; returns its keys, and how often it was killed on the way."""
        kills, before = 0, []
        while True:
            process = self.start(path, ranks)
            try:
                process.wait(chance.uniform(0, 0.7 * span_s))
            except subprocess.TimeoutExpired:
                kill(process, path)
                kills += process.returncode == -signal.SIGKILL
            text = self.printed(path).decode("utf-8", "replace")
            keys, points = content(path)
            self.assertEqual(keys[:len(before)], before, "what was there stays")
            self.assertEqual(len(keys), len(set(keys)), "no point was measured twice")
            lost = {(int(size), method.decode()) for size, method in ROW.findall(self.printed(path))} - points
            self.assertLessEqual(len({size for size, _ in lost}), 1, f"of what was printed is not in the file: {lost}")
            before = keys
            if process.returncode != -signal.SIGKILL:
                self.assertEqual(process.returncode, 0, text)
                return set(keys), kills

    def test_a_sweep_that_is_killed_again_and_again_ends_as_one_that_is_not(self):
        chance, kills, sweeps = random.Random(SEED), 0, 0
        whole = {ranks: self.finished(self.path(f"whole-{ranks}.h5"), ranks) for ranks in (1, 2)}
        while kills < KILLS:
            ranks = 2 if sweeps % 16 == 15 else 1
            path = self.path(f"killed-{sweeps}.h5")
            keys, more = self.lives(path, ranks, chance, whole[ranks][1])
            self.assertEqual(keys, whole[ranks][0])
            kills, sweeps = kills + more, sweeps + 1
            if sweeps <= 2:
                done = call(script("check_results"), path, env={"PYTHONDONTWRITEBYTECODE": "1"})
                self.assertEqual(done.returncode, 0, done.stdout)
        print(f"{kills} kills in {sweeps} sweeps", file=sys.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
