"""scripts/quality: generated data as mpiq-quality has them, and gradients that PyTorch records. Usage: quality_script_test.py BUILD"""
import csv
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

from needs import needs

from scripts_common import ROOT  # finds the package for the next one
from mpi_quant.results import quality_rows

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
            rows = quality_rows.read([path]).rows
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

    def test_the_program_is_that_of_the_folder_that_is_named(self):
        """A program that says where it is, and fails, and a PyTorch that does nothing."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ("tools", "other", "build/bin"):
                os.makedirs(os.path.join(folder, name))
                path = os.path.join(folder, name, "mpiq-quality")
                with open(path, "w", encoding="utf-8") as file:
                    file.write("#!/bin/sh\necho \"started: $0\" >&2\nexit 1\n")
                os.chmod(path, 0o755)
            with open(os.path.join(folder, "torch.py"), "w", encoding="utf-8"):
                pass
            env = {**os.environ, "PYTHONPATH": folder, "MPIQ_BIN": os.path.join(folder, "tools")}
            for words, name in (((), "tools"), (("--bin", f"{folder}/other"), "other"), (("--build", f"{folder}/build"), "build/bin")):
                done = subprocess.run([os.path.join(ROOT, "scripts/quality"), "-o", os.devnull, *words], check=False, text=True, env=env,
                                      capture_output=True)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(f"started: {folder}/{name}/mpiq-quality\n", done.stderr)


class Entropy(unittest.TestCase):
    @needs("python3-torch", HAS_TORCH, "scripts/entropy")
    @unittest.skipUnless(os.path.exists(os.path.join(BUILD, "bin/mpiq-kernels")), "mpiq-kernels was not built")
    def test_every_codec_takes_fewer_bytes_of_recorded_gradients(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "entropy.csv")
            done = subprocess.run([os.path.join(ROOT, "scripts/entropy"), "--build", BUILD, "--steps", "1", "--min-time", "0.001", "-o", path],
                                  check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, 0, done.stdout)
            with open(path, encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
        self.assertEqual(len({row["data"] for row in rows}), 4)
        for row in rows:
            self.assertLess(float(row["entropy_bytes"]), float(row["fixed_bytes"]), row)
            self.assertTrue(all(float(row[f"{code}_{work}_ns"]) > 0 for code in ("fixed", "entropy") for work in ("encode", "decode")), row)
        least = {row["method"]: min(1 - float(r["entropy_bytes"]) / float(r["fixed_bytes"]) for r in rows if r["method"] == row["method"])
                 for row in rows}
        for method in ("int4", "qsgd"):
            self.assertGreater(least[method], 0.15, least)


if __name__ == "__main__":
    unittest.main()
