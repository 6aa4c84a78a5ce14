"""docs/troubleshooting.md against the sources: each message of a heading is printed by a program, and each entry has a cause and what to do.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/troubleshooting_test.py
"""
import glob
import os
import re
import unittest

from scripts_common import ROOT

PAGE = os.path.join(ROOT, "docs", "troubleshooting.md")
ENTRY = re.compile(r"^### `([^`\n]+)`\n\n(.*?)(?=^##|\Z)", re.S | re.M)
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def messages():
    """The texts of all programs, neighbouring literals joined as the compiler joins them."""
    found = []
    for folder, ends in (("mpi_quant", ("cpp", "hpp", "c", "h")), ("bench", ("cpp",)), ("python", ("py",))):
        for end in ends:
            for path in glob.glob(os.path.join(ROOT, folder, "**", f"*.{end}"), recursive=True):
                joined = re.sub(r'"\s*\n\s*f?"', "", text_of(path))
                found += LITERAL.findall(joined)
    return [message.replace('\\"', '"').replace("\\n", "\n") for message in found]


def unknown(page):
    known = messages()
    return [entry for entry, _ in ENTRY.findall(page) if not any(entry in message for message in known)]


class Page(unittest.TestCase):
    page = text_of(PAGE)

    def test_each_message_is_one_of_a_program(self):
        self.assertGreater(len(ENTRY.findall(self.page)), 12)
        self.assertEqual(self.page.count("\n### "), len(ENTRY.findall(self.page)))
        self.assertEqual(unknown(self.page), [])

    def test_a_message_that_nobody_prints_is_found(self):
        self.assertEqual(unknown("### `no such message`\n\nCause: x\nDo: y\n"), ["no such message"])

    def test_each_entry_has_a_cause_and_what_to_do(self):
        for entry, body in ENTRY.findall(self.page):
            self.assertRegex(body, r"\ACause: .+\.\nDo: .+\.\n", entry)


if __name__ == "__main__":
    unittest.main()
