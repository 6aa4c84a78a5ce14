#!/usr/bin/env python3
"""`auto` beside fixed methods and beside three rules that choose, from the files of its sweep: table.py FILE.csv... (scripts/export).

Speed-up over MPI's own reduction, and in brackets what is over the limit of 0.02. Rules:
- table: bf16 from 64 KiB on, as README says for all programs.
- thresholds: QuickReduce's, nothing below 128 KiB, int8 below 1 MiB, int4 from there on. It looks at no data.
- sweep: as Khan et al. (arXiv 2204.07767), what a sweep made before found to be the fastest for this size and these ranks. That
  sweep had normal data, and the limit was known. It has the numbers of this table, so it is never wrong about the machine.
"""
import csv
import sys

LIMIT = 0.02
FIXED = ("bf16", "int8", "int4", "zerorun")
CHOSEN = ("auto", "auto(error=0.02)")
LINKS = {"shm": "shared memory", "lab-2x10gbit": "10 Gbit/s", "lab-2x1gbit": "1 Gbit/s"}
DATA = {"normal": "normal", "sparse": "1 % not zero", "gradient": "gradient", "smooth": "smooth"}


def read(paths):
    """(link, data, bytes) -> method -> row."""
    found = {}
    for path in paths:
        link = path.rsplit("/", 1)[-1].removesuffix(".csv")
        with open(path, encoding="utf-8") as file:
            for row in csv.DictReader(file):
                found.setdefault((link, row["input_distribution"].split(":")[0], int(row["bytes"])), {})[row["method"]] = row
    return found


def within(row):
    return float(row["err_rel_l2"]) <= LIMIT


def by_sweep(methods):
    """The method that a sweep puts first within the limit."""
    allowed = [name for name in FIXED if name in methods and within(methods[name])]
    best = max(allowed, key=lambda name: float(methods[name]["speedup"]))
    return best if float(methods[best]["speedup"]) > 1 else "mpi"


def rules(found, link, size):
    yield "bf16" if size >= 64 << 10 else "mpi"
    yield "mpi" if size < 128 << 10 else "int8" if size < 1 << 20 else "int4"
    yield by_sweep(found[link, "normal", size])


def cell(row):
    value = float(row["speedup"])
    text = f"{value:.2f}" if value < 10 else f"{value:.0f}"
    return text if within(row) else f"({text})"


def main():
    found = read(sys.argv[1:])
    print("| link | data | vector | `mpi`, us | " + " | ".join(f"`{m}`" for m in FIXED + CHOSEN) + " | table | thresholds | sweep |")
    print("|" + " --- |" * (4 + len(FIXED + CHOSEN) + 3))
    for link, link_name in LINKS.items():
        for data, data_name in DATA.items():
            for size in sorted({s for l, d, s in found if (l, d) == (link, data)}):
                methods = found[link, data, size]
                label = f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"
                cells = [cell(methods[m]) for m in FIXED + CHOSEN] + [cell(methods[m]) for m in rules(found, link, size)]
                print(f"| {link_name} | {data_name} | {label} | {1e6 * float(methods['mpi']['t_median_s']):.0f} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
