"""The manual pages of the programs: manuals_test.py BIN MAN, the folders of the programs and of their pages."""
import os
import re
import subprocess
import sys
import unittest

BIN, MAN = sys.argv[1:3]


def help_of(page):
    program = page.removesuffix(".1")
    words = [program] if os.path.exists(os.path.join(BIN, program)) else program.rsplit("-", 1)  # mpiq-bench allreduce
    return subprocess.run([os.path.join(BIN, words[0]), *words[1:], "--help"], capture_output=True, text=True, check=True).stdout


class Manuals(unittest.TestCase):
    def test_a_page_names_the_program_and_every_option_that_help_prints(self):
        pages = sorted(page for page in os.listdir(MAN) if page.endswith(".1"))
        self.assertIn("mpiq-run.1", pages)
        self.assertEqual("mpiq-bench-allreduce.1" in pages, os.path.exists(os.path.join(BIN, "mpiq-bench")))  # a build may be without
        for page in pages:
            program, help_text = page.removesuffix(".1"), help_of(page)
            with open(os.path.join(MAN, page), encoding="utf-8") as file:
                text = re.sub(r"\\f.", "", file.read()).replace("\\-", "-")
            with self.subTest(program):
                self.assertRegex(text, rf"\.SH NAME\n{program} - \w+")
                options = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", help_text))
                self.assertEqual({option for option in options if option not in text}, set())


    def test_examples_stay_as_help_prints_them(self):
        """A line of an example is a line of the page. Otherwise man fills them to a paragraph, which nobody can copy."""
        shown = 0
        for page in sorted(page for page in os.listdir(MAN) if page.endswith(".1")):
            with open(os.path.join(MAN, page), encoding="utf-8") as file:
                source = file.read()
            verbatim = "\n".join(re.findall(r"^\.nf\n(.*?)^\.fi$", source, re.M | re.S)).replace("\\-", "-").replace("\\e", "\\")
            examples = [line for line in help_of(page).split("\n") if re.match(r"  (mpiexec|mpiq-\S+) ", line)]
            shown += len(examples)
            self.assertEqual([line for line in examples if line not in verbatim.split("\n")], [], page)
        self.assertGreater(shown, 4)  # mpiq-run alone has five


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
