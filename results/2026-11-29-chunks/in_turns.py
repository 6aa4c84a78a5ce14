#!/usr/bin/env python3
"""Two versions of mpiq-bench in turns: in_turns.py LAB BEFORE AFTER ROUNDS > times.csv.

LAB is scripts/lab, BEFORE and AFTER are the two versions of mpiq-bench. Each round launches both for each link and size, the other one first
every second time.
"""
import csv
import subprocess
import sys

LAB, BEFORE, AFTER, ROUNDS = sys.argv[1:]
METHODS = "mpi,bf16,int8,onebit,adaptive,topk,zerorun"
LINKS = {"shm": ["mpiexec.mpich", "-n", "2"], "lab-10gbit": [LAB, "with", "2", "10gbit", "2"], "lab-1gbit": [LAB, "with", "2", "1gbit", "2"]}
SECONDS = {"1M": "0.3", "4M": "0.4", "16M": "0.8", "64M": "2"}


def launch(start, program, size):
    command = [*start, program, "allreduce", "--sizes", size, "--methods", METHODS, "--point-time", SECONDS[size], "--format", "csv"]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))


def main():
    out = csv.writer(sys.stdout)
    out.writerow(["version", "link", "launch", "bytes", "method", "seconds", "speedup"])
    for number in range(int(ROUNDS)):
        for link, start in LINKS.items():
            for size in SECONDS:
                versions = [("before", BEFORE), ("after", AFTER)]
                for version, program in versions[:: -1 if number % 2 else 1]:
                    for row in launch(start, program, size):
                        out.writerow([version, link, number, row["bytes"], row["method"], row["t_median_s"], row["speedup"]])
                    sys.stdout.flush()


main()
