"""A real training program under the preload library: training_test.py MPIQ_RUN MPIEXEC MNIST. Error feedback by address finds the
gradients' tensors, and training comes out as it does without the library."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

RUN, MPIEXEC, MNIST = sys.argv[1:4]
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train.py")
STEPS = 200


def train(*under):
    done = subprocess.run([MPIEXEC, "-n", "2", *under, "/usr/bin/python3", PROGRAM, MNIST, str(STEPS)], capture_output=True, text=True,
                          timeout=250, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the ranks agree" in done.stdout, done.stdout
    return float(re.search(r"accuracy ([\d.]+)", done.stdout).group(1))


class Training(unittest.TestCase):
    def test_feedback_by_address_finds_every_tensor_and_keeps_the_accuracy(self):
        dense = train()
        self.assertGreater(dense, 0.75)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.json")
            compressed = train(RUN, "--report", path, "--policy", "64K-: onebit feedback=address")
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        self.assertGreater(compressed, dense - 0.03)
        classes = [c for c in report["classes"] if c["reasons"].get("compressed")]
        self.assertEqual(sum(c["reasons"]["compressed"] for c in classes), 2 * STEPS, "two tensors have 64 KiB or more")
        for c in classes:
            calls = sum(c["feedback"].values())
            self.assertGreater(c["feedback"].get("hit", 0), 0.95 * calls, c["feedback"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
