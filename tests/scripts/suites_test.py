"""Tests of scripts/suites: suites_test.py LIBRARY. Programs are shell scripts under a launcher that is one."""
import os
import shutil
import sys
import unittest

import scripts_common

LIBRARY = sys.argv[1]
LAUNCHER = '[ "$1" = -n ] || exit 9; n=$2; shift 2; export RANKS=$n; exec "$@"'
WITH_LIBRARY = 'case "$LD_PRELOAD" in *libmpi_quant_pmpi*) true ;; *) false ;; esac'


class Suites(scripts_common.InTemporaryFolder):
    """Each test has copies of the scripts in a tree of its own, so that the library is the one that is named."""

    def setUp(self):
        super().setUp()
        self.copy_scripts("suites", "compare_preload")
        for folder in ("suite", "suite/coll"):
            os.mkdir(self.path(folder))
        self.launcher = self.program("launcher", LAUNCHER)

    def program(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(self.path(name), 0o755)
        return self.path(name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def suites(self, *arguments, folder="suite"):
        done = scripts_common.call(self.path("scripts/suites"), self.path(folder), "--mpiexec", self.launcher, "--runs", "2",
                                   "--library", LIBRARY, *arguments, env={"PATH": "/usr/bin:/bin"})
        self.output = done.stdout + done.stderr
        return done.returncode

    def test_the_lines_of_a_testlist_give_ranks_arguments_and_environment(self):
        self.write("suite/testlist", "# all of it\ncoll\n")
        self.write("suite/coll/testlist", "sum 4 arg=-count=10 env=NAME=value timeLimit=50\nsum 2\nnever 3\n")
        self.program("suite/coll/sum", 'echo "$RANKS $NAME $*"; [ "$RANKS" = 2 ] || [ "$NAME $*" = "value -count=10" ]')
        self.assertEqual(self.suites(), 0, self.output)
        self.assertIn("same      same        4  coll/sum -count=10\n", self.output)
        self.assertIn("same      same        2  coll/sum\n", self.output)
        self.assertIn("policy '4K- small: raw': 2 programs: 2 same\n", self.output)
        self.assertIn("1 lines name programs that were not built\n", self.output)

    def test_a_folder_without_a_testlist_is_all_its_programs(self):
        self.program("suite/one", "echo one")
        self.program("suite/two", f"if {WITH_LIBRARY}; then echo 3; else echo 2; fi")
        self.assertEqual(self.suites("--policy", ": bf16"), 1, self.output)
        self.assertIn("same        2  one\n", self.output)
        self.assertIn("DIFFERS     2  two\n", self.output)
        self.assertIn("    - 2\n    + 3\n", self.output)
        self.assertIn("policy ': bf16': 2 programs: 1 same, 1 differs\n", self.output)

    def test_a_difference_under_one_policy_alone_is_one(self):
        self.program("suite/one", 'case "$MPIQ_POLICY" in *raw*) exit 3 ;; esac')
        self.assertEqual(self.suites(), 1, self.output)
        self.assertIn("same      DIFFERS     2  one\n", self.output)
        self.assertIn("without: exit status 0; with: exit status 3", self.output)

    def test_a_failure_without_the_library_only_is_not_the_librarys(self):
        self.program("suite/one", WITH_LIBRARY)
        self.assertEqual(self.suites(), 0, self.output)
        self.assertIn("unstable  unstable    2  one\n", self.output)

    def test_tests_of_python_are_compared_one_by_one_and_counted(self):
        os.mkdir(self.path("suite", "test"))
        body = "import os, unittest\nclass T(unittest.TestCase):\n  def test_a(self): pass\n  def test_b(self): {}\n" \
            "unittest.main()\n"
        self.write("suite/test/test_good.py", body.format("pass"))
        self.assertEqual(self.suites("--python", "/usr/bin/python3"), 0, self.output)
        self.assertIn("same      same        2  test_good.py\n", self.output)
        self.assertIn("2 tests of Python on each rank\n", self.output)
        self.write("suite/test/test_bad.py", body.format("self.assertNotIn('pmpi', os.environ.get('LD_PRELOAD', ''))"))
        self.assertEqual(self.suites("--python", "/usr/bin/python3", "--match", "bad", "--policy", ""), 1, self.output)
        self.assertIn("DIFFERS     2  test_bad.py\n", self.output)
        self.assertIn("    + FAIL: test_b", self.output)

    def test_mistakes_are_told(self):
        self.assertEqual(self.suites(folder="nowhere"), 2)
        self.assertIn("no folder", self.output)
        self.assertEqual(self.suites("--python", "/usr/bin/python3"), 2)
        self.assertIn("no test_*.py", self.output)
        self.assertEqual(self.suites("-n", "0"), 2)
        self.assertIn("must be positive", self.output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
