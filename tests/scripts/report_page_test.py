"""Tests of scripts/report: the verdict is what the numbers imply, and the page stands alone, is well-formed and repeatable.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/report_page_test.py
"""
import html
import os
import re
import unittest
import xml.etree.ElementTree

import h5py

from plots_test import KIB, MIB, Drawn, linear
from result_files import SMALL
from results_test import point, sweep
from scripts_common import ROOT

from mpi_quant.figures.selection import Selection
from mpi_quant.report import advice, paste, verdicts
from mpi_quant.results import reader

CONDITION = "Only where what one call leaves out is added to the next (error feedback, as for gradients), use onebit "


def words(page):
    """The text of the page; parsing it also proves that it is well-formed."""
    body = xml.etree.ElementTree.fromstring(page).find("body")
    return " ".join(" ".join(body.itertext()).split())


def objections(page):
    """Links of the contents that lead nowhere, figures and tables that they lack, and captions that are no sentences."""
    body = xml.etree.ElementTree.fromstring(page).find("body")
    anchors = [element.get("id") for element in body.iter() if element.get("id")]
    linked = [link.get("href").removeprefix("#") for link in body.find("nav").iter("a")]
    found = [f"anchor {name}: {linked.count(name)} links" for name in {*anchors, *linked}
             if linked.count(name) != 1 or anchors.count(name) != 1]
    last, used = None, set()
    for element in body.iter():
        last = element.get("id") or last
        if element.tag in ("img", "table"):
            found += [f"{last}: more than one figure or table"] if last in used or last not in linked else []
            used.add(last)
    for figure in body.iter("figure"):
        caption = "".join(figure.find("figcaption").itertext())
        if not re.match(r"This figure shows (\S+ ){3,}.*\. ([A-Z0-9].*\.)+$", caption) or not re.search(r"\branks?\b|\bcore\b", caption):
            found.append(f"caption: {caption}")
    return found


class WithPage(Drawn):
    def page(self, *arguments):
        out = self.path("r.html")
        status, _, problem = self.run_program("report", *arguments, "-o", out)
        self.assertEqual((status, problem), (0, ""))
        with open(out, encoding="utf-8") as file:
            page = file.read()
        self.assertEqual(objections(page), [])
        return page


class Verdicts(WithPage):
    def of(self, rows):
        points = reader.read(self.file(rows)).points
        return verdicts.of_panel(points, ["mpi"])

    def speeds(self, method, speeds, **changes):
        """speeds: (low, speedup, high) at 64 KiB, 1 MiB, 16 MiB ..."""
        return [point(method, 64 * KIB << (4 * i), 1e-3 / s[1], speedup_lo=s[0], speedup=s[1], speedup_hi=s[2], **changes)
                for i, s in enumerate(speeds)]

    def test_a_method_wins_from_the_size_on_where_its_interval_leaves_one(self):
        found = self.of(self.speeds("onebit", [(0.5, 0.6, 0.7), (0.9, 1.2, 1.4), (2, 2.5, 3), (3, 3.5, 4)]))
        self.assertEqual((found.kind, found.best.method, found.best.first), ("wins", "onebit", 16 * MIB))
        self.assertEqual(verdicts.sentences(found, "MPI_Allreduce"), [
            CONDITION + "from 16 MiB on: expected speed-up 2.5 [2, 3] at 16 MiB to 3.5 [3, 4] at 256 MiB [95 %], relative L2 error of one call 0.5.",
            "Below that keep MPI_Allreduce.", "Nothing was measured below 64 KiB or above 256 MiB."])

    def test_nothing_wins_when_every_interval_includes_one(self):
        found = self.of(self.speeds("onebit", [(0.9, 1.3, 1.6)] * 3) + self.speeds("bf16", [(0.5, 0.6, 0.7)] * 3))
        self.assertEqual(found.kind, "loses")
        self.assertEqual(verdicts.sentences(found, "MPI_Allreduce"), [
            "Keep MPI_Allreduce: from no measured size on (64 KiB to 16 MiB) is a compressed method at least 1.2 times as fast with 95 % certainty."])

    def test_a_gain_at_some_sizes_in_between_or_a_small_one_is_no_advice(self):
        for speeds in ([(0.5, 0.6, 0.7), (2, 2.5, 3), (0.5, 0.6, 0.7)], [(2, 2.5, 3), (2, 2.5, 3), (0.9, 1, 1.1)],
                       [(1.02, 1.03, 1.04)] * 3, [(0.5, 0.6, 0.7)] * 2 + [(2, 2.5, 3)]):
            self.assertEqual(self.of(self.speeds("onebit", speeds)).kind, "loses", speeds)
        found = self.of(self.speeds("onebit", [(1.46, 1.49, 1.52), (1.13, 1.15, 1.17), (1.38, 1.39, 1.4), (1.64, 1.67, 1.72)]))
        self.assertEqual(found.best.first, 16 * MIB)

    def test_sizes_of_the_policy_below_the_advice_are_named(self):
        """The page has the policy above the verdict: the two must not contradict each other."""
        gain, none = (1.5, 1.6, 1.7), (0.9, 1, 1.1)
        said = verdicts.sentences(self.of(self.speeds("onebit", [gain, gain, none, gain, gain])), "MPI_Allreduce")
        self.assertEqual(said[1], "Below that keep MPI_Allreduce, except where this is worth it: onebit at 64 KiB to 1 MiB.")
        both = self.speeds("onebit", [none] * 3 + [gain] * 2) + self.speeds("bf16", [none] * 2 + [(1.3, 1.3, 1.3)] * 3)
        self.assertIn("Below that keep MPI_Allreduce, except where this is worth it: bf16 at 16 MiB.", verdicts.sentences(self.of(both), "MPI_Allreduce"))
        said = verdicts.sentences(self.of(self.speeds("onebit", [none, gain, gain, none])), "MPI_Allreduce")
        self.assertEqual(said[1], "At some sizes it is: onebit at 1 MiB to 16 MiB.")

    def test_a_wide_interval_wins_nothing_and_is_named(self):
        found = self.of(self.speeds("onebit", [(2.93, 8.65, 458)] * 2))
        self.assertEqual(found.kind, "unknown")
        self.assertEqual(verdicts.sentences(found, "MPI_Allreduce"), [
            "No verdict: intervals are too wide, such as 8.65 [2.93, 458] of onebit at 64 KiB: more repetitions, or a machine without other work.",
            "Until it is measured, keep MPI_Allreduce."])
        found = self.of(self.speeds("onebit", [(2.93, 8.65, 458)] * 2) + self.speeds("bf16", [(1.8, 1.9, 2)] * 2))
        self.assertEqual((found.kind, found.best.method), ("wins", "bf16"))
        self.assertIn("Not judged, because their intervals are too wide: onebit at 1 MiB, onebit at 64 KiB.",
                      verdicts.sentences(found, "MPI_Allreduce"))

    def test_nothing_is_concluded_from_a_busy_machine(self):
        points = reader.read(self.file(self.speeds("onebit", [(2, 2.5, 3)] * 2))).points
        for load, kind in ((12.0, "unknown"), (2.5, "wins")):
            found = verdicts.of_panel(points, ["mpi"], [{"loads": [("node1", load, 2)]}])
            self.assertEqual(found.kind, kind)
        said = verdicts.sentences(verdicts.of_panel(points, ["mpi"], [{"loads": [("node1", 12.0, 2)]}]), "MPI_Allreduce")
        self.assertEqual(said[0], "No verdict: host node1 was busy: its load was 12 on 2 cores when the measurement began.")
        self.assertTrue(reader.read(SMALL).attrs["loads"])

    def test_the_table_of_the_readme_says_what_the_page_says(self):
        for path, method, first in (("shm", "onebit", 4 * MIB), ("shm", "bf16", 16 * MIB), ("lab-2x1gbit", "zerorun", None),
                                    ("lab-2x10gbit", "bf16", 4 * MIB)):
            path = os.path.join(ROOT, "results", "reference", f"{path}.h5")
            found = advice.candidate_of(path, method)
            self.assertEqual(found and found.first, first, (path, method))
        page = words(self.page(os.path.join(ROOT, "results", "reference", "shm.h5")))
        self.assertIn("use onebit from 4 MiB on: expected speed-up 1.39", page)
        self.assertIn("bf16 from 16 MiB on", page)
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            self.assertIn("`64K-: onebit feedback=address` | 61 %, made good over calls | 1.6 to 2.9", file.read())

    def test_of_two_that_win_at_the_largest_size_the_faster_there_is_advised(self):
        found = self.of(self.speeds("bf16", [(4, 4, 4), (2, 2, 2)]) + self.speeds("onebit", [(1.3, 1.3, 1.3), (3, 3, 3)]))
        self.assertEqual((found.best.method, [c.method for c in found.others]), ("onebit", ["bf16"]))

    def test_one_size_is_no_range(self):
        found = self.of(self.speeds("onebit", [(120, 130, 140)], err_rel_l2=1e-8))
        self.assertEqual(verdicts.sentences(found, "MPI_Allreduce")[0], "Use onebit at 64 KiB, the only size measured: "
                         "expected speed-up 130 [120, 140] at 64 KiB [95 %], relative L2 error of one call 1e-08, "
                         "no more than rounding.")

    def test_a_method_whose_single_results_are_wrong_is_advised_with_its_condition_in_the_same_sentence(self):
        for error, condition in ((0.099, False), (0.1, True), (0.6, True)):
            said = verdicts.sentences(self.of(self.speeds("onebit", [(2, 2.5, 3)] * 2, err_rel_l2=error)), "MPI_Allreduce")
            self.assertEqual([s for s in said if "onebit" in s], said[:1])
            self.assertEqual(said[0].startswith(CONDITION), condition, said[0])
            self.assertEqual(said[0].startswith("Use onebit"), not condition, said[0])

    def test_methods_whose_results_are_made_of_earlier_calls_are_not_advised(self):
        fast = [(20, 25, 30)] * 2
        found = self.of(self.speeds("raw memory=lazy", fast) + self.speeds("topk memory=momentum(m=0.5)", fast)
                        + self.speeds("onebit memory=decay(beta=0.5)", [(2, 2.5, 3)] * 2))
        self.assertEqual((found.kind, found.best.method, found.others), ("wins", "onebit memory=decay(beta=0.5)", []))
        self.assertIn("Not judged: raw memory=lazy, topk memory=momentum(m=0.5). ", verdicts.sentences(found, "MPI_Allreduce")[-1])
        alone = self.of(self.speeds("bf16 memory=ef21", fast))
        self.assertEqual((alone.kind, alone.set_aside), ("unknown", ["bf16 memory=ef21"]))
        self.assertIn("keep MPI_Allreduce", verdicts.sentences(alone, "MPI_Allreduce")[1])

    def test_bad_rows_win_nothing(self):
        for changes in ({"oversubscribed": 1}, {"status": "invalid"}):
            found = self.of(self.speeds("onebit", [(2, 2.5, 3)] * 2, **changes))
            self.assertEqual((found.kind, found.left_out), ("unknown", 2))
            self.assertIn("No verdict", verdicts.sentences(found, "MPI_Allreduce")[0])
        found = self.of(self.speeds("onebit", [(2, 2.5, 3)] * 2, status="simulated"))
        self.assertEqual(verdicts.sentences(found, "MPI_Allreduce")[0], "No verdict: all rows are simulated, and their times are virtual.")


class Paste(WithPage):
    """The line to paste is the first thing of the page, and there is none where nothing may be concluded."""

    def gains(self, method, gains, error, **changes):
        return [point(method, size, 1e-3 / value, speedup_lo=low, speedup=value, speedup_hi=high, err_rel_l2=error, **changes)
                for size, (low, value, high) in zip((64 * KIB, MIB, 16 * MIB), gains)]

    def dense(self, **changes):
        return [point("mpi", size, 1e-3, **changes) for size in (64 * KIB, MIB, 16 * MIB)]

    def lines(self, rows, *arguments):
        """(the lines to paste, the text before the contents)."""
        page = self.page(self.file(rows), *arguments)
        before = page[:page.index("<nav>")]
        found = [html.unescape(line) for line in re.findall("<pre><code>(.*?)</code></pre>", before)]
        return found, " ".join(html.unescape(re.sub("<[^>]+>", " ", before[before.index("<h1>"):])).split())

    def test_one_line_for_any_program_and_one_for_training(self):
        faster, much = [(0.9, 1, 1.1), (1.9, 2, 2.1), (1.9, 2, 2.1)], [(4, 5, 6)] * 3
        found, text = self.lines(self.dense() + self.gains("bf16", faster, 0.002) + self.gains("onebit", much, 0.6, feedback=1))
        end = 16 * MIB + 1
        self.assertEqual(found, [f"mpiq-run --policy '1M-{end} @2 f32: bf16' ./app",
                                 f"mpiq-run --policy '64K-{end} @2 f32: onebit feedback=address' ./app"])
        self.assertIn("2 ranks on 1 node, f32: bf16: speed-up 2 [1.9, 2.1] at 1 MiB to 2 [1.9, 2.1] at 16 MiB, relative L2 error of one call 0.002.", text)
        self.assertIn("every result right to 1 %", text)

    def test_what_was_measured_without_feedback_says_nothing_of_training(self):
        found, _ = self.lines(self.dense() + self.gains("onebit", [(4, 5, 6)] * 3, 0.6, feedback=0))
        self.assertEqual(found, [])

    def test_networks_have_lines_of_their_own(self):
        def on(link, method, size, seconds, gain):
            return point(method, size, seconds, link=link, key=f"{link}-{method}-{size}", base_key=f"{link}-mpi-{size}", err_rel_l2=0.002,
                         speedup_lo=gain, speedup=gain, speedup_hi=gain)
        rows = [on(link, name, size, 1e-3 / gain, gain) for link, method in (("slow", "bf16"), ("fast", "int8"))
                for size in (64 * KIB, MIB) for name, gain in (("mpi", 1), (method, 2))]
        found, text = self.lines(rows)
        self.assertEqual([line.split(": ")[1] for line in found], ["int8' ./app", "bf16' ./app"])
        self.assertLess(text.index("On fast, normal input"), text.index("On slow, normal input"))

    def test_nothing_is_to_be_pasted_where_nothing_may_be_concluded(self):
        wide = self.gains("bf16", [(2.93, 8.65, 458)] * 3, 0.002)
        alone = self.gains("bf16", [(0.9, 1, 1.1), (1.9, 2, 2.1), (0.9, 1, 1.1)], 0.002)
        over = self.gains("bf16", [(1.9, 2, 2.1)] * 3, 0.002, oversubscribed=1)
        for rows, why in ((wide, "intervals are too wide, such as 8.65 [2.93, 458] of bf16 at 64 KiB"), (alone, "no method within this error is worth it"),
                          (over, "more ranks than cores")):
            found, text = self.lines(self.dense() + rows)
            self.assertEqual(found, [], why)
            self.assertIn("No policy: keep MPI as it is.", text)
            self.assertIn(why, text)

    def test_nothing_is_to_be_pasted_of_a_busy_machine(self):
        points = self.dense() + self.gains("bf16", [(1.9, 2, 2.1)] * 3, 0.002)
        selection = Selection([reader.read(self.file(points))], [], "")
        for load, some in ((12.0, False), (2.5, True)):
            selection.results[0].attrs["loads"] = [("node1", load, 2)]
            first = next(paste.lines(selection))
            self.assertEqual(bool(first.rules), some)
            self.assertEqual("its load was 12 on 2 cores" in " ".join(first.why), not some)


class Report(WithPage):
    def test_the_first_words_are_what_the_numbers_imply(self):
        text = words(self.page(self.file(linear(), True)))
        self.assertIn(CONDITION + "from 64 KiB on: expected speed-up 2.29 [2.29, 2.29] at 64 KiB to 2.86 [2.86, 2.86] at 64 MiB "
                      "[95 %], relative L2 error of one call 0.5.", text)
        self.assertLess(text.index("Verdict"), text.index("Figures"))

    def test_it_says_so_when_nothing_wins(self):
        rows = [point(m, s, t) for s in (MIB, 2 * MIB) for m, t in (("mpi", 1e-3), ("onebit", 2e-3))]
        text = words(self.page(self.file(rows, True)))
        self.assertIn("Keep the fastest MPI_Allreduce: from no measured size on (1 MiB to 2 MiB)", text)
        self.assertNotIn("use onebit", text.lower())

    def test_the_baseline_can_be_chosen(self):
        rows = sweep() + [point("mpi/ring", s, 5e-4, base_key=f"mpi-{s}") for s in (64 * KIB, MIB)]
        path = self.file(rows, True)
        self.assertIn("expected speed-up 2 [2, 2]", words(self.page(path)))
        self.assertIn("expected speed-up 4 [3.6, 4.4]", words(self.page(path, "--baseline", "own")))

    def test_a_page_needs_nothing_from_elsewhere_and_runs_nothing(self):
        page = self.page(self.file(linear(), True))
        self.assertEqual(re.findall(r"https?:|//\w|<script|<link|@import|url\(", re.sub(r"base64,[^\"]*", "", page)), [])
        self.assertEqual(set(re.findall(r'src="([^,]*),', page)), {"data:image/svg+xml;base64"})

    def test_figures_have_captions_and_names(self):
        tree = xml.etree.ElementTree.fromstring(self.page(self.file(linear(), True)))
        figures = list(tree.iter("figure"))
        self.assertEqual([f.find("h3").get("id") for f in figures][:3], ["speedup", "time", "error"])
        self.assertTrue(all(f.find("img").get("alt") for f in figures))

    def test_texts_of_files_are_escaped(self):
        rows = [point(m, s, t, link="<b>&\"'") for s in (MIB, 2 * MIB) for m, t in (("mpi", 1e-3), ("<script>x</script>", 2e-4))]
        page = self.page(self.file(rows, True, git_commit="<i>", uuid="x"))
        self.assertNotIn("<script", page)
        self.assertNotIn("<i>", page)
        self.assertIn("use <script>x</script> from 1 MiB on", words(page))

    def test_a_page_is_the_same_bytes_when_made_again(self):
        path = self.file(linear(), True)
        self.assertEqual(self.page(path), self.page(path))

    def test_tables_and_metadata_are_those_of_the_file(self):
        path = self.file(sweep(), True)
        with h5py.File(path, "a") as file:
            file["run"].attrs.update({"sync_method": "barrier: ours", "build": "Release,\x01 GNU 12",
                                      "command_line": "/home/me/bench x"})
            file["points"].attrs["speedup.formula"] = "a over b"
        text = words(self.page(path))
        for said in ("barrier: ours", "Release, GNU 12", "MPICH 4.0.2", "0123456789", "a over b", "250.000 us", "bench x"):
            self.assertIn(said, text)
        self.assertNotIn("/home/me", text)

    def test_doubts_are_said(self):
        text = words(self.page(self.file(sweep() + [point("onebit", 2 * MIB, 1e-4, oversubscribed=1)], True)))
        self.assertIn("within 1 launch", text)
        self.assertIn("1 of 5 rows have more ranks than cores", text)

    def test_bad_input_is_named(self):
        with open(self.path("k.json"), "w", encoding="utf-8") as file:
            file.write("{}")
        for code, reason, *arguments in ((2, "no such file", self.path("none.h5")), (1, "FILE.h5", self.path("k.json")),
                                         (1, "no rows match", self.file(sweep()), "--where", "ranks=64")):
            status, _, problem = self.run_program("report", *arguments, "-o", self.path("r.html"))
            self.assertEqual(status, code)
            self.assertIn(reason, problem)
            self.assertFalse(os.path.exists(self.path("r.html")))


if __name__ == "__main__":
    unittest.main()
