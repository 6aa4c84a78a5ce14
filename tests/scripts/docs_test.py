"""README.md and docs/ against the tree: docs_test.py BIN [MPICC], BIN being the folder of the built programs.

docs_checks.py has the checks. The last class plants an error in a page for each of them and sees that the check finds it. What needs a
program that was not built is skipped.
"""
import os
import shlex
import shutil
import sys
import unittest

from docs_checks import (BIN, METHODS_PAGE, MPICC, PAGES, POLICY_PAGE, TABLE, bad_code, bad_commands, bad_policies, blocks, broken_links,
                         codec_names, figures, info_keys, memory_names, missing_paths, plan_names, policies, too_long,
                         unknown_languages, unknown_names, unlisted_pages, variables)


def built(program):
    return BIN and os.path.exists(os.path.join(BIN, program))


class Pages(unittest.TestCase):
    maxDiff = None

    def expect_nothing(self, check):
        self.assertEqual(check(PAGES), [])

    def test_the_readme_is_short(self):
        self.expect_nothing(too_long)

    def test_every_link_and_anchor_leads_somewhere(self):
        self.expect_nothing(broken_links)

    def test_every_path_in_backquotes_exists(self):
        self.expect_nothing(missing_paths)

    def test_the_index_lists_every_page(self):
        self.expect_nothing(unlisted_pages)

    def test_the_policy_page_lists_the_environment_variables_that_the_code_reads(self):
        self.expect_nothing(variables)

    def test_the_policy_page_lists_the_info_keys_that_the_code_reads(self):
        self.expect_nothing(info_keys)

    def test_the_methods_page_lists_the_registered_codecs(self):
        self.expect_nothing(codec_names)

    def test_the_methods_page_lists_the_registered_memory_rules(self):
        self.expect_nothing(memory_names)

    def test_the_methods_page_lists_the_plans(self):
        self.expect_nothing(plan_names)

    def test_no_function_variable_or_program_is_misspelt(self):
        self.expect_nothing(unknown_names)

    def test_errors_bytes_and_accuracies_are_those_of_committed_results(self):
        self.expect_nothing(figures)

    def test_every_block_is_of_a_language_that_is_checked(self):
        self.expect_nothing(unknown_languages)

    @unittest.skipUnless(shutil.which(shlex.split(MPICC)[0]), "no compiler for MPI")
    def test_every_block_of_c_compiles(self):
        self.assertGreater(len(list(blocks(PAGES, "c", "cpp"))), 3)
        self.expect_nothing(bad_code)

    @unittest.skipUnless(built("mpiq-run"), "mpiq-run was not built")
    def test_every_policy_can_be_parsed(self):
        self.assertGreater(len(list(policies(PAGES))), 10)
        self.expect_nothing(bad_policies)

    def test_every_command_names_programs_and_options_that_exist(self):
        self.assertGreater(len(list(blocks(PAGES, "sh"))), 5)
        self.expect_nothing(bad_commands)


class PlantedErrors(unittest.TestCase):
    """Each check finds an error of its kind."""

    def expect(self, check, expected, text="", page="docs/planted.md"):
        alone = check in (bad_code, bad_policies, bad_commands)  # which take seconds for all pages
        found = check({page: text} if alone else {**PAGES, page: text})
        self.assertTrue(any(expected in problem for problem in found), (expected, found))

    def test_a_long_readme(self):
        self.expect(too_long, "161 lines", "\n" * 161, "README.md")
        self.expect(too_long, "701 words before its table", "a " * 701 + TABLE + " b" * 9, "README.md")

    def test_links(self):
        self.expect(broken_links, "there is no docs/none.md", "[a](none.md)")
        self.expect(broken_links, "no such heading", "# Some `heading`\n[a](#another-heading)")
        self.expect(broken_links, "no such heading", "[a](policy.md#none)")
        self.assertEqual(broken_links({"docs/a.md": "# Some `heading`: x\n[a](#some-heading-x) [b](../README.md)"}), [])

    def test_paths_and_index(self):
        self.expect(missing_paths, "`scripts/none` does not exist", "`scripts/none --x`")
        self.expect(unlisted_pages, "docs/planted.md")

    def test_names(self):
        policy, methods = PAGES[POLICY_PAGE], PAGES[METHODS_PAGE]
        self.expect(variables, "MPIQ_ISA: read", policy.replace("| `MPIQ_ISA` |", "| |"), POLICY_PAGE)
        self.expect(variables, "MPIQ_ISO: documented", policy.replace("| `MPIQ_ISA` |", "| `MPIQ_ISO` |"), POLICY_PAGE)
        self.expect(info_keys, "mpiq_matrix: read", policy.replace("| `mpiq_matrix` |", "| |"), POLICY_PAGE)
        self.expect(info_keys, "mpiq_x: documented", policy.replace("| `mpiq_matrix` |", "| `mpiq_x` |"), POLICY_PAGE)
        self.expect(codec_names, "topk: a registered codec", methods.replace("| `topk` |", "| |"), METHODS_PAGE)
        self.expect(memory_names, "decay: a registered memory rule", methods.replace("| `decay` |", "| |"), METHODS_PAGE)
        self.expect(plan_names, "/direct: a plan", methods.replace("| `/direct` |", "| |"), METHODS_PAGE)
        self.expect(unknown_names, "MPIQ_Allredcue", "`MPIQ_Allredcue`")
        self.expect(unknown_names, "mpiq-rum", "`mpiq-rum`")

    def test_figures(self):
        methods = PAGES[METHODS_PAGE]
        self.expect(figures, "bf16: 0.18 is not", methods.replace("| 0.17 % |", "| 0.18 % |"), METHODS_PAGE)
        self.expect(figures, "topk: 0.052 is not", methods.replace("| 0.051 |", "| 0.052 |"), METHODS_PAGE)
        self.expect(figures, "99.99 ± 0.01 is in no", "99.99 ± 0.01")

    def test_code(self):
        self.expect(unknown_languages, "'fortran'", "```fortran\n```\n")
        if shutil.which(shlex.split(MPICC)[0]):
            self.expect(bad_code, "docs/planted.md:2", "\n```c\n#include <mpi_quant.h>\nint f(void) { return MPIQ_Start(1, 2); }\n```\n")
            self.expect(bad_code, "docs/planted.md:1", "```c fragment\nMPI_Allreduce(gradient, m);\n```\n")
            self.expect(bad_code, "docs/planted.md:1", "```cpp\nstd::vector<int> x;\n```\n")

    @unittest.skipUnless(built("mpiq-run"), "mpiq-run was not built")
    def test_policies(self):
        for text in ("```policy\n64K-: bf16\n64K: onebit\n```\n", "`64K: onebit`", "```text\nmpiq-run --policy '64K: onebit' ./app\n```\n"):
            self.expect(bad_policies, "'64K: onebit'", text)
        self.expect(bad_policies, "tow", "`64K-: threshold(tow=1)`")

    def test_commands(self):
        for words, expected in (("scripts/none", "there is no program scripts/none"), ("mpiq-none", "there is no program mpiq-none"),
                                ("scripts/run --quik", "has no option --quik"), ("make all", "make is not a known program"),
                                ("slurm/submit --quick \\\n  --node 2", "has no option --node"),
                                ("cp slurm/sites/none.sh x && slurm/status x", "there is no slurm/sites/none.sh")):
            self.expect(bad_commands, expected, f"```sh\n{words}\n```\n")
        if built("mpiq-run"):
            self.expect(bad_commands, "has no option --advice", "```sh\nmpiexec -n 2 mpiq-run --advice ./app --advice\n```\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
