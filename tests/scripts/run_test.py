"""Tests of mpiq-run: run_test.py MPIQ_RUN [MPIEXEC PROGRAM], where PROGRAM exits 0 if its sums are compressed (calls.c lossy)."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

RUN, MPIEXEC, PROGRAM = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3]


def run(*arguments, ranks=0, **environment):
    command = ([MPIEXEC, "-n", str(ranks)] if ranks else []) + [RUN, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}, check=False)


class Program(unittest.TestCase):
    def test_a_policy_reaches_the_program(self):
        self.assertEqual(run("--policy", ": onebit", PROGRAM, "lossy", ranks=2).returncode, 0)

    def test_without_a_policy_nothing_changes(self):
        self.assertEqual(run(PROGRAM, "exact", ranks=2).returncode, 0)

    def test_the_environments_policy_holds_unless_one_is_given_be_it_empty(self):
        self.assertEqual(run(PROGRAM, "lossy", ranks=2, MPIQ_POLICY=": onebit").returncode, 0)
        self.assertEqual(run("--policy", "", PROGRAM, "exact", ranks=2, MPIQ_POLICY=": onebit").returncode, 0)
        self.assertIn("policy: : onebit", run("--check-policy", MPIQ_POLICY=": onebit").stdout)

    def test_a_second_copy_of_the_library_passes_through(self):
        with tempfile.TemporaryDirectory() as folder:
            real = re.search(r"LD_PRELOAD=(\S+)", run("/usr/bin/env").stdout).group(1)
            copy = shutil.copy(real, folder)
            self.assertEqual(run(PROGRAM, "exact", ranks=2, LD_PRELOAD=copy).returncode, 0)
            self.assertEqual(run("--policy", ": onebit", PROGRAM, "lossy", ranks=2, LD_PRELOAD=copy).returncode, 0)

    def test_a_file_holds_a_rule_a_line(self):
        with tempfile.NamedTemporaryFile("w", suffix=".rules") as file:
            file.write("# gradients\n0-64K: mpi;\n\n64K-: onebit  # all large ones\n")
            file.flush()
            self.assertEqual(run("--policy-file", file.name, PROGRAM, "lossy", ranks=2).returncode, 0)

    def test_options_behind_the_program_are_its_own(self):
        done = run("/bin/echo", "--policy", "x", "--help")
        self.assertEqual(done.stdout, "--policy x --help\n")
        self.assertEqual(run("--", "/bin/echo", "-n", "a").stdout, "a")

    def test_its_library_comes_before_others(self):
        done = run("/usr/bin/env", LD_PRELOAD="/tmp/none.so")
        self.assertRegex(done.stdout, r"(?m)^LD_PRELOAD=/.*/libmpi_quant_pmpi\.so[.0-9]*:/tmp/none\.so$")

    def test_the_library_may_be_named_from_the_folder_it_is_in(self):
        real = re.search(r"LD_PRELOAD=(\S+)", run("/usr/bin/env").stdout).group(1)
        done = subprocess.run([RUN, "--library", os.path.basename(real), "/usr/bin/env"], cwd=os.path.dirname(real), text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertIn(f"LD_PRELOAD={real}\n", done.stdout)

    def test_the_exit_status_is_the_programs(self):
        self.assertEqual(run("/bin/sh", "-c", "exit 7").returncode, 7)


class Errors(unittest.TestCase):
    def test_a_folder_that_ld_preload_cannot_name_is_an_error(self):
        real = re.search(r"LD_PRELOAD=(\S+)", run("/usr/bin/env").stdout).group(1)
        for name in ("with blank", "with:colon"):
            with tempfile.TemporaryDirectory() as folder:
                copy = os.path.join(folder, name, os.path.basename(real))
                os.mkdir(os.path.dirname(copy))
                shutil.copy(real, copy)
                self.refused("LD_PRELOAD takes no path with a blank or a colon", "--library", copy, PROGRAM)

    def refused(self, text, *arguments, ranks=0):
        done = run(*arguments, ranks=ranks)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("mpiq-run: "), 1, done.stderr)
        self.assertIn(text, done.stderr)

    def test_bad_rules_name_the_place_and_stop_the_program(self):
        self.refused('unknown codec "twobit" at character 6', "--policy", "64K-:twobit", PROGRAM)

    def test_one_rank_speaks_for_all(self):
        self.refused('unknown codec "twobit"', "--policy", ": twobit", PROGRAM, ranks=2)

    def test_programs_files_and_libraries_that_are_not_there(self):
        self.refused('cannot run "/none"', "/none")
        self.refused('cannot read "/none"', "--policy-file", "/none", PROGRAM)
        self.refused('cannot read "/tmp"', "--policy-file", "/tmp", PROGRAM)
        self.refused('no preload library "/none"', "--library", "/none", PROGRAM)
        self.refused("which program?", "--policy", ": onebit")
        self.refused("mpiq-run: --polcy is no option, but --policy is; see mpiq-run --help", "--polcy", ": onebit", PROGRAM)


class Table(unittest.TestCase):
    def test_every_range_has_its_method(self):
        done = run("--check-policy", "--policy", "64K-: bf16; 1M-@4-8: onebit; f64: mpi")
        self.assertEqual(done.returncode, 0)
        rows = [line.split() for line in done.stdout.splitlines()]
        self.assertIn(["0-64K", "2-3", "mpi", "mpi", "mpi", "mpi"], rows)
        self.assertIn(["64K-1M", "4-8", "bf16", "mpi", "bf16", "bf16"], rows)
        self.assertIn(["1M-", "4-8", "onebit", "mpi", "onebit", "onebit"], rows)
        self.assertIn(["1M-", "9-", "bf16", "mpi", "bf16", "bf16"], rows)

    def test_calls_and_communicators_are_columns_where_rules_select_by_them(self):
        done = run("--check-policy", "--policy", ": bf16; calls=10-20: onebit; comm=solver*: mpi")
        rows = [line.split() for line in done.stdout.splitlines()]
        self.assertIn(["0-", "2-", "10-20", "any", "other"] + 4 * ["onebit"], rows)
        self.assertIn(["0-", "2-", "10-20", "solver*"] + 4 * ["mpi"], rows)
        self.assertIn(["0-", "2-", "20-", "any", "other"] + 4 * ["bf16"], rows)

    def test_sites_are_a_column_and_options_stand_behind_the_method(self):
        done = run("--check-policy", "--policy", ": bf16; site=*reduce*: onebit feedback=address guard=64")
        rows = [line.split() for line in done.stdout.splitlines()]
        self.assertIn(["0-", "2-", "any", "other"] + 4 * ["bf16"], rows)
        self.assertIn(["0-", "2-", "*reduce*"] + 4 * ["onebit", "feedback=address", "guard=64"], rows)

    def test_no_rules_are_mpi(self):
        self.assertIn(["0-", "2-", "mpi", "mpi", "mpi", "mpi"], [line.split() for line in run("--check-policy").stdout.splitlines()])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
