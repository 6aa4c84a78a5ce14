"""Tests whose package is not there are skipped, with one line that names the package and the command that brings it. scripts/test
shows these lines at its end. For tests that CMake lists, tests/needs.cmake does the same."""
import os
import re
import sys
import unittest

PACKAGES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../scripts/packages.txt")


def needs(package, there, what):
    """Decorates a test: without the package ("there" says whether it is there) it is skipped, and the line says what is left out."""
    if there:
        return lambda test: test
    with open(PACKAGES, encoding="utf-8") as file:
        groups = dict(re.findall(r"^(\S+)\s*# (\w+):", file.read(), re.MULTILINE))
    print(f"{what} needs {package}: scripts/setup {groups[package]}", file=sys.stderr)
    return unittest.skip(f"no {package}")
