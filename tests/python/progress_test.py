"""The line that says how far a command of mpiq is: on a terminal only, late, and gone at the end."""
import os
import pty
import subprocess
import sys
import unittest

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


def run(after):
    """Standard output, and what a terminal has got as standard error."""
    ours, its = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", CODE.format(after=after)], stdout=subprocess.PIPE, stderr=its, text=True,
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
