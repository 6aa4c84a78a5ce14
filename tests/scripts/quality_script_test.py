"""scripts/quality: generated data as mpiq-quality has them, and gradients that PyTorch records. Usage: quality_script_test.py BUILD"""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

from needs import needs

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import mpiq_quality  # noqa: E402  pylint: disable=wrong-import-position

BUILD = sys.argv.pop() if len(sys.argv) > 1 else os.path.join(ROOT, "build/dev")


def quality(*options, env=None):
    return subprocess.run([os.path.join(ROOT, "scripts/quality"), "--build", BUILD, *options], check=False, text=True, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


HAS_TORCH = importlib.util.find_spec("torch")


class Quality(unittest.TestCase):
    @needs("python3-torch", HAS_TORCH, "scripts/quality")
    def test_recorded_gradients_stand_beside_generated_data(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "quality.csv")
            done = quality("--steps", "2", "-o", path)
            self.assertEqual(done.returncode, 0, done.stdout)
            rows = mpiq_quality.read([path]).rows
        of = {}
        for row in rows:
            of.setdefault(row["data"], {})[row["method"]] = row
        self.assertEqual(set(of["normal"]), set(of["mlp-relu"]))
        self.assertEqual(set(of["normal"]), set(of["cnn-batchnorm"]))
        for data in ("mlp-relu", "cnn-batchnorm"):
            self.assertEqual(of[data]["bf16"]["elements"], 128 * 784)
            self.assertTrue(0.001 < of[data]["bf16"]["rel_err"] < 0.0025, of[data]["bf16"])
            self.assertGreater(of[data]["onebit"]["rel_err"], of[data]["int8"]["rel_err"])

    @unittest.skipUnless(HAS_TORCH, "no python3-torch")
    def test_what_is_not_there_is_named(self):
        done = quality("--mnist", "/nowhere", "--steps", "1", "-o", os.devnull)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nowhere", done.stdout)
        self.assertNotIn("Traceback", done.stdout)

    def test_without_pytorch_it_says_what_brings_it_before_it_measures(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "torch.py"), "w", encoding="utf-8") as file:
                file.write("raise ImportError('no torch here')\n")
            done = quality("-o", os.devnull, env={**os.environ, "PYTHONPATH": folder})
        self.assertEqual((done.returncode, done.stdout), (3, "scripts/quality: needs python3-torch: scripts/setup check\n"))


if __name__ == "__main__":
    unittest.main()
