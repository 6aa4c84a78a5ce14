"""The line that says how far a command of mpiq is: on a terminal only, late, and gone at the end."""
import os
import pty
import signal
import subprocess
import sys
import unittest
from importlib.util import find_spec

ERASE = "\r\033[K"
CODE = """
import time
from mpi_quant.commands import progress
progress.AFTER_S, progress.EVERY_S = {after}, 0.05
with progress.Line("reads the files") as line:
    time.sleep(0.5)
    for name in line.each("figure", ["speedup", "time"]):
        time.sleep(0.3)
        line.print("drawn " + name)
    line.now(lambda: "a line of " + 500 * "x")
    time.sleep(0.3)
"""
# The terminal goes away while the line is shown.
GONE = """
import sys, time
from mpi_quant.commands import progress
progress.AFTER_S, progress.EVERY_S = 0.05, 0.05
with progress.Line("merges") as line:
    time.sleep(0.3)
    print("drawn", flush=True)
    sys.stdin.read()
    time.sleep(0.3)
    assert line._thread.is_alive()
    line.print("merged")
"""
# The thread draws whenever the process forks: its lock is held in the copy, and nobody gives it back there.
FORK = """
import os, sys
from mpi_quant.commands import check, progress
with progress.Line() as line:
    os.register_at_fork(before=line._lock.acquire, after_in_parent=line._lock.release)
    print(check.isolated(sys.argv[1], False, line))
"""


# Commands whose first step, reading a file, takes long, and then fails.
READS = """
import sys, time
from unittest import mock
from mpi_quant.commands import compare, policy, progress
from mpi_quant.results import reader
progress.AFTER_S, progress.EVERY_S = 0.05, 0.05
def slow(path):
    time.sleep(0.3)
    raise reader.ResultsError(f"{path}: is slow")
with mock.patch.object(reader, "read", slow):
    for command, words in ((compare, ["/dev/null", "/dev/null"]), (policy, ["/dev/null"])):
        print(command.main(words))
"""


def run(after, code=CODE):
    """Standard output, and what a terminal has got as standard error."""
    ours, its = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", code.format(after=after) if code is CODE else code], stdout=subprocess.PIPE, stderr=its, text=True,
                          env={**os.environ, "COLUMNS": "40"}) as child:
        os.close(its)
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
        except OSError:  # the other end is closed
            pass
        out = child.stdout.read()
    os.close(ours)
    return out, shown.decode()


class Line(unittest.TestCase):
    def test_it_says_what_is_done_and_goes_away(self):
        out, shown = run(0.1)
        self.assertEqual(out, "drawn speedup\ndrawn time\n")
        drawn = shown.split(ERASE)
        self.assertEqual(drawn[0], "")
        for text in ("reads the files, 0 s", "figure 1 of 2: speedup, 1 s", "figure 2 of 2: time, 1 s", "a line of " + 29 * "x"):
            self.assertIn(text, drawn)
        self.assertEqual(drawn[-1], "")
        self.assertNotIn("\n", shown)

    def test_what_is_soon_done_has_none(self):
        self.assertEqual(run(60)[1].replace(ERASE, ""), "")

    def test_where_there_is_no_terminal_there_is_none(self):
        done = subprocess.run([sys.executable, "-c", CODE.format(after=0.1)], capture_output=True, text=True, check=True)
        self.assertEqual((done.stdout, done.stderr), ("drawn speedup\ndrawn time\n", ""))

    def test_a_terminal_that_is_gone_is_no_error(self):
        ours, its = pty.openpty()
        with subprocess.Popen([sys.executable, "-c", GONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=its, text=True) as child:
            os.close(its)
            self.assertEqual(child.stdout.readline(), "drawn\n")
            os.close(ours)  # each write to it fails from here on: EIO
            self.assertEqual((child.communicate(timeout=60)[0], child.returncode), ("merged\n", 0))

    @unittest.skipUnless(find_spec("h5py"), "no h5py")
    def test_a_file_is_checked_while_the_line_is_drawn(self):
        with subprocess.Popen([sys.executable, "-c", FORK, __file__], stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
            try:
                out = child.communicate(timeout=30)[0]
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)  # the copy of the process, too
                raise
        self.assertEqual((out, child.returncode), (f"{__file__}: not an HDF5 file\n(0, 1)\n", 0))


    @unittest.skipUnless(find_spec("h5py"), "no h5py")
    def test_compare_and_policy_have_one_while_they_read(self):
        out, shown = run(0, READS)
        self.assertEqual(out, "2\n1\n")
        for text in ("file 1 of 2: /dev/null, 0 s", "reads the files, 0 s"):
            self.assertIn(ERASE + text + ERASE, shown)
        self.assertEqual(shown.count("/dev/null: is slow"), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
