"""What CTest has skipped because packages are missing, for scripts/test and .ci/run.

usage: ctest ... | python3 scripts/mpiq_skipped.py BUILD
           hands CTest's output on; before CTest's summary it lists what was skipped
       python3 scripts/mpiq_skipped.py --passed LOG BUILD    prints a regular expression for the tests that need not run again: by LOG
           they have passed, nothing of them was skipped, and BUILD would run the same command now

A test that lacks a package prints one line: "WHAT needs PACKAGE: COMMAND" (see tests/needs.cmake and tests/scripts/needs.py)."""
import json
import os
import re
import signal
import subprocess
import sys

LOG = "Testing/Temporary/LastTest.log"
NEEDS = re.compile(r"^(.* needs [^:]+): ((?:scripts/setup|apt-get install|pip install) .+)$", re.MULTILINE)
SUMMARY = re.compile(r"\d+% tests passed, \d+ tests failed out of \d+")


class Test:
    """One entry of CTest's log."""

    def __init__(self, entry):
        head, _, rest = entry.partition("\nOutput:\n")
        output, _, end = rest.rpartition("<end of output>\n")
        self.name = re.match(r".*\n?\d+/\d+ Test: (.*)", head)[1]
        self.command = re.search(r"^Command: (.*)$", head, re.MULTILINE | re.DOTALL)[1].split("\nDirectory: ")[0]
        self.passed = re.search(r"^(Test Passed\.$|Required regular expression found)", end, re.MULTILINE) is not None
        self.needs = NEEDS.findall(output)


def tests(log):
    try:
        with open(log, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except FileNotFoundError:
        return []
    return [Test(entry) for entry in re.split(r"^\d+/\d+ Testing: .*\n", text, flags=re.MULTILINE)[1:]]


def listed(log):
    """The lines to show: for each command what it would bring, in the order of the log."""
    found = {}
    for test in tests(log):
        for what, command in test.needs:
            found.setdefault(command, {})[what] = None
    lines = []
    for command, what in found.items():
        lines += [f"Skipped, until you run {command}:", *(f"  {line}" for line in what)]
    return lines + [""] if lines else []


def filtered(build):
    """Hands on CTest's output. Its summary waits until CTest has ended, for only then is the log whole."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # CTest decides what happens then
    held = []
    for line in sys.stdin:
        if held or SUMMARY.match(line):
            held.append(line)
        else:
            print(line, end="", flush=True)
    if held:
        print("\n".join(listed(os.path.join(build, LOG)) + [""]), end="")
    print("".join(held), end="", flush=True)


def passed(log, build):
    before = tests(log)  # now, because ctest may write a log of its own
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True).stdout
    now = {test["name"]: " ".join(f'"{word}"' for word in test.get("command", ())) for test in json.loads(shown)["tests"]}
    names = [test.name for test in before if test.passed and not test.needs and now.get(test.name) == test.command]
    return "^(" + "|".join(re.escape(name) for name in names) + ")$"


def main(words):
    if len(words) == 1 and not words[0].startswith("-"):
        filtered(words[0])
    elif len(words) == 3 and words[0] == "--passed":
        print(passed(*words[1:]))
    else:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
