"""Tests of scripts/compare_preload: compare_preload_test.py LIBRARY MPIEXEC PROGRAM [MPIQ_RUN], where PROGRAM is calls.c of the
MPI of MPIEXEC. The others are shell scripts under a launcher that is one."""
import contextlib
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import scripts_common

LIBRARY, MPIEXEC, PROGRAM = sys.argv[1:4]
MPIQ_RUN = sys.argv[4] if len(sys.argv) > 4 else ""

LAUNCHER = '[ "$1" = -n ] || exit 9; export RANKS=$2; shift 2; for i in $(seq "$RANKS"); do "$@" || exit; done'
WITH_LIBRARY = 'case "$LD_PRELOAD" in *libmpi_quant_pmpi*) true ;; *) false ;; esac'


class Compare(scripts_common.InTemporaryFolder):
    """Each test has a copy of the script in a tree of its own, in which only what it puts there can be found."""

    def setUp(self):
        super().setUp()
        self.copy_scripts("compare_preload")
        os.mkdir(self.path("programs"))
        self.script = self.path("scripts", "compare_preload")
        self.launcher = self.write("launcher", LAUNCHER)

    def write(self, name, text, mode=0o755):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(self.path(name), mode)
        return self.path(name)

    def program(self, name, text, mode=0o755):
        return self.write(f"programs/{name}", text, mode)

    def words(self, *arguments, mpiexec=None):
        return [self.script, self.path("programs"), "--mpiexec", mpiexec or self.launcher, "--runs", "2", "--pause", "0", *arguments]

    def compare(self, *arguments, library=LIBRARY, **others):
        """Exit status, and verdict by program."""
        words = self.words(*arguments, **others) + (["--library", library] if library else [])
        done = scripts_common.call(*words, env={"PATH": "/usr/bin:/bin"})
        self.output = done.stdout + done.stderr
        verdict = re.compile(r"(same|differs|unstable|fails without too|timeout)  +(\S.*?)(?:  \(|$)")
        return done.returncode, {found.group(2): found.group(1) for found in map(verdict.match, done.stdout.splitlines()) if found}

    def expect(self, status, verdicts, *arguments, **others):
        found = self.compare(*arguments, **others)
        self.assertEqual(found, (status, verdicts), self.output)


class Verdicts(Compare):
    def test_a_program_that_notices_nothing_is_the_same(self):
        self.program("hello", "echo hello; echo again")
        self.expect(0, {"hello": "same"})
        self.assertIn("1 programs: 1 same", self.output)

    def test_another_output_differs_and_is_shown(self):
        self.program("hello", "echo hello")
        self.program("notices", f"echo first; if {WITH_LIBRARY}; then echo 2.5; else echo 2.25; fi")
        self.expect(1, {"hello": "same", "notices": "differs"})
        self.assertIn("    - 2.25\n", self.output)
        self.assertIn("    + 2.5\n", self.output)
        self.assertNotIn("first", self.output)

    def test_another_exit_status_differs_and_shows_the_error(self):
        self.program("dies", f"if {WITH_LIBRARY}; then echo no luck >&2; exit 3; fi")
        self.expect(1, {"dies": "differs"})
        self.assertIn("without: exit status 0; with: exit status 3", self.output)
        self.assertIn("    ! no luck\n", self.output)

    def test_a_program_that_differs_by_itself_is_unstable(self):
        self.program("clock", "date +%N")
        self.expect(0, {"clock": "unstable"})

    def test_a_program_that_changes_now_and_then_is_found_by_more_runs(self):
        self.program("changes", f"echo . >> {self.path('runs')}; [ $(wc -l < {self.path('runs')}) = 4 ] || {WITH_LIBRARY} || echo same")
        self.expect(0, {"changes": "unstable"}, "-n", "1", "--runs", "5")
        os.remove(self.path("runs"))
        self.expect(1, {"changes": "differs"}, "-n", "1")

    def test_an_unstable_program_that_dies_only_with_the_library_differs(self):
        self.program("clock", f"date +%N; if {WITH_LIBRARY}; then exit 1; fi")
        self.expect(1, {"clock": "differs"})

    def test_lines_that_do_not_count_are_ignored(self):
        self.program("clock", 'echo "result 4"; echo "seconds $(date +%N)"')
        self.expect(0, {"clock": "same"}, "--ignore", "^seconds")

    def test_a_program_that_fails_anyway_is_no_failure_of_the_library(self):
        self.program("broken", "echo process $$; exit 4")
        self.expect(0, {"broken": "fails without too"})

    def test_order_counts_only_if_asked(self):
        self.program("turns", f"if {WITH_LIBRARY}; then echo a; echo b; else echo b; echo a; fi")
        self.expect(0, {"turns": "same"}, "-n", "1")
        self.expect(1, {"turns": "differs"}, "-n", "1", "--in-order")

    def test_lines_are_counted(self):
        self.program("twice", f"echo a; if {WITH_LIBRARY}; then echo a; fi")
        self.expect(1, {"twice": "differs"})

    def test_what_the_library_says_is_passed_on(self):
        self.program("warns", f"if {WITH_LIBRARY}; then echo 'mpi_quant: no MPI library found' >&2; fi")
        self.expect(0, {"warns": "same"})
        self.assertIn("(mpi_quant: no MPI library found)", self.output)


    def test_a_failure_without_the_library_only_is_not_the_librarys(self):
        self.program("one", WITH_LIBRARY)
        self.expect(0, {"one": "unstable"})
        self.assertIn("(fails without the library only)", self.output)

    def test_a_difference_under_one_policy_alone_is_one(self):
        self.program("one", 'case "$MPIQ_POLICY" in *raw*) exit 3 ;; esac')
        self.expect(1, {"one under ''": "same", "one under ': raw'": "differs"}, "--policy", "", "--policy", ": raw")
        self.assertIn("without: exit status 0; with: exit status 3", self.output)
        self.assertIn("under '': 1 programs: 1 same\nunder ': raw': 1 programs: 1 differs\n", self.output)


class Suites(Compare):
    """Test suites of MPI libraries and of mpi4py."""

    def text(self, name, text):
        with open(self.path("programs", name), "w", encoding="utf-8") as file:
            file.write(text)

    def test_the_lines_of_a_testlist_give_ranks_arguments_and_environment(self):
        os.mkdir(self.path("programs", "coll"))
        self.text("testlist", "# all of it\ncoll\n")
        self.text("coll/testlist", "sum 4 arg=-count=10 env=NAME=value timeLimit=50\nsum 2\nnever 3\n")
        self.program("coll/sum", '[ "$RANKS $NAME $*" = "4 value -count=10" ] || [ "$RANKS $NAME $*" = "2  " ]')
        self.program("other", "exit 1")
        self.expect(0, {"coll/sum -count=10 on 4 ranks": "same", "coll/sum on 2 ranks": "same"})
        self.assertIn("1 lines name programs that were not built\n", self.output)

    def test_the_time_limit_of_a_testlist_comes_before_that_of_the_options(self):
        self.text("testlist", "slow 1 timeLimit=0.3\nslow 1\n")
        self.program("slow", "sleep 1")
        self.expect(0, {"programs/slow on 1 ranks": "same"})
        self.assertRegex(self.output, r"(?m)^fails without too  programs/slow on 1 ranks  \(no end after")

    def test_tests_of_python_are_compared_one_by_one_and_counted(self):
        os.mkdir(self.path("programs", "test"))
        body = "import os, unittest\nclass T(unittest.TestCase):\n  def test_a(self): pass\n  def test_b(self): {}\n" \
            "unittest.main()\n"
        self.text("test/test_good.py", body.format("pass"))
        self.expect(0, {"test_good.py": "same"}, "--python", sys.executable)
        self.assertIn("2 tests of Python on each rank\n", self.output)
        self.text("test/test_bad.py", body.format("self.assertNotIn('pmpi', os.environ.get('LD_PRELOAD', ''))"))
        self.expect(1, {"test_bad.py": "differs"}, "--python", sys.executable, "--match", "*bad*", "-n", "1")
        self.assertIn("    + FAIL: test_b", self.output)


class Hangs(Compare):
    def left(self):
        """Process ids of this test's sleeps."""
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                if file.read() == f"sleep\0{self.seconds}\0".encode():
                    found.append(int(path.split("/")[2]))
        return found

    def setUp(self):
        super().setUp()
        self.seconds = f"1000.{os.getpid()}{time.monotonic_ns()}"

    def test_a_hang_with_the_library_is_ended_with_all_that_was_started(self):
        self.program("hangs", f"if {WITH_LIBRARY}; then setsid sleep {self.seconds} & trap '' TERM; wait; sleep {self.seconds}; fi")
        self.program("hello", "echo hello")
        self.expect(1, {"hangs": "timeout", "hello": "same"}, "--timeout", "1")
        self.assertEqual(self.left(), [])

    def test_a_real_launchers_ranks_are_ended_too(self):
        self.program("hangs", f"if {WITH_LIBRARY}; then trap '' TERM; sleep {self.seconds}; sleep {self.seconds}; fi")
        self.expect(1, {"hangs": "timeout"}, "--timeout", "2", mpiexec=MPIEXEC)
        self.assertEqual(self.left(), [])

    def test_a_hang_without_the_library_is_not_the_librarys(self):
        self.program("hangs", f"sleep {self.seconds}")
        self.expect(0, {"hangs": "fails without too"}, "--timeout", "0.5")
        self.assertEqual(self.left(), [])

    def test_a_process_left_behind_does_not_hold_it_up(self):
        self.program("leaves", f"sleep {self.seconds} & echo done")
        begin = time.monotonic()
        self.expect(0, {"leaves": "same"}, "-n", "1")
        self.assertLess(time.monotonic() - begin, 30)
        for pid in self.left():
            os.kill(pid, signal.SIGKILL)

    def test_an_end_of_the_script_is_an_end_of_the_program(self):
        self.program("hangs", f"touch {self.path('begun')}; sleep {self.seconds}")
        with subprocess.Popen(self.words("--library", LIBRARY), stdout=subprocess.DEVNULL) as script:
            while not os.path.exists(self.path("begun")):
                self.assertIsNone(script.poll())
                time.sleep(0.05)
            script.send_signal(signal.SIGTERM)
            self.assertEqual(script.wait(30), 143)
        self.assertEqual(self.left(), [])


class Programs(Compare):
    def test_only_executable_files_run_in_their_folder(self):
        self.program("where", "pwd")
        self.program("data", "exit 1", mode=0o644)
        self.program("plugin.so", "exit 1")
        os.mkdir(self.path("programs", "folder"))
        self.expect(0, {"where": "same"})

    def test_arguments_come_from_a_file(self):
        self.program("echoes", '[ "$#" != 0 ] || exit 5')
        self.program("other", '[ "$#" = 0 ]')
        file = self.write("arguments", "# what to run\nechoes 'a b' c\n\nechoes d # again", mode=0o644)
        self.expect(0, {"echoes 'a b' c": "same", "echoes d": "same", "other": "same"}, "--args", file)

    def test_names_select(self):
        for name in ("ab", "ac", "b"):
            self.program(name, "true")
        self.expect(0, {"ab": "same", "ac": "same"}, "--match", "a*")

    def test_mistakes_are_told(self):
        self.assertEqual(self.compare()[0], 2)
        self.assertIn("no executable file in", self.output)
        self.assertEqual(self.compare("--python", sys.executable)[0], 2)
        self.assertIn("no test_*.py in", self.output)
        self.program("hello", "true")
        unknown = self.write("arguments", "none 1", mode=0o644)
        bad = self.path("bad.so")
        self.write("bad.so", "")
        for text, *arguments in (("no launcher '/none'", "--mpiexec", "/none"), ("must be positive", "-n", "0"), ("not negative", "--pause", "-1"),
                                 ("not with --python", "--args", unknown, "--python", "python3"),
                                 ("cannot read /none", "--args", "/none"), ("no program none in", "--args", unknown),
                                 ("no preload library /none", "--library", "/none"), ("--ignore", "--ignore", "(")):
            self.assertEqual(self.compare(*arguments, library=None if "--library" in arguments else LIBRARY), (2, {}), text)
            self.assertIn(text, self.output)
        self.assertEqual(self.compare(library=None)[0], 2)
        self.assertIn("name it with --library", self.output)
        renamed = shutil.copy(bad, self.path("libmpi_quant_pmpi.so"))
        self.assertEqual(self.compare(library=renamed)[0], 2, self.output)
        self.assertIn("cannot be preloaded", self.output)


class Real(Compare):
    """A program of MPI, which sums what a policy compresses."""

    def setUp(self):
        super().setUp()
        shutil.copy(PROGRAM, self.path("programs", "calls"))

    def compare_both(self):
        self.expect(0, {"calls": "same"}, mpiexec=MPIEXEC)
        self.expect(1, {"calls": "differs"}, "--policy", ": onebit", mpiexec=MPIEXEC)
        self.assertIn("+ 4 of 4 sums are not exact", self.output)

    def test_with_the_library_in_the_environment(self):
        self.compare_both()

    @unittest.skipUnless(MPIQ_RUN, "no mpiq-run")
    def test_with_mpiq_run(self):
        os.makedirs(self.path("build", "any", "bin"))
        os.symlink(MPIQ_RUN, self.path("build", "any", "bin", "mpiq-run"))
        self.compare_both()
        self.expect(2, {}, "--policy", ": twobit", mpiexec=MPIEXEC)
        self.assertIn('unknown codec "twobit"', self.output)

    def test_help_is_complete(self):
        done = scripts_common.call(self.script, "--help")
        self.assertEqual(done.returncode, 0)
        for word in ("--mpiexec", "--policy", "--timeout", "--library", "--args", "fails without too", "scripts/compare_preload ~/programs"):
            self.assertIn(word, done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
