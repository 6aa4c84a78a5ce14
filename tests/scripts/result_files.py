"""What the tests of the result tools share: committed result files, and copies of them with something changed."""
import hashlib
import os
import shutil

import h5py
import numpy as np

from scripts_common import ROOT, InTemporaryFolder, call, script

DATA = os.path.join(ROOT, "tests", "data", "results")
SMALL = os.path.join(DATA, "lab-1gbit.h5")  # 18 rows: mpi, bf16, onebit at six sizes
OTHER = os.path.join(DATA, "shm.h5")  # another link, also 18 rows
OVER = os.path.join(DATA, "oversubscribed.h5")
SPARSE = os.path.join(ROOT, "results", "2026-11-22-xeon-sparse", "shm-lists-same.h5")
NO_CACHE = {"PYTHONDONTWRITEBYTECODE": "1"}


def tool(name, *arguments):
    return call(script(name), *arguments, env=NO_CACHE)


def points_of(path):
    with h5py.File(path) as file:
        return file["points"][...]


class WithFiles(InTemporaryFolder):
    def copy(self, source=SMALL, name="a.h5"):
        return shutil.copy(source, self.path(name))

    def change(self, path, **columns):
        """Other values in one row of /points: column=(row, value)."""
        with h5py.File(path, "a") as file:
            table = file["points"][...]
            for column, (row, value) in columns.items():
                table[column][row] = value
            file["points"][...] = table
        return path

    def check_damage(self, path):
        """Damages each dataset in turn, and checks that the file is then refused. Returns the damaged copies."""
        places = {}
        with h5py.File(path) as file:
            def place(name, data):
                if isinstance(data, h5py.Dataset) and data.size:
                    self.assertTrue(data.fletcher32, name)
                    places[name] = data.id.get_chunk_info(0).byte_offset + 5
            file.visititems(place)
        with open(path, "rb") as file:
            whole = file.read()
        damaged = {name: self.path(f"damaged-{i}.h5") for i, name in enumerate(places)}
        for name, at in places.items():
            with open(damaged[name], "wb") as file:
                file.write(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1:])
        done = tool("check_results", *damaged.values())
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        for name, copy in damaged.items():
            self.assertIn(f"{copy}: damaged HDF5 file", done.stdout, name)
        return list(damaged.values())

    def retype(self, path, change):
        """/points with other columns: change(table) gives the new one."""
        with h5py.File(path, "a") as file:
            attrs, table = dict(file["points"].attrs), change(file["points"][...])
            del file["points"]
            file["points"] = table
            file["points"].attrs.update(attrs)
        return path

    def part(self, rows, name, source=SMALL):
        """The file with some of its rows only, as another array task would have made it."""
        path = self.copy(source, name)
        with h5py.File(path, "a") as file:
            for group in ("samples", "phases"):
                for key in list(file[group]):
                    if file[group][key].ndim == 2 or key == "point":
                        file[group][key].resize(len(rows), axis=0) if key == "point" else self.cut(file[group][key], rows)
            table = file["points"][...][rows]
            table["point_id"] = np.arange(len(rows))
            file["points"].resize(len(rows), axis=0)
            file["points"][...] = table
            file.attrs["uuid"] = np.bytes_(name)
        return path

    @staticmethod
    def cut(matrix, rows):
        kept = matrix[...][rows]
        matrix.resize(len(rows), axis=0)
        matrix[...] = kept

    def launch(self, number, scale=1.0):
        """The first point as another launch would have measured it, every time multiplied."""
        path = self.part([0, 1, 2], f"launch-{number}-{scale}.h5")
        with h5py.File(path, "a") as file:
            config = file["run"].attrs["config_json"].decode().replace('"launch":0', f'"launch":{number}')
            file["run"].attrs["config_json"] = np.bytes_(config)
            table = file["points"][...]
            table["launch"] = number
            file["points"][...] = table
        rescale(path, scale)
        rekey(path)
        return path


def rescale(path, factor):
    """All times of a file multiplied, and what follows from them."""
    with h5py.File(path, "a") as file:
        for name in ("t_max_s", "t_span_s", "skew_in_s"):
            file["samples"][name][...] *= factor
        table = file["points"][...]
        for name in table.dtype.names:
            if name == "wall_s" or name.startswith("t_") and name.endswith("_s"):
                table[name] *= factor
            elif name.endswith("_Bps"):
                table[name] /= factor
        file["points"][...] = table


def rekey(path):
    """Gives the rows other keys, as another launch would."""
    with h5py.File(path, "a") as file:
        table = file["points"][...]
        for name in ("key", "base_key"):
            table[name] = [hashlib.md5(key + str(row["launch"]).encode()).hexdigest().encode() if key else b""
                           for key, row in zip(table[name], table)]
        file["points"][...] = table
