"""Every program and script: --help and --version, and exit code 2 for what cannot be meant: command_lines_test.py BIN MPIEXEC."""
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import scripts_common  # finds scripts/ for the next ones
from mpi_quant.figures import look  # noqa: F401  what scripts import, once for all of them
from mpi_quant.results import reader, schema

BIN, MPIEXEC = os.path.abspath(sys.argv[1]), sys.argv[2]
ROOT = scripts_common.ROOT
PROGRAMS = ["mpiq-bench", "mpiq-pagerank", "mpiq-train", "mpiq-kernels", "mpiq-quality", "mpiq-replay", "mpiq-simulate",
            "mpiq-shim-cost", "mpiq-bare", "mpiq-changing", "mpiq-hidden", "mpiq-run", "mpiq-auto"]
TAKES_CTEST_OPTIONS = os.path.join(ROOT, "scripts", "test")  # which builds before it hands them on


def scripts():
    """Every file of scripts/ and slurm/ that can be started."""
    found = []
    for folder in ("scripts", "slurm"):
        paths = (os.path.join(ROOT, folder, name) for name in sorted(os.listdir(os.path.join(ROOT, folder))))
        found += [path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)]
    return found


def started():
    programs = [os.path.join(BIN, name) for name in PROGRAMS]
    return [*(path for path in programs if os.path.exists(path)), *scripts()]


def call(*words, **options):
    return subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=120, **options)


class EveryCommand(unittest.TestCase):
    """The version comes of a process as a user starts it. For the others scripts run in copies of this one, which is faster."""

    def test_all_programs_and_scripts_are_looked_at(self):
        self.assertGreater(len(scripts()), 25)
        self.assertGreater(len(started()), len(scripts()) + 5)

    def test_has_help(self):
        for path in started():
            done = scripts_common.call(path, "--help")
            self.assertEqual((path, done.returncode, done.stderr), (path, 0, ""))
            self.assertGreater(len(done.stdout), 40, path)

    def test_help_of_scripts_has_short_lines(self):
        """So that it can be read in a window beside another one. The help of the programs: below."""
        with unittest.mock.patch.dict(os.environ, COLUMNS="100"):
            for path in scripts():
                text = scripts_common.call(path, "--help").stdout
                self.assertEqual([line for line in text.split("\n") if len(line) > 100], [], path)

    def test_help_of_programs_has_short_lines_an_example_and_words_of_its_own(self):
        """Those whose command line is a table of options (mpi_quant/run/option_parser.hpp). TEXT, UINT: the words of CLI11. The word of an
        option is a unit, values, or what it names; not the name of the option once more."""
        commands = ("allreduce", "reduce_scatter", "allgather", "bcast", "reduce", "sparse", "link")
        lines = [[name] for name in PROGRAMS if name not in ("mpiq-shim-cost", "mpiq-bare", "mpiq-changing", "mpiq-hidden")]
        lines += [["mpiq-bench", command] for command in commands] + [["mpiq-bench", "--explain-kylix"]]
        for words in lines:
            path = os.path.join(BIN, words[0])
            if os.path.exists(path):
                text = call(path, *words[1:], "--help").stdout
                self.assertLessEqual(max(map(len, text.split("\n"))), 100, words)
                self.assertTrue(text.startswith(f"Usage: {' '.join(words)} [OPTIONS]"), text)
                self.assertNotRegex(text, r"\b(TEXT|UINT|INT|FLOAT)\b|Excludes:|\[OPTION\]", words)
                self.assertRegex(text, rf"\n  (mpiexec -n \d )?{words[0]} |\n  mpiexec .*{words[0]} ", words)
                named = re.findall(r"^  (?:-\w, )*--(?:[a-z]+-)*([a-z]+)(?:\[=| )([A-Z]+)\b", text, re.M)
                self.assertEqual({word for name, word in named if word == name.upper()} - {"BYTES", "FILE"}, set(), words)

    def test_says_its_name_and_version(self):
        for path in started():
            done = call(path, "--version")
            self.assertEqual((path, done.returncode, done.stderr), (path, 0, ""))
            self.assertRegex(done.stdout, rf"^(scripts/|slurm/)?{os.path.basename(path)} \d+\.\d+\.\d+.*\n$")

    def test_refuses_an_unknown_option_with_exit_code_2(self):
        for path in started():
            if path != TAKES_CTEST_OPTIONS:
                done = scripts_common.call(path, "--no-such-option")
                self.assertEqual((path, done.returncode, done.stdout), (path, 2, ""))
                self.assertNotEqual(done.stderr, "", path)

    def test_refuses_a_file_that_is_not_there_with_exit_code_2(self):
        none = "/no/such/file"
        for words in (["check_results", none + ".h5"], ["compare", none, none], ["export", none], ["merge", none, "-o", "x.h5"],
                      ["mnist_table", none + ".csv"],
                      ["plot", "speedup", none], ["policy", none], ["report", none], ["draw", none], ["gpu_summary.sh", none],
                      ["simulate", "--compare", none],
                      ["sweep", none + ".toml", "--out", "x"], ["compare_preload", none]):
            done = scripts_common.call(os.path.join(ROOT, "scripts", words[0]), *words[1:])
            self.assertEqual((words, done.returncode), (words, 2), done.stderr)
        for words in (["mpiq-bench", "allreduce", "--data", "file:" + none], ["mpiq-quality", "--data", "file:" + none], ["mpiq-replay", "--data", "file:" + none],
                      ["mpiq-bench", "--config", none, "allreduce"], ["mpiq-bench", "allreduce", "--layers", none],
                      ["mpiq-pagerank", none], ["mpiq-train", "--data", none], ["mpiq-run", "--policy-file", none, "true"],
                      ["mpiq-run", "--policy", ": onebt", "true"], ["mpiq-quality", "-O", none + "/x"]):
            if os.path.exists(os.path.join(BIN, words[0])):
                done = call(os.path.join(BIN, words[0]), *words[1:])
                self.assertEqual((words, done.returncode), (words, 2), done.stderr)


class Resume(unittest.TestCase):
    def test_a_result_file_with_40_changed_bits_is_refused_and_left_as_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.h5")
            words = [os.path.join(BIN, "mpiq-bench"), "allreduce", "--sizes", "4K", "--methods", "mpi", "-n", "6", "--buffers", "warm",
                     "-O", path]
            self.assertEqual(call(*words).returncode, 0)
            again = call(*words)
            self.assertEqual(again.returncode, 0)
            self.assertIn("1 of 1 points are in", again.stdout)
            with open(path, "rb") as file:
                damaged = bytearray(file.read())
            chance = random.Random(1)
            for at in chance.sample(range(len(damaged)), 40):
                damaged[at] ^= 1 << chance.randrange(8)
            with open(path, "wb") as file:
                file.write(damaged)
            done = call(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn("is truncated or damaged", done.stderr)
            with open(path, "rb") as file:
                self.assertEqual(file.read(), damaged)


class MethodWords(unittest.TestCase):
    def test_the_method_of_every_codec_row_of_committed_results_is_one_that_a_policy_takes(self):
        words, rules = set(), set()
        for folder, _, names in os.walk(os.path.join(ROOT, "results")):
            for name in names:
                if not name.endswith(".h5"):
                    continue
                for row in reader.read(os.path.join(folder, name)).points:
                    if row["compressor"] in ("none", "sparse", "") or "density=" in row["comp_params"]:
                        continue
                    if str(row["collective"]) in schema.PARTED:  # which have one plan each, and take no other
                        rules.add(f"{row['collective']} 1M-: {row['method']}")
                    else:
                        words |= {reader.method_words(row), str(row["method"])}
        self.assertTrue(any(word.startswith("bound(abs=0.001,growth=worst)") for word in words), "a file of before has rel=0, too")
        self.assertIn("threshold(quantile=0.9999,round=no,block=16384,format=auto)/allgather", words)
        done = call(os.path.join(BIN, "mpiq-run"), "--check-policy", "--policy", "; ".join(sorted(rules | {f"1M-: {word}" for word in words})))
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Pagerank(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_on(self, text, *options, methods="kylix,dense"):
        path = os.path.join(self.folder.name, "graph")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return call(MPIEXEC, "-n", "2", os.path.join(BIN, "mpiq-pagerank"), path, "--methods", methods, *options)

    def test_refuses_a_vertex_far_beyond_memory_in_words(self):
        done = self.run_on("0 1\n0 9000000000\n")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("graph:2: vertex 9000000000", done.stderr)
        self.assertNotIn("bad_alloc", done.stderr)

    def test_refuses_what_cannot_be_meant_before_mpi_starts(self):
        for words in (["--methods", "ring"], ["--damping", "1"], ["--scale", "0"], ["--scale", "33"], ["--iterations", "0"], ["--edgefactor", "0"]):
            done = call(os.path.join(BIN, "mpiq-pagerank"), *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertNotEqual(done.stderr, "", words)

    def test_refuses_degrees_that_do_not_multiply_to_the_ranks(self):
        done = self.run_on("0 1\n", methods="kylix/3")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("kylix(degrees=3)", done.stderr)

    def test_measures_every_method_and_checks_it(self):
        done = self.run_on("0 1\n1 2\n2 0\n5 0\n", "--check", "-n", "60")  # 3 and 4 have no edges
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("6 vertices, 4 edges on 2 ranks", done.stdout)
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()[3:]], ["kylix", "dense"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
