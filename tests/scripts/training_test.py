"""Tests of what reads mpiq-train's files: tables, the figure, the report's section; and of bad files.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/training_test.py
"""
import math
import unittest

import numpy as np

import training_files
from plots_test import KIB, PROGRAMS, Drawn, command, rows_over
from report_page_test import WithPage, words
from mpi_quant.figures import look
from mpi_quant.figures.register import PLOTS
from mpi_quant.results import training_runs


PROGRAMS.update({name: command(name) for name in ("mnist_table",)})


class WithTraining(Drawn):
    def three(self, name="t.csv", **changes):
        return training_files.three_methods(self.path(name), **changes)

    def host(self):
        """A result file of the host on which was trained."""
        return self.file(rows_over([64 * KIB, 1024 * KIB], "bytes"), samples=True, name="host.h5")

    def groups(self, path):
        return next(iter(training_runs.read([path]).groups.values()))


class Statistics(WithTraining):
    def test_differences_and_speedups_are_paired_by_seed(self):
        methods = self.groups(self.three())
        mean, half = training_runs.difference(methods["onebit", "on"], methods["mpi", ""])
        self.assertAlmostEqual(mean, -0.5)
        self.assertLess(half, 1e-9, "seeds differ by a point, methods always by a half")
        for found, true in zip(training_runs.speedup(methods["onebit", "on"], methods["mpi", ""]), (2, 2, 2)):
            self.assertAlmostEqual(found, true)

    def test_the_interval_is_student_s(self):
        mean, half = training_runs.mean_and_half_interval([1, 2, 3])
        self.assertEqual((mean, round(half, 3)), (2, round(4.303 / math.sqrt(3), 3)))
        self.assertEqual(training_runs.mean_and_half_interval([5]), (5, None))

    def test_the_target_is_what_dense_gradients_reach_with_every_seed(self):
        methods = self.groups(self.three())
        target = training_runs.target_of(methods)
        self.assertEqual(target, 0.96)
        reached = training_runs.to_target(methods["onebit", "on"], target)
        self.assertIsNone(reached[1])
        self.assertEqual(reached[2][1], 200)
        self.assertAlmostEqual(reached[2][0], 200 * 0.01 * 1.02)

    def test_runs_that_a_target_ended_had_reached_it(self):
        methods = self.groups(training_files.write(
            self.path("t.csv"), training_files.rows_of(accuracies=(0.9, 0.95, 0.978)),
            training_files.rows_of("onebit", accuracies=(0.9, 0.9753)), training_files.rows_of("bf16", accuracies=(0.9, 0.95, 0.96))))
        self.assertEqual(training_runs.target_of(methods), 0.975)

    def test_of_a_run_in_two_files_the_last_counts(self):
        old = training_files.write(self.path("a.csv"), training_files.rows_of(accuracies=(0.1, 0.2)))
        new = training_files.write(self.path("b.csv"), training_files.rows_of(accuracies=(0.8, 0.9)))
        groups = training_runs.read([old, new]).groups
        self.assertEqual([run[-1]["accuracy"] for run in next(iter(groups.values()))["mpi", ""].values()], [0.9])

    def test_runs_that_differ_in_more_than_the_method_are_not_compared(self):
        groups = training_runs.read([self.three(), self.three("u.csv", batch=100), self.three("v.csv", ranks=4)]).groups
        self.assertEqual(sorted((dict(zip(training_runs.SETTING, s))["batch"], ranks) for s, ranks in groups),
                         [(100, 2), (200, 2), (200, 4)])

    def test_numbers_of_the_optimizer_are_part_of_the_setting(self):
        with open(self.three(optimizer="adamw"), encoding="utf-8") as file:
            head, *rows = file.read().splitlines()
        paths = [self.path(f"{decay}.csv") for decay in ("0.01", "0.1")]
        for path, decay in zip(paths, ("0.01", "0.1")):
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join([head + ",momentum,second_momentum,weight_decay", *(f"{row},0.9,0.999,{decay}" for row in rows)]) + "\n")
        groups = training_runs.read([*paths, self.three("sgd.csv")]).groups
        said = sorted(training_runs.setting_words(setting).split(", ")[2] for setting, _ in groups)
        self.assertEqual(said, [*(f"adamw with betas 0.9 and 0.999 and weight decay {decay}" for decay in ("0.01", "0.1")), "sgd"])
        self.assertEqual(training_runs.optimizer_words({"optimizer": "momentum", "momentum": "0.9", "second_momentum": "", "adapt": "before"}),
                         "momentum 0.9 before sending")

    def test_files_from_before_a_column_got_another_name_are_read(self):
        path = self.three()
        with open(path, encoding="utf-8") as file:
            old = file.read().replace(",adapt,", ",adagrad,", 1)
        with open(self.path("old.csv"), "w", encoding="utf-8") as file:
            file.write(old)
        self.assertEqual(training_runs.read([path]).groups, training_runs.read([self.path("old.csv")]).groups)

    def test_runs_that_ended_early_are_named(self):
        path = training_files.write(self.path("t.csv"), training_files.rows_of(), training_files.rows_of("onebit", accuracies=(0.9,)))
        self.assertEqual(training_runs.stopped_early(self.groups(path)), ["onebit (1 of 1)"])

    def test_mnist_table(self):
        status, out, problem = self.run_program("mnist_table", self.three(), training_files.write(
            self.path("n.csv"), training_files.rows_of("onebit", feedback=0)))
        self.assertEqual((status, problem), (0, ""))
        lines = out.splitlines()
        self.assertEqual(lines[0], "mlp:64x64, 50000 parameters, sgd, batch 200, rate 0.1, 2 epochs, MNIST; mean over the seeds and its 95 % "
                         "interval (Student's t).")
        self.assertEqual([line.split(" | ")[1:4] for line in lines[4:]],
                         [["`mpi`", "", "2"], ["`bf16`", "on", "2"], ["`onebit`", "on", "2"], ["`onebit`", "off", "1"]])
        self.assertIn("-0.500 ± 0.000 | 1.000 |", lines[6])

    def test_mnist_table_of_the_way_to_an_accuracy(self):
        status, out, problem = self.run_program("mnist_table", "--target", "0.96", self.three())
        self.assertEqual((status, problem), (0, ""))
        # Seed 1: dense 0.96 in 200 steps of 20.2 ms, onebit 0.955; seed 2: 0.97 in 20.4 ms, and 0.965 in 10.2
        # ms.
        self.assertEqual(out.splitlines()[2:], ["| method | feedback | seeds that reach 96 % | seconds | steps | MB sent |", "|" + " --- |" * 6,
                                                "| `mpi` |  | 2 of 2 | 4.06 ± 0.25 | 200 |  |", "| `bf16` | on | 2 of 2 | 3.04 ± 0.19 | 200 | 10 |",
                                                "| `onebit` | on | 1 of 2 | 2.04 | 200 | 10 |"])
        _, out, _ = self.run_program("mnist_table", "--target", "0.96", self.three("o.csv", oversubscribed=1))
        self.assertIn("No times: ", out)
        for value in ("0", "1.5", "x"):
            self.assertEqual(self.run_program("mnist_table", "--target", value, self.three())[0], 2)


class BadFiles(WithTraining):
    def refuse(self, reason, content):
        path = self.path("bad.csv")
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        host = self.host()
        for program in (("plot", "training", path, "-o", self.path("out")), ("report", host, path, "-o", self.path("r.html")),
                        ("mnist_table", path)):
            status, out, problem = self.run_program(*program)
            self.assertEqual((status, out), (1, ""), problem)
            self.assertIn("bad.csv: ", problem)
            self.assertIn(reason, problem)

    def good(self, **changes):
        with open(training_files.write(self.path("g.csv"), training_files.rows_of(**changes)), encoding="utf-8") as file:
            return file.read()

    def test_files_that_are_none_of_mpiq_train_s(self):
        for reason, content in (("lacks the columns method", ""), ("nothing was trained", ",".join(training_files.HEAD) + "\n"),
                                ("lacks the columns", "a,b\n1,2\n"), ("lacks the columns", "\x00\x01\n")):
            with self.subTest(reason):
                self.refuse(reason, content)

    def test_a_truncated_line_is_named(self):
        self.refuse("line 3: ", self.good()[:-60])

    def test_numbers_that_are_none_are_named(self):
        for name, value in (("accuracy", "nan"), ("accuracy", 1.5), ("accuracy", "x"), ("step", 0), ("ranks", "two"), ("train_s", -1),
                            ("sent_bytes", "many"), ("compute_s", "inf")):
            with self.subTest(name=name, value=value):
                self.refuse(f"line 2: {name} is '{value}'", self.good(**{name: value}))

    def test_no_such_file(self):
        status, _, problem = self.run_program("mnist_table", self.path("none.csv"))
        self.assertEqual(status, 2)
        self.assertIn("none.csv", problem)


class Report(WithTraining, WithPage):
    def test_accuracy_speed_and_target(self):
        text = words(self.page(self.host(), self.three()))
        for said in ("onebit on 2 96.00 ± 6.35 -0.50 ± 0.00 1.000", "onebit on 2.00 2.00 .. 2.00 1.50 1.50 .. 1.50",
                     "accuracy of 96.0 %", "in 1 of 2 seeds"):
            self.assertIn(said, text)
        self.assertLess(text.index("Training"), text.index("How it was measured"))

    def test_ranks_without_a_core_of_their_own_have_no_times(self):
        text = words(self.page(self.host(), self.three(oversubscribed=1)))
        self.assertIn("Accuracy only: 2 ranks were more than", text)
        for never in ("Time of a step", "Speed-up of a whole step"):
            self.assertNotIn(never, text)

    def test_links_are_settings_of_their_own(self):
        text = words(self.page(self.host(), self.three(), self.three("u.csv", link="lab-1gbit")))
        self.assertIn("rate 0.1, 2 ranks", text)
        self.assertIn("rate 0.1, lab-1gbit, 2 ranks", text)

    def test_the_same_files_make_the_same_bytes(self):
        host, csv = self.host(), self.three()
        self.assertEqual(self.page(host, csv), self.page(host, csv))

    def test_words_of_files_are_escaped(self):
        page = self.page(self.host(), self.three(network="<script>alert(1)</script>"))
        self.assertNotIn("<script", page)

    def test_one_seed_has_no_interval(self):
        path = training_files.write(self.path("t.csv"), training_files.rows_of(), training_files.rows_of("onebit", step_s=0.005))
        self.assertIn("onebit on 1 95.00 +0.00 1.000", words(self.page(self.host(), path)))

    def test_times_are_drawn_only_where_ranks_have_cores(self):
        for oversubscribed in (0, 1):
            rows = self.draw("training", self.three(oversubscribed=oversubscribed), self.host())
            self.assertEqual({math.isnan(float(r["train_s"])) for r in rows}, {oversubscribed == 1})
            self.assertEqual({r["method"] for r in rows}, {"mpi", "bf16", "onebit"})


class Figure(WithTraining):
    def test_it_says_which_times_to_distrust_and_has_a_tick_near_the_top(self):
        runs = [training_files.rows_of(method, accuracies=(0.9, 0.95, 0.979, 0.979)) for method in ("mpi", "int8")]
        slow = [{**row, "train_s": row["train_s"] + 60} for row in runs[1]]
        figure, _ = PLOTS["training"](training_runs.read([training_files.write(self.path("t.csv"), runs[0], slow)]))
        self.addCleanup(look.plt.close, figure)
        look.lay_out(figure)  # looks at the figure, see Drawn
        self.assertIn("with int8 (61 times).", " ".join(figure.words[1]))
        for axis in figure.axes:
            low, high = sorted(axis.get_ylim())
            self.assertLessEqual(np.log(min(axis.get_yticks()) / low), 0.15 * np.log(high / low))
            self.assertEqual(len(axis.collections), 2, "a band for each of few methods")

    def test_many_files_make_a_short_name(self):
        stem_of = command("plot").stem_of
        self.assertEqual(stem_of([f"mnist-{i}-with-a-long-name.csv" for i in range(9)]), "mnist-0-with-a-long-name+8-more")
        self.assertEqual(stem_of(["a.csv", "b.csv"]), "a+b")
        self.assertEqual(stem_of(["a" * 90 + ".csv"]), "a" * 90)


if __name__ == "__main__":
    unittest.main()
