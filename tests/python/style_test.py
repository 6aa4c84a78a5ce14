"""The Python package under ruff and mypy, as pyproject.toml says. Exits 77, with a line, where PATH has not both."""
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SKIPPED = 77
CHECKS = (("ruff", "check", "--no-cache", "--quiet", "python"), ("mypy", "--cache-dir", os.devnull))


def main():
    missing = [program for program, *_ in CHECKS if not shutil.which(program)]
    if missing:
        print(f"the style of the Python package needs {' and '.join(missing)}: pip install {' '.join(missing)}")
        return SKIPPED
    return int(any([subprocess.run(check, cwd=ROOT, check=False).returncode for check in CHECKS]))  # negative where a signal ended it


if __name__ == "__main__":
    sys.exit(main())
