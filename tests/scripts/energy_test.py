"""Tests of what scripts/energy computes. Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/energy_test.py"""
import os
import unittest

import scripts_common  # finds scripts/ for the next ones

import numpy as np

import mpiq_energy


class Energy(unittest.TestCase):
    def test_a_transform_keeps_the_energy(self):
        rows = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)
        for row, energy in zip(rows, mpiq_energy.coefficients(rows)):
            self.assertAlmostEqual(energy.sum(), float(np.square(row.astype(np.float64)).sum()), 9)

    def test_a_wave_is_one_coefficient_and_a_peak_one_element(self):
        wave = np.cos(2 * np.pi * 5 * np.arange(4096) / 4096).astype(np.float32)
        peak = np.zeros(4096, np.float32)
        peak[7] = 3
        self.assertAlmostEqual(mpiq_energy.kept(mpiq_energy.coefficients(wave[None]), 0.001), 1, 6)
        self.assertLess(mpiq_energy.kept(mpiq_energy.elements(wave[None]), 0.001), 0.01)
        self.assertEqual(mpiq_energy.kept(mpiq_energy.elements(peak[None]), 0.001), 1)
        self.assertLess(mpiq_energy.kept(mpiq_energy.coefficients(peak[None]), 0.001), 0.01)

    def test_noise_keeps_what_the_formula_says(self):
        random = np.random.default_rng(1)
        rows = mpiq_energy.table("noise", [random.standard_normal(65536).astype(np.float32) for _ in range(2)])
        self.assertEqual([row["kept_share"] for row in rows], list(mpiq_energy.SHARES))
        for row in rows:
            self.assertAlmostEqual(row["energy_fft_chunks"], row["energy_fft_noise_theory"], 2)
            self.assertAlmostEqual(row["energy_fft_whole"], row["energy_fft_noise_theory"], 2)
            self.assertGreater(row["energy_elements"], row["energy_fft_chunks"])


class Misuse(unittest.TestCase):
    def test_counts_are_from_1_on(self):
        for words in (["energy", "--steps", "0"], ["energy", "--steps", "x"], ["libsvm", "--images", "0"], ["libsvm", "--images", "-5"]):
            done = scripts_common.call(os.path.join(scripts_common.SCRIPTS, words[0]), *words[1:], "-o", os.devnull)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("is not an integer from 1 on", done.stderr)


if __name__ == "__main__":
    unittest.main()
