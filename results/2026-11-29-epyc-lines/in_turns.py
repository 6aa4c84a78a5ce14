#!/usr/bin/env python3
"""Two versions of mpiq-bench in turns: in_turns.py LINES BEFORE AFTER ROUNDS > times.csv.

LINES is the program lines.c, BEFORE and AFTER are the two versions of mpiq-bench. A virtual machine may move its processors while it runs.
So lines.c says before and after each launch, of one size, how far apart they are: a write to a line that the other has read takes more than
15 ns, "distant", or less, "near". Launches between which that changed are left out.
"""
import csv
import io
import subprocess
import sys

LINES, BEFORE, AFTER, ROUNDS = sys.argv[1:]
METHODS = "mpi,bf16,int8,onebit,adaptive,topk,zerorun"


def distance():
    rows = csv.DictReader(io.StringIO(subprocess.run([LINES], check=True, capture_output=True, text=True).stdout))
    return "distant" if all(float(r["write_ns_per_line"]) > 15 for r in rows if r["way"] == "plain" and r["bytes"] != "8192") else "near"


def launch(program, size):
    command = ["mpiexec.mpich", "-n", "2", program, "allreduce", "--sizes", size, "--methods", METHODS, "--point-time", "0.3", "--format", "csv"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))


def main():
    out = csv.writer(sys.stdout)
    out.writerow(["version", "cores", "launch", "bytes", "method", "seconds", "speedup"])
    for number in range(int(ROUNDS)):
        for size in ("64K", "256K", "1M", "4M", "16M"):
            for version, program in (("before", BEFORE), ("after", AFTER)):
                cores = distance()
                rows = list(launch(program, size))
                if distance() != cores:
                    continue
                for row in rows:
                    out.writerow([version, cores, number, row["bytes"], row["method"], row["t_median_s"], row["speedup"]])
                sys.stdout.flush()


main()
