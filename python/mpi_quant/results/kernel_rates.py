"""Reading what mpiq-kernels writes (kernels.json, Google Benchmark): the speed of the codecs alone."""
import dataclasses
import json
import os

import numpy as np

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


class KernelsError(Exception):
    """A file that cannot be used; the message names it and says why."""


@dataclasses.dataclass
class Kernels:
    """rows: one dict per benchmark: codec, work, dtype, isa, bytes (of the vector), seconds, moved_Bps, triad_Bps."""

    rows: list
    hosts: list
    files: list
    title: str = ""

    def triad(self, size=None):
        """The median rate of the triad of one core at this size (default: the largest), in B/s. It is a roof set by the
        memory."""
        size = size or max(row["bytes"] for row in self.rows)
        return float(np.median([row["triad_Bps"] for row in self.rows if row["bytes"] == size]))


def _row(benchmark):
    codec, work, dtype, isa, size = benchmark["name"].split("/")[:5]
    return {"codec": codec, "work": work, "dtype": dtype, "isa": isa, "bytes": int(size.removesuffix("KiB")) * 1024,
            "seconds": benchmark["real_time"] * UNITS[benchmark["time_unit"]], "moved_Bps": benchmark["moved_GB/s"] * 1e9,
            "triad_Bps": benchmark["triad_GB/s"] * 1e9}


def read(paths, title=""):
    """Raises KernelsError if a file was not written by mpiq-kernels."""
    rows, hosts = [], []
    for path in paths:
        if not os.path.isfile(path):
            raise KernelsError(f"{path}: no such file")
        try:
            with open(path, encoding="utf-8") as file:
                content = json.load(file)
            rows += [_row(benchmark) for benchmark in content["benchmarks"] if "triad_GB/s" in benchmark]
            hosts.append(f"{content['context'].get('host_name', '?')}, {content['context'].get('num_cpus', '?')} cores")
        except (ValueError, KeyError, TypeError) as error:
            raise KernelsError(f"{path}: not a file of mpiq-kernels ({error})") from error
    if not rows:
        raise KernelsError(f"{', '.join(paths)}: has no rows of kernels")
    return Kernels(rows, sorted(set(hosts)), list(paths), title)
