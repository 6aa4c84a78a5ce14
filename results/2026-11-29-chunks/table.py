#!/usr/bin/env python3
"""table.py times.csv: how many times as fast the version after is (time before over time after), medians over launches, as a table.

With --mpi: MPI's time over the method's, before and after.
"""
import csv
import statistics
import sys

NAMES = {"shm": "shared memory", "lab-10gbit": "10 Gbit/s", "lab-1gbit": "1 Gbit/s"}
METHODS = ("bf16", "int8", "onebit", "adaptive", "topk", "zerorun")


def main():
    rows = list(csv.DictReader(open([a for a in sys.argv[1:] if a != "--mpi"][0], encoding="utf-8")))
    times = {}
    for row in rows:
        times.setdefault((row["link"], int(row["bytes"]), row["method"], row["version"]), []).append((float(row["seconds"]), float(row["speedup"] or 1)))
    print("| link | vector | " + " | ".join(f"`{m}`" for m in METHODS) + " |")
    print("|---" * (2 + len(METHODS)) + "|")
    for link, bytes_ in dict.fromkeys((r["link"], int(r["bytes"])) for r in rows):
        cells = []
        for m in METHODS:
            before, after = times[link, bytes_, m, "before"], times[link, bytes_, m, "after"]
            if "--mpi" in sys.argv:
                cells.append(", ".join(f"{statistics.median(s for _, s in v):.2f}" for v in (before, after)))
            else:
                cells.append(f"{statistics.median(t for t, _ in before) / statistics.median(t for t, _ in after):.2f}")
        print(f"| {NAMES[link]} | {bytes_ >> 20} MiB | " + " | ".join(cells) + " |")


main()
