"""scripts/mpiq_comments.py, which check_format calls: which comments it reports, and what --fix makes of them.

Needs no build: /usr/bin/python3 tests/scripts/comments_test.py
"""
import subprocess
import sys
import unittest

from scripts_common import InTemporaryFolder, script


class Comments(InTemporaryFolder):
    LONG = "word " * 25 + "end."

    def wrapped(self, text):
        """What --fix makes of the text; everything in it is then short enough, and a second --fix changes nothing."""
        path = self.path("a.cpp")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.assertEqual(self.run_on(path).returncode, 1, "the text has no comment that is too long")
        for _ in range(2):
            self.assertEqual(self.run_on("--fix", path).returncode, 0)
            with open(path, encoding="utf-8") as file:
                found = file.read()
            text, before = found, text
        self.assertEqual(text, before)
        return text

    def run_on(self, *arguments):
        return subprocess.run([sys.executable, script("mpiq_comments.py"), *arguments], capture_output=True, text=True, check=False)

    def test_a_long_line_is_reported_with_its_number_and_code_is_not(self):
        path = self.path("a.cpp")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'// a\nauto x = "{self.LONG}";\n  // {self.LONG}\n')
        done = self.run_on(path)
        self.assertEqual((done.returncode, done.stderr), (1, f"{path}:3: a comment of more than 110 columns\n"))

    def test_the_rest_of_a_line_moves_into_the_lines_below(self):
        found = self.wrapped(f"  // {self.LONG}\n  // The next sentence.\nint x;\n").splitlines()
        self.assertEqual([line[:10] for line in found], ["  // word ", "  // word ", "int x;"])
        self.assertTrue(found[1].endswith("end. The next sentence."), found)
        self.assertEqual(" ".join(found[:2]).replace("  // ", " ").split(), f"{self.LONG} The next sentence.".split())

    def test_paragraphs_items_labels_and_tables_stay_apart(self):
        found = self.wrapped(f"// {self.LONG}\n//\n// - {self.LONG}\n// - item\n// Note: this.\n//   a    b\n").splitlines()
        self.assertEqual([line[:6] for line in found],
                         ["// wor", "// wor", "//", "// - w", "//   w", "// - i", "// Not", "//   a"])

    def test_the_end_of_a_block_stays_at_its_end(self):
        found = self.wrapped(f"/* {self.LONG}\n * {self.LONG} */\nint x;\n").splitlines()
        self.assertTrue(all(line.startswith(" * word") for line in found[1:-1]), found)
        self.assertTrue(found[-2].endswith("end. */"), found)

    def test_files_of_cmake_and_the_shell_too(self):
        for name in ("CMakeLists.txt", "a.sh", "script"):
            path = self.path(name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh {self.LONG}\n# {self.LONG}\n# shellcheck shell=sh\n// {self.LONG}\n#SBATCH {self.LONG}\n")
            done = self.run_on(path)
            self.assertEqual(done.stderr, f"{path}:2: a comment of more than 110 columns\n")
            self.assertEqual(self.run_on("--fix", path).returncode, 0)
            with open(path, encoding="utf-8") as file:
                self.assertEqual([line[:7] for line in file], ["#!/bin/", "# word ", "# word ", "# shell", "// word", "#SBATCH"])
        path = self.path("a.hpp")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#  define A {self.LONG}\n")
        self.assertEqual(self.run_on(path).returncode, 0, "code, not a comment")

    def test_a_table_or_a_link_that_cannot_be_broken_stays(self):
        path = self.path("a.cpp")
        text = f"//   {'a' * 60}   {'b' * 60}\n// https://{'x' * 120}\n"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.assertEqual(self.run_on("--fix", path).stderr, f"{path}:1: a comment of more than 110 columns\n")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), text)


if __name__ == "__main__":
    unittest.main()
