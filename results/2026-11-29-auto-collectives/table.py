#!/usr/bin/env python3
"""`auto` beside fixed methods in the other collectives, from the files of its sweep: table.py FILE.csv... (scripts/export).

Speed-up over MPI's own call, in brackets what is over the limit of 0.02. Last column: auto(error=0.02) over the best method within it.
"""
import csv
import sys

LIMIT = 0.02
METHODS = ("bf16", "int8", "int4", "zerorun", "auto", "auto(error=0.02)")
LINKS = {"shm": "shared memory", "lab-2x10gbit": "10 Gbit/s", "lab-2x1gbit": "1 Gbit/s"}
COLLECTIVES = ("reduce_scatter", "allgather", "bcast", "reduce")


def cell(row):
    value = float(row["speedup"])
    text = f"{value:.2f}" if value < 10 else f"{value:.0f}"
    return text if float(row["err_rel_l2"]) <= LIMIT else f"({text})"


def main():
    found = {}
    for path in sys.argv[1:]:
        collective, _, link = path.rsplit("/", 1)[-1].removesuffix(".csv").partition("-")
        with open(path, encoding="utf-8") as file:
            for row in csv.DictReader(file):
                found.setdefault((link, collective, int(row["bytes"])), {})[row["method"]] = row
    print("| link | collective | vector | MPI, us | " + " | ".join(f"`{m}`" for m in METHODS) + " | of the best |")
    print("|" + " --- |" * (5 + len(METHODS)))
    for link, link_name in LINKS.items():
        for collective in COLLECTIVES:
            for size in sorted({s for l, c, s in found if (l, c) == (link, collective)}):
                rows = found[link, collective, size]
                label = f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"
                allowed = [float(rows[m]["speedup"]) for m in ("mpi", *METHODS[:4]) if float(rows[m]["err_rel_l2"]) <= LIMIT]
                ratio = float(rows[METHODS[-1]]["speedup"]) / max(allowed)
                cells = " | ".join(cell(rows[m]) for m in METHODS)
                print(f"| {link_name} | `{collective}` | {label} | {1e6 * float(rows['mpi']['t_median_s']):.0f} | {cells} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
