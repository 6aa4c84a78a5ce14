"""The manual page mpi_quant(7): it says what docs/policy.md says, and man reads it without a warning.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/page_manual_test.py
"""
import os
import re
import shutil
import subprocess
import sys
import unittest

from scripts_common import ROOT, InTemporaryFolder

MAKER = os.path.join(ROOT, "cmake", "page_manual.py")


class Page(InTemporaryFolder):
    def page(self, source):
        out = self.path("out.7")
        subprocess.run([sys.executable, MAKER, source, "mpi_quant", "7", "1.2.3", "policies, environment", out], check=True)
        with open(out, encoding="utf-8") as file:
            return file.read()

    def made_of(self, text):
        with open(self.path("in.md"), "w", encoding="utf-8") as file:
            file.write(text)
        return self.page(self.path("in.md"))

    def test_the_policy_page_has_every_variable_key_and_heading(self):
        source = os.path.join(ROOT, "docs", "policy.md")
        with open(source, encoding="utf-8") as file:
            text = file.read()
        plain = re.sub(r"\\f.|\\&", "", self.page(source)).replace("\\-", "-").replace("\\e", "\\")
        names = set(re.findall(r"^\| `((?:MPIQ_|mpiq_)\w+)`", text, re.M))
        self.assertGreater(len(names), 20)
        self.assertEqual({name for name in names if f".TP\n{name}" not in plain}, set())
        for heading in re.findall(r"^## (.*)$", text, re.M):
            self.assertIn(f'.SH "{heading.upper()}"', plain)
        for line in re.search(r"^```text\n(.*?)^```$", text, re.S | re.M)[1].splitlines():
            self.assertIn(line, plain)

    def test_troff_takes_no_text_for_a_command(self):
        text = self.made_of("# P\n\n.TH is text, 'so is this.\n\n'it\n\n```sh\n.hidden -x a\\b\n```\n\n| a | b |\n|---|---|\n| `x\\|y` | **c** [d](e.md) |\n- one\n")
        self.assertEqual([line for line in text.splitlines()[4:] if line.startswith("'")], [])
        self.assertIn("\\&.TH is text", text)
        self.assertIn("\\&.hidden \\-x a\\eb", text)
        self.assertIn(".TP\n\\fBx|y\\fR\n\\fBc\\fR d.", text)
        self.assertNotIn("\\fBa", text, "a table's head is left out")

    @unittest.skipUnless(shutil.which("man"), "no man")
    def test_man_reads_it_without_a_warning(self):
        self.page(os.path.join(ROOT, "docs", "policy.md"))
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", self.path("out.7")], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
