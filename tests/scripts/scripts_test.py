"""Tests of scripts/ that check, install and start: planted violations, argument errors. results_test.py has the others.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/scripts_test.py
"""
import ast
import os
import re
import shutil
import subprocess
import sys
import unittest

from scripts_common import ROOT, InTemporaryFolder, call, script


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class Layers(InTemporaryFolder):
    def check(self, path, text):
        full = self.path(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)
        return call(script("check_layers"), "--root", self.folder)

    def planted(self, path, text, *reports):
        done = self.check(path, text)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(len(done.stdout.splitlines()), len(reports), done.stdout)
        for line, report in zip(done.stdout.splitlines(), reports):
            self.assertIn(f"{path}:{report}", line)

    def clean(self, path, text):
        done = self.check(path, text)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_kernels_must_not_include_the_library(self):
        self.planted("kernels/a.hpp", '// a\n#include "mpi_quant/plan/plan.hpp"\n', "2: kernels/ must not include mpi_quant/plan/plan.hpp")

    def test_hdf5_stays_out_of_the_library_that_every_program_loads(self):
        self.clean("mpi_quant/hdf5/a.hpp", '// a\n#include <hdf5.h>\n#include "mpi_quant/base/status.hpp"\n')
        self.planted("mpi_quant/core/b.hpp", '// b\n#include <hdf5.h>\n#include "mpi_quant/hdf5/a.hpp"\n',
                     "2: includes <hdf5.h>", "3: mpi_quant/core/ must not include mpi_quant/hdf5/a.hpp")

    def test_a_relative_include_does_not_hide_its_layer(self):
        self.clean("mpi_quant/plan/plan.hpp", "// plan\n")
        self.planted("mpi_quant/base/a.hpp", '// a\n#include "../plan/plan.hpp"\n', "2: mpi_quant/base/ must not include mpi_quant/plan")

    def test_no_arrow_runs_back_among_the_rooms_of_the_library(self):
        rooms = ("base", "plan", "policy", "memory", "engine", "device", "core", "sparse", "hdf5", "report", "advisor", "preload",
                 "run")
        for room, above in zip(rooms, rooms[1:]):
            self.planted(f"mpi_quant/{room}/a.hpp", f'// a\n#include "mpi_quant/{above}/b.hpp"\n',
                         f"2: mpi_quant/{room}/ must not include mpi_quant/{above}/b.hpp")
            self.clean(f"mpi_quant/{room}/a.hpp", "// a\n")

    def test_the_engine_and_what_is_below_it_name_no_mpi_symbol(self):
        for room in ("base", "plan", "policy", "memory", "engine", "device"):
            self.planted(f"mpi_quant/{room}/a.hpp", "// a\nextern MPI_Comm comm;\n", f"2: mpi_quant/{room}/ must not know MPI")
            self.clean(f"mpi_quant/{room}/a.hpp", "// a\n")

    def test_a_file_of_the_library_is_in_a_room(self):
        self.planted("mpi_quant/a.hpp", "// a\n", "1: is in no room")

    def test_lower_layers_and_the_own_folder_may_be_included(self):
        self.clean("mpi_quant/core/a.hpp",
                   '// a\n#include "kernels/codec.hpp"\n#include "mpi_quant/base/status.hpp"\n#include "b.hpp"\n#include <mpi.h>\n')

    def test_the_public_header_is_for_the_library_itself_the_benchmark_and_the_tests(self):
        self.clean("mpi_quant/include/mpi_quant.h", "/* a */\n")
        self.clean("tests/a.cpp", '// a\n#include <mpi_quant.h>\n')
        self.planted("sparse_allreduce/a.cpp", '// a\n#include "mpi_quant.h"\n', "2: sparse_allreduce/ must not include")

    def test_bench_and_tests_do_not_include_each_other(self):
        self.clean("tests/bench/bench_test.cpp", '// a\n#include "bench/stats.hpp"\n')
        self.planted("tests/plan/plan_test.cpp", '// a\n#include "bench/stats.hpp"\n', "2: tests/ must not include bench/stats.hpp")

    def test_bench_does_not_include_tests(self):
        self.planted("bench/a.cpp", '// a\n#include "tests/kernels/inputs.hpp"\n', "2: bench/ must not include tests/kernels/inputs.hpp")

    def test_examples_are_programs_of_users(self):
        self.clean("mpi_quant/include/mpi_quant.h", "/* a */\n")
        self.clean("examples/a.cpp", '// a\n#include <mpi.h>\n#include <mpi_quant.h>\n')
        self.planted("examples/a.cpp", '// a\n#include "mpi_quant/base/status.hpp"\n',
                     "2: examples/ must not include mpi_quant/base/status.hpp")

    def test_nobody_includes_examples(self):
        self.planted("bench/a.cpp", '// a\n#include "examples/a.hpp"\n', "2: bench/ must not include examples/a.hpp")

    def test_contributing_lists_the_rooms_in_their_order_and_all_folders(self):
        section = read("CONTRIBUTING.md").split("## What is in which folder\n")[1].split("\n## ")[0]
        cells = [re.findall(r"`([^`]+)`", cell) for cell in re.findall(r"^\| (`.*?) \|", section, re.M)]
        rooms = ast.literal_eval(re.search(r"^ROOMS = (\(.*?\))", read("scripts/check_layers"), re.M | re.S).group(1))
        self.assertEqual(tuple(cell[0] for cell in cells[:len(rooms)]), rooms)
        names = {name for cell in cells for name in cell}
        self.assertEqual([name for name in names if not os.path.isdir(os.path.join(ROOT, name))], [])
        there = {name for name in os.listdir(ROOT) if os.path.isdir(os.path.join(ROOT, name)) and name not in (".git", "build") and not name.endswith("_cache")}
        self.assertEqual(there - {name.split("/")[0] for name in names}, set())

    def test_kernels_name_no_mpi_symbol(self):
        self.planted("kernels/a.cpp", "// MPI_Send in a comment is fine\nint x = MPI_INT;\n",
                     "2: kernels/ must not know MPI: names MPI_INT")

    def test_kernels_do_not_include_mpi(self):
        self.planted("kernels/a.cpp", "// a\n#include <mpi.h>\n", "2: kernels/ must not know MPI: includes <mpi.h>")

    def test_cuda_stays_in_its_folder(self):
        self.clean("kernels/cuda/a.cu", "// a\n#include <cuda_runtime.h>\n")
        self.planted("mpi_quant/core/a.cpp", "// a\n#include <cuda_runtime.h>\n", "2: includes <cuda_runtime.h>")

    def test_the_library_calls_pmpi_only(self):
        self.planted("mpi_quant/core/a.cpp", 
                     "// a\nint f(MPI_Comm c) {\n  PMPI_Barrier(c);\n  return MPI_Barrier(c) + MPI_Count(1);\n}\n",
                     "4: calls MPI_Barrier")

    def test_the_shim_defines_mpi_functions_and_calls_none(self):
        self.planted("mpi_quant/preload/shim.cpp",
                     "// a\nint MPI_Allreduce(int a) {\n  return MPI_Barrier(a);\n}\n", "3: calls MPI_Barrier")

    def test_the_environment_is_read_in_one_file(self):
        self.clean("mpi_quant/base/env.cpp", '// a\nauto a = getenv("A");\n')
        self.planted("mpi_quant/policy/policy.cpp", '// a\nauto a = std::getenv("A");\n', "2: reads the environment")

    def test_two_classes_of_one_name_in_one_namespace_are_reported(self):
        text = "// A table.\nnamespace mq {\nclass Table {\n};\n}  // namespace mq\n"
        self.clean("mpi_quant/core/a.hpp", text)
        self.clean("mpi_quant/hdf5/b.hpp", text.replace("mq", "mq::h5"))
        self.clean("mpi_quant/plan/c.hpp", text.replace("class Table {\n};", "class Table;"))
        self.planted("mpi_quant/report/d.hpp", text, "3: mq::Table is also in mpi_quant/core/a.hpp:3")

    def test_virtual_functions_are_reported(self):
        self.planted("kernels/a.hpp", "// virtual in a comment is fine\nstruct A {\n  virtual void f();\n};\n", "3: virtual")

    def test_instruction_set_flags_are_reported(self):
        self.clean("cmake/a.cmake", "# -mavx2 in a comment is fine\nset(a x86-march)\n")
        self.planted("kernels/CMakeLists.txt", "set(f -O3 -mavx2)\n", "1: -mavx2")

    def test_a_source_begins_with_a_comment(self):
        self.planted("kernels/a.cpp", "#include <vector>\n", "1: does not begin with a // comment")

    def test_long_files_need_a_reason(self):
        self.clean("mpi_quant/core/a.hpp", "// long on purpose: a table\n" + "int a;\n" * 400)
        self.planted("mpi_quant/core/b.hpp", "// b\n" + "int a;\n" * 400, "401: 401 lines")

    def test_long_functions_are_reported_at_their_first_line(self):
        text = "// a\nnamespace b {{\nstruct S {{\n  int f(\n      int a) {{\n{}  }}\n}};\n}}\n"
        self.clean("mpi_quant/core/a.cpp", text.format("    if (a) {\n      g();\n    }\n" * 19))  # 60 lines
        self.planted("mpi_quant/core/b.cpp", text.format("    g();\n" * 58), "4: function of 61 lines")

    def test_long_scripts_functions_are_reported(self):
        self.planted("scripts/a", "#!/bin/bash\nf() {\n" + "  true\n" * 60 + "}\n", "2: function of 62 lines")


class Lab(unittest.TestCase):
    def usage_error(self, *arguments, text, **env):
        done = call(script("lab"), *arguments, env=env)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(text, done.stderr)
        self.assertIn("usage:", done.stderr)

    def test_arguments_are_checked_before_anything_is_made(self):
        self.usage_error(text="what to do?")
        self.usage_error("explode", text="unknown command 'explode'")
        self.usage_error("up", text="number of hosts")
        self.usage_error("up", "two", text="not 'two'")
        self.usage_error("up", "2", "fast", text="RATE=fast")
        self.usage_error("run", "2", text="which command?")
        self.usage_error("run", "x", "true", text="number of ranks")
        self.usage_error("with", "2", "1gbit", "2", text="expected N RATE NP CMD")
        self.usage_error("exec", "1", text="expected HOST CMD")

    def test_a_name_too_long_for_an_interface_is_refused(self):
        self.usage_error("down", text="LAB_PREFIX=averylongname", LAB_PREFIX="averylongname")

    def test_a_lab_gets_another_rate_while_it_is_used(self):
        self.usage_error("rate", "fast", text="RATE=fast")
        if call(script("lab"), "check").returncode != 0:
            self.skipTest("no lab can be made here")
        env = {"LAB_PREFIX": f"t{os.getpid()}"}

        def lab(*arguments):
            return call(script("lab"), *arguments, env=env)

        self.addCleanup(lab, "down")
        self.assertIn("there is no lab", lab("rate", "1gbit").stderr)
        self.assertEqual(lab("up", "2").returncode, 0)
        self.assertIn("have no limit", lab("rate", "1gbit").stderr)
        self.assertEqual(lab("up", "2", "1gbit").returncode, 0)
        self.assertEqual(lab("rate", "100mbit").returncode, 0)
        for host in ("1", "2"):
            self.assertIn("rate 100Mbit", lab("exec", host, "tc", "qdisc", "show", "dev", "eth0").stdout)
            self.assertIn("rate 100Mbit", call("tc", "qdisc", "show", "dev", f"v{env['LAB_PREFIX']}-{host}").stdout)

    def test_a_lab_that_changes_needs_two_rates_and_a_method(self):
        for arguments in ((), ("true", "65536", "10", "1gbit", "100mbit")):
            done = call(script("lab_change"), *arguments)
            self.assertEqual((done.returncode, done.stderr[:6]), (2, "usage:"))

    def test_help_goes_to_standard_output(self):
        done = call(script("lab"), "--help")
        self.assertEqual((done.returncode, done.stdout[:6]), (0, "usage:"))


# A dpkg-query for which everything is installed but mpich.
ALL_BUT_MPICH = 'for name; do :; done; [ "$name" = mpich ] && exit 1; echo installed'


class Setup(InTemporaryFolder):
    def with_tools(self, **tools):
        """A PATH with these made-up commands before the real ones."""
        for name, text in tools.items():
            path = self.path(name.replace("_", "-"))
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\n{text}\n")
            os.chmod(path, 0o755)
        return {"PATH": self.folder + ":/usr/bin:/bin"}

    def test_nothing_is_said_if_nothing_is_missing(self):
        done = call(script("setup"), env=self.with_tools(dpkg_query="echo installed"))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_missing_packages_are_named_where_they_cannot_be_installed(self):
        tools = self.with_tools(dpkg_query=ALL_BUT_MPICH, id="echo 1000", sudo="exit 1", apt_get="echo never >&2; exit 9")
        done = call(script("setup"), env=tools)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("missing packages: mpich\n", done.stderr)
        self.assertIn("apt-get install --no-install-recommends mpich", done.stderr)
        self.assertNotIn("never", done.stderr)

    def test_a_removed_package_whose_configuration_is_left_is_missing(self):
        tools = self.with_tools(dpkg_query="echo config-files", id="echo 1000", sudo="exit 1")
        self.assertEqual(call(script("setup"), "run", env=tools).returncode, 3)

    def test_as_root_only_what_is_missing_is_installed_after_one_update(self):
        log = self.path("log")
        tools = self.with_tools(dpkg_query=ALL_BUT_MPICH, id="echo 0", apt_get=f'echo "$@" >>{log}')
        self.assertEqual(call(script("setup"), "run", env=tools).returncode, 0)
        with open(log, encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines(), ["-q update", "-q install -y --no-install-recommends mpich"])

    def test_it_says_when_plain_mpiexec_became_another_mpis(self):
        place = self.path("place")
        for after, told in (("/usr/bin/mpiexec.openmpi", True), ("/usr/bin/mpiexec.mpich", False)):
            tools = self.with_tools(dpkg_query=ALL_BUT_MPICH, id="echo 0", readlink=f"cat {place} 2>/dev/null || echo /usr/bin/mpiexec.mpich",
                                    apt_get=f"echo {after} >{place}")
            done = call(script("setup"), "run", env=tools)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("are another MPI's now: /usr/bin/mpiexec.openmpi" in done.stdout, told, done.stdout)
            os.unlink(place)

    def test_scripts_test_ends_with_the_summary_of_ctest_and_its_exit_code(self):
        summary = "50% tests passed, 1 tests failed out of 2\\n\\nThe following tests FAILED:\\n\\t2 - x (Failed)\\n"
        for code in (0, 8):
            tools = self.with_tools(dpkg_query="echo installed", cmake="exit 0", ctest=f"printf '%b' 'Start 1\\n\\n{summary}'; exit {code}")
            done = call(script("test"), env=tools)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertTrue(done.stdout.startswith("Start 1\n") and done.stdout.endswith("FAILED:\n\t2 - x (Failed)\n"), done.stdout)

    def test_slurm_is_a_group_of_its_own(self):
        log = self.path("log")
        tools = self.with_tools(dpkg_query="echo absent", id="echo 0", apt_get=f'echo "$@" >>{log}')
        self.assertEqual(call(script("setup"), "slurm", env=tools).returncode, 0)
        with open(log, encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines()[-1].split("recommends ")[1], "slurm-wlm munge")

    def test_an_unknown_group_is_a_usage_error(self):
        self.assertEqual(call(script("setup"), "kitchen").returncode, 2)


# One test lacks a package of packages.txt, one lacks another package and passes nevertheless, two lack
# nothing.
SKIPPING_PROJECT = """cmake_minimum_required(VERSION 3.25)
project(skipping NONE)
enable_testing()
include(%s/tests/needs.cmake)
mpiq_needs(pages unit "the pages" doxygen tcl)
add_test(NAME partly COMMAND sh -c "echo 'one of its cases needs nosuch: apt-get install nosuch'")
add_test(NAME whole COMMAND sh -c "echo '${WORD} needs no package: no command'")
add_test(NAME matched COMMAND sh -c "echo as expected; exit 1")
set_tests_properties(matched PROPERTIES PASS_REGULAR_EXPRESSION expected)
"""


class Skipped(InTemporaryFolder):
    """What CTest skips for want of a package is listed before its summary, with the command that brings the package."""

    def ctest(self, word="it"):
        with open(self.path("CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(SKIPPING_PROJECT % ROOT)
        subprocess.run(["cmake", "-G", "Ninja", "-S", self.folder, "-B", self.path("build"), f"-DWORD={word}"], check=True, capture_output=True)
        ran = subprocess.run(["ctest", "--test-dir", self.path("build")], check=False, capture_output=True, text=True).stdout
        return subprocess.run([sys.executable, script("mpiq_skipped.py"), self.path("build")], input=ran, check=True, capture_output=True,
                              text=True).stdout

    def passed(self, log):
        return subprocess.run([sys.executable, script("mpiq_skipped.py"), "--passed", log, self.path("build")], check=True,
                              capture_output=True, text=True).stdout.strip()

    def test_the_list_stands_before_the_summary_which_is_the_end(self):
        output = self.ctest()
        listed, summary = output.split("100% tests passed, 0 tests failed out of 4")
        self.assertTrue(listed.endswith("Skipped, until you run scripts/setup check:\n  the pages needs doxygen and tcl\n"
                                        "Skipped, until you run apt-get install nosuch:\n  one of its cases needs nosuch\n\n"), listed)
        self.assertTrue(summary.endswith("- pages (Skipped)\n"), summary)

    def test_only_what_ran_whole_and_by_the_same_command_need_not_run_again(self):
        self.ctest()
        log = shutil.copy(self.path("build", "Testing", "Temporary", "LastTest.log"), self.path("log"))
        self.assertEqual(self.passed(log), "^(whole|matched)$")
        self.ctest(word="now it")
        self.assertEqual(self.passed(log), "^(matched)$")


class Run(InTemporaryFolder):
    def test_a_tree_of_somebody_else_is_refused_in_one_line(self):
        self.copy_scripts("run", "measure.sh")
        os.makedirs(self.path("build", "release"))
        user = {"user": 65534} if os.geteuid() == 0 else {}  # root may write everywhere
        os.chmod(self.folder, 0o755)
        for folder, mode in (("build/release", 0o555), ("build", 0o555), ("", 0o555)):
            os.chmod(self.path(folder), mode)
            done = subprocess.run([self.path("scripts", "run")], capture_output=True, text=True, check=False, **user)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, r"^scripts/run: \S+ is not yours to write: build in a copy of the tree that is yours\n$")
        for folder in ("", "build", "build/release"):
            os.chmod(self.path(folder), 0o755)

    def test_unknown_arguments_are_refused_before_anything_is_built(self):
        for name, arguments in (("run", ["--fast"]), ("run", ["--ranks", "many"]), ("test", ["--preset", "quick"])):
            done = call(script(name), *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))


if __name__ == "__main__":
    unittest.main()
