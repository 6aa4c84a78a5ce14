"""The files that say what the project is, against the tree: versions, the workflow, hooks, the list of examples.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/project_files_test.py
"""
import glob
import json
import os
import re
import tomllib
import unittest

from scripts_common import ROOT  # finds the package for the next one
from mpi_quant.commands import docs


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def found(pattern, *path):
    """What the pattern's group is, in the one place where it matches."""
    matches = re.findall(pattern, read(*path), re.M)
    if len(matches) != 1:
        raise AssertionError(f"{os.path.join(*path)}: {len(matches)} matches of {pattern}")
    return matches[0]


VERSION = found(r"^project\(mpi_quant VERSION ([\d.]+)", "CMakeLists.txt")
EXAMPLES = sorted(name for name in os.listdir(os.path.join(ROOT, "examples")) if name.endswith((".c", ".cpp", ".f90", ".py")))


class Version(unittest.TestCase):
    def test_the_header_has_the_version_of_the_build(self):
        header = "mpi_quant", "include", "mpi_quant.h"
        parts = [found(rf"^#define MPIQ_VERSION_{part} (\d+)$", *header) for part in ("MAJOR", "MINOR", "PATCH")]
        self.assertEqual(".".join(parts), VERSION)

    def test_the_citation_has_it(self):
        self.assertEqual(found(r"^version: (.*)$", "CITATION.cff"), VERSION)

    def test_the_python_package_has_it(self):
        self.assertEqual(found(r'^__version__ = "(.*)"$', "python", "mpi_quant", "__init__.py"), VERSION)

    def test_it_is_the_newest_of_the_changelog(self):
        versions = re.findall(r"^## \[(.*?)\](?: - (.*))?$", read("CHANGELOG.md"), re.M)
        self.assertEqual(versions[0], ("Unreleased", ""))
        self.assertEqual(versions[1][0], VERSION)
        for _, date in versions[1:]:
            self.assertRegex(date, r"^\d{4}-\d\d-\d\d$")
        dates = [date for _, date in versions[1:]]
        self.assertEqual(dates, sorted(dates, reverse=True))

    def test_the_changelog_has_the_headings_of_keep_a_changelog(self):
        kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
        self.assertEqual(set(re.findall(r"^### (.*)$", read("CHANGELOG.md"), re.M)) - kinds, set())

    def test_what_is_not_released_is_sorted_by_prefix(self):
        prefixes = ["api:", "wire:", "perf:", "bench:"]
        for heading in re.split(r"^## ", read("CHANGELOG.md"), flags=re.M)[1].split("### ")[1:]:
            found = [prefixes.index(line.split()[1]) for line in heading.splitlines() if line.startswith("- ")]
            self.assertEqual(found, sorted(found), heading.splitlines()[0])


class Citation(unittest.TestCase):
    def test_what_the_format_demands(self):
        self.assertEqual(found(r"^cff-version: (.*)$", "CITATION.cff"), "1.2.0")
        for key in ("message", "title", "type", "authors"):
            found(rf"^{key}:", "CITATION.cff")

    def test_the_licence_is_that_of_the_project(self):
        self.assertEqual(found(r"^license: (.*)$", "CITATION.cff"), "Apache-2.0")
        self.assertIn("Apache License\n                           Version 2.0", read("LICENSE"))


class Licence(unittest.TestCase):
    def test_what_users_copy_or_install_names_it(self):
        files = glob.glob(os.path.join(ROOT, "examples", "*.[cfp]*")) + [os.path.join(ROOT, "mpi_quant", "include", "mpi_quant.h")]
        self.assertGreater(len(files), 8)
        for path in files:
            self.assertIn("SPDX-License-Identifier: Apache-2.0", read(path), path)

    def test_one_rule_covers_all_files(self):
        rules = tomllib.loads(read("REUSE.toml"))["annotations"]
        self.assertEqual([(rule["path"], rule["SPDX-License-Identifier"]) for rule in rules], [("**", "Apache-2.0")])
        self.assertEqual(read("LICENSES", "Apache-2.0.txt"), read("LICENSE"))


class Presets(unittest.TestCase):
    def test_what_users_install_builds_no_tests_and_scripts_test_does(self):
        presets = {preset["name"]: preset for preset in json.loads(read("CMakePresets.json"))["configurePresets"]}
        self.assertEqual(presets["release"]["cacheVariables"]["MPIQ_BUILD_TESTS"], "OFF")
        self.assertIn('cmake --preset "$preset" -D MPIQ_BUILD_TESTS=ON', read("scripts", "test"))


class Checks(unittest.TestCase):
    def test_the_workflow_runs_all_checks_on_debian_12(self):
        workflow = read(".github", "workflows", "ci.yml")
        self.assertRegex(workflow, r"(?m)^ *- run: \.ci/run$")
        self.assertRegex(workflow, r"(?m)^ *container: debian:12$")
        self.assertTrue(os.access(os.path.join(ROOT, ".ci", "run"), os.X_OK))

    def test_hooks_are_scripts_of_the_tree_and_download_nothing(self):
        hooks = read(".pre-commit-config.yaml")
        self.assertEqual(re.findall(r"repo: (.*)", hooks), ["local"])
        entries = re.findall(r"entry: (\S+)", hooks)
        self.assertEqual(len(entries), len(re.findall(r"language: system$", hooks, re.M)))
        for entry in entries:
            if entry != "shellcheck":
                self.assertTrue(os.access(os.path.join(ROOT, entry), os.X_OK), entry)

    def test_the_editor_wraps_where_the_formatter_does(self):
        self.assertEqual(found(r"^max_line_length = (\d+)$", ".editorconfig"), found(r"^ColumnLimit: (\d+)$", ".clang-format"))


class Examples(unittest.TestCase):
    def test_there_is_one_of_each_language_and_each_way(self):
        self.assertGreaterEqual(len(EXAMPLES), 9)
        self.assertEqual({os.path.splitext(name)[1] for name in EXAMPLES}, {".c", ".cpp", ".f90", ".py"})

    def test_the_page_lists_each(self):
        self.assertEqual(sorted(re.findall(r"^\| \[(\S+)\]\(\1\) \|", read("examples", "README.md"), re.M)), EXAMPLES)

    def test_each_is_short_and_says_how_to_run_it(self):
        for name in EXAMPLES:
            with self.subTest(example=name):
                lines = read("examples", name).splitlines()
                self.assertTrue(20 <= len(lines) <= 60, len(lines))
                opening = "\n".join(lines[:6])
                self.assertRegex(opening, r"Run: +mpiexec -n 2 ")
                if not name.endswith(".py"):
                    self.assertIn(f" {name} -o ", opening)

    def test_each_is_built_or_run_by_a_test(self):
        build = read("examples", "CMakeLists.txt")
        loops = " ".join(re.findall(r"foreach\(name ([^)]*)\)", build))
        for name in EXAMPLES:
            self.assertTrue(name in build or os.path.splitext(name)[0] in loops.split(), name)


@unittest.skipUnless(os.path.exists(os.path.join(ROOT, ".git")), "the pages are those that git knows")
class Site(unittest.TestCase):
    """The HTML pages of scripts/docs."""

    def test_no_two_pages_have_one_title(self):
        titles = [read(page).split("\n", 1)[0] for page in docs.pages_in_order()]
        self.assertEqual(len(set(titles)), len(titles), sorted(title for title in titles if titles.count(title) > 1))

    def test_pages_come_as_the_index_lists_them(self):
        pages = docs.pages_in_order()
        self.assertEqual(pages[:3], ["README.md", "docs/index.md", "docs/glossary.md"])
        self.assertLess(pages.index("docs/design.md"), pages.index("CHANGELOG.md"))
        self.assertEqual(sorted(pages), sorted(set(pages)), "each once")


if __name__ == "__main__":
    unittest.main()
