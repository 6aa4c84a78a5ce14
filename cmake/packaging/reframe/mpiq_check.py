"""A check for ReFrame: mpiq-bench runs, every result is right, and times and speed-ups are kept with their intervals.

    reframe -C SETTINGS.py -c mpiq_check.py -r

Needs mpiq-bench in PATH, or a module with it (-M, or `modules` by -S). -S sets what a site chooses: -S ranks=8, -S methods=bf16,int8,
-S sizes=64K,16M. Times are seconds, and lower is better. A speed-up compares a method with MPI's own function. Both are measured in turns.
"""
# Copyright The mpi_quant authors
# SPDX-License-Identifier: Apache-2.0
import csv
import os

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, run_before, sanity_function, variable


@rfm.simple_test
class MpiqBench(rfm.RunOnlyRegressionTest):
    """One collective on all ranks, MPI's own and compressed."""

    descr = "collectives of float vectors, plain and compressed"
    collective = parameter(["allreduce", "reduce_scatter", "allgather"])
    methods = variable(str, value="bf16,int8")  # each word is one method, so there is no place for mpi/*
    sizes = variable(str, value="64K,1M,16M")
    ranks = variable(int, value=2)
    point_time = variable(float, value=1.0)  # seconds for a method of a size
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "mpiq-bench"
    tags = {"performance", "network"}

    def asked_methods(self):
        """The methods that the program is asked for: mpi, and those listed. A comma inside parentheses ends no word."""
        words, depth = [""], 0
        for char in self.methods:
            depth += (char == "(") - (char == ")")
            if char == "," and depth == 0:
                words.append("")
            else:
                words[-1] += char
        words = [word.strip() for word in words]
        return words if "mpi" in words else ["mpi", *words]

    @run_before("run")
    def set_command(self):
        """CSV has the interval of each number, which the text of osu_allreduce has no place for."""
        self.num_tasks = self.ranks
        self.executable_opts = [self.collective, "--sizes", self.sizes, "--methods", f"'{','.join(self.asked_methods())}'", "--point-time", f"{self.point_time:g}",
                                "--expect-ranks", str(self.ranks), "--format", "csv"]

    def rows(self):
        """The rows that the program printed, as dictionaries."""
        with open(os.path.join(self.stagedir, self.stdout.evaluate()), encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    @sanity_function
    def results_are_right(self):
        """Each size with each method that was asked for, and no row that is no timing."""
        rows = self.rows()
        wrong = [f"{row['method']} {row['bytes']}: {row['status']} {row['note']}" for row in rows if row["status"] != "ok"]
        crowded = [row["method"] for row in rows if row["oversubscribed"] == "1"]
        points = {(row["bytes"], row["method"]) for row in rows}
        asked = len(self.sizes.split(",")) * len(self.asked_methods())
        return sn.all([sn.assert_eq(wrong, [], "rows that are not ok: {0}"), sn.assert_eq(crowded, [], "more ranks than processors: {0}"),
                       sn.assert_true(rows, "no rows"), sn.assert_eq(len(points), asked, "{0} pairs of size and method, expected {1}")])

    @run_before("performance")
    def set_figures(self):
        """Names such as bf16_1048576 (seconds) and bf16_1048576_speedup_low."""
        self.perf_variables = {}
        for row in self.rows():
            name = "".join(c if c.isalnum() else "_" for c in row["method"]).rstrip("_") + "_" + row["bytes"]
            self.perf_variables[name] = sn.make_performance_function(sn.defer(float(row["t_median_s"])), "s")
            if row["speedup_lo"] and row["method"] != "mpi":
                self.perf_variables[f"{name}_speedup_low"] = sn.make_performance_function(sn.defer(float(row["speedup_lo"])), "x")
