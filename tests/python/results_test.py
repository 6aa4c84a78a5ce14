"""Result files as a notebook reads them, without MPI. What is compared with comes from the file itself, by h5py."""
import json
import os
import subprocess
import sys
import unittest
from importlib.util import find_spec
from unittest import mock

import numpy as np

from mpi_quant import results

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
PATH = os.path.join(ROOT, "results", "reference", "shm.h5")


@unittest.skipUnless(find_spec("h5py"), "no h5py")
class Results(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.file = results.open(PATH)

    def test_records_are_the_rows_of_the_file(self):
        import h5py
        with h5py.File(PATH) as file:
            table, dataset = file["points"][...], file["samples/t_max_s"][...]
        records = self.file.records
        self.assertEqual(list(records["key"]), [key.decode() for key in table["key"]])
        np.testing.assert_array_equal(records["t_median_s"], table["t_median_s"])
        for row in (0, len(table) - 1):
            self.assertEqual(self.file.samples(table["point_id"][row]).tolist(), dataset[row][~np.isnan(dataset[row])].tolist())
        self.assertGreater(len(self.file.samples(table["point_id"][0])), 100)
        with self.assertRaisesRegex(KeyError, "no point has the point_id 66"):
            self.file.samples(66)

    @unittest.skipUnless(find_spec("pandas"), "no pandas")
    def test_points_are_a_frame(self):
        points = self.file.points
        self.assertEqual(points.shape, (len(self.file.records), len(self.file.records.dtype.names)))
        np.testing.assert_array_equal(points["speedup"].to_numpy(), self.file.records["speedup"])
        self.assertEqual(set(points[points["method"] == "mpi"]["compressor"]), {"none"})

    def test_without_pandas_points_are_records(self):
        with mock.patch.dict(sys.modules, {"pandas": None}):
            file = results.open(PATH)
            self.assertIs(file.points, file.records)
            with self.assertRaisesRegex(ImportError, "a frame needs pandas.*`records` needs numpy alone"):
                file.to_pandas()

    def test_runs_are_those_of_the_command(self):
        done = subprocess.run([sys.executable, "-m", "mpi_quant", "export", "--format", "json", PATH], capture_output=True, text=True, check=True)
        self.assertEqual(self.file.runs, json.loads(done.stdout)["runs"])
        self.assertRegex(self.file.runs[0]["mpi_library"], "MPICH")

    def test_a_file_that_cannot_be_used(self):
        for path, why in ((__file__, "not an HDF5 file"), ("none.h5", "no such file")):
            with self.assertRaisesRegex(ValueError, f"{os.path.basename(path)}: {why}"):
                results.open(path)


class Alone(unittest.TestCase):
    def last_line(self, code, path):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path})
        return (done.stdout + done.stderr).strip().splitlines()[-1]

    def test_the_import_needs_no_other_module(self):
        code = ("import sys, mpi_quant.results; mpi_quant.results.open; "
                "print([name for name in ('h5py', 'matplotlib', 'pandas', 'mpi4py', 'mpi_quant.results.reader') if name in sys.modules])")
        self.assertEqual(self.last_line(code, f"{ROOT}/python"), "[]")

    def test_without_h5py_a_call_says_so(self):
        code = f"import sys; sys.modules['h5py'] = None; import mpi_quant; before = [*sys.path]\ntry: mpi_quant.results.open({PATH!r})\n" \
               "except ImportError as error: print(error, sys.path == before)"
        self.assertRegex(self.last_line(code, f"{ROOT}/python"), r"^mpi_quant\.results needs h5py: \S+ has no module of this name True$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
