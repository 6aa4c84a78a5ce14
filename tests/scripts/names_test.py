"""The names by which the commands of mpiq speak of each other: a user of the source tree can start what they name there.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/names_test.py
"""
import os
import unittest
import unittest.mock

from scripts_common import ROOT, call, script  # finds the package for the next ones
from mpi_quant.__main__ import COMMANDS
from mpi_quant.commands import command_line, plot, report  # noqa: F401  what commands import, once for all of them


def started_as(name):
    return unittest.mock.patch.object(command_line, "_started_as", name)


class Names(unittest.TestCase):
    def test_those_of_the_launchers_of_this_tree_or_of_mpiq(self):
        for name in ("scripts/merge", "slurm/submit"):
            with started_as(name):
                self.assertEqual(command_line.named("mpiq plot, mpiq check, mpiq status."), "scripts/plot, scripts/check_results, slurm/status.")
        with started_as("mpiq merge"):
            self.assertEqual(command_line.named("mpiq plot, mpiq check, mpiq status."), "mpiq plot, mpiq check, mpiq status.")

    def test_each_command_has_a_launcher_of_its_name(self):
        with started_as("scripts/plot"):
            names = {command: command_line.other(command) for command in COMMANDS}
        for command, name in names.items():
            path = os.path.join(ROOT, name)
            with open(path, encoding="utf-8") as file:
                words = 'name, "slurm/" + name' if command in command_line.SLURM else f'"{command}", "{name}"'
                self.assertIn(f"mpiq_python.start({words})\n", file.read())
            self.assertTrue(os.access(path, os.X_OK), path)

    def test_no_help_of_the_tree_names_mpiq(self):
        for command in sorted(COMMANDS):
            with started_as("scripts/plot"):
                done = call(os.path.join(ROOT, command_line.other(command)), "--help")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotRegex(done.stdout, r"\bmpiq\s+[a-z_]+", command)


class WhichFigures(unittest.TestCase):
    def test_the_help_of_each_says_which_of_the_three_you_want(self):
        texts = {" ".join(call(script(name), "--help").stdout.split("Which one? ")[1].split()) for name in ("draw", "plot", "report")}
        self.assertEqual(len({text[:text.index("at its end.")] for text in texts}), 1, texts)

    def test_an_installed_mpiq_does_not_name_scripts(self):
        with started_as("mpiq plot"):
            self.assertEqual(command_line.which_figures(), "Which one? mpiq report makes a page to read: what to use, figures, tables. "
                             "mpiq plot makes single figures for a paper or slides.")


if __name__ == "__main__":
    unittest.main()
