"""What CONTRIBUTING.md says step by step, done to a copy of the tree: walks_test.py WALK [CXX [MPICC [GTEST]]].

A block of the page after a line '<!-- walk: NAME, ACTION -->' is one step of the walk NAME. ACTION is

    new FILE               the block is a new file
    in FILE before "TEXT"  the block comes before the line that begins with TEXT
    in FILE after "TEXT"   the block comes after that line
    in FILE instead of "TEXT"

The walks are plan, function, column and plot; add_codec_test.cmake has the codecs and memory rules. No walk compiles the codecs.
"""
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
PAGE = "CONTRIBUTING.md"
STEP = re.compile(r'^<!-- walk: (\w+), (?:new (\S+)|in (\S+) (before|after|instead of) "([^\n]*)") -->\n```\w+ walk\n(.*?)^```$', re.M | re.S)
FLAGS = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-I."]


def fail(text):
    sys.exit(f"tests/scripts/walks_test.py: {text}")


def run(*command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        fail(f"{shlex.join(command)}\n{done.stdout[-8000:]}{done.stderr[-8000:]}")
    return done.stdout + done.stderr


def changed(text, where, anchor, block, file):
    """text with the block at the one line that begins with anchor."""
    lines = text.splitlines(keepends=True)
    at = [i for i, line in enumerate(lines) if line.startswith(anchor)]
    if len(at) != 1:
        fail(f'{PAGE}: {file} has {len(at)} lines that begin with "{anchor}"')
    first = at[0] + (where == "after")
    last = at[0] + (where != "before")
    return "".join([*lines[:first], block, *lines[last:]])


def apply(walk, copy):
    """Does all steps of the walk; returns the files that were changed."""
    with open(os.path.join(ROOT, PAGE), encoding="utf-8") as page:
        steps = [step for step in STEP.findall(page.read()) if step[0] == walk]
    if not steps:
        fail(f"{PAGE} has no walk {walk}")
    files = []
    for _, new, file, where, anchor, block in steps:
        path = os.path.join(copy, new or file)
        if new:
            if os.path.exists(path):
                fail(f"{PAGE}: {new} is there already")
            text = block
        else:
            with open(path, encoding="utf-8") as old:
                text = changed(old.read(), where, anchor, block, file)
        with open(path, "w", encoding="utf-8") as written:
            written.write(text)
        files.append(new or file)
    return files


def plan(copy, cxx, _mpicc, gtest):
    """The proofs hold for the new plan, and the mutations of its steps are found."""
    sources = [f"mpi_quant/plan/{name}.cpp" for name in ("plans", "grid", "halving_doubling", "hierarchical", "ring")]
    run(cxx, *FLAGS, "-c", *sources, folder=copy)
    objects = [os.path.basename(source).replace(".cpp", ".o") for source in sources]
    for test in ("plan_test", "prover_test"):
        run(cxx, *FLAGS, *objects, f"tests/plan/{test}.cpp", "-o", test, *shlex.split(gtest), "-pthread", folder=copy)
        run(f"./{test}", folder=copy)
    run(cxx, *FLAGS, "-E", sources[0], "-o", "plans.ii", folder=copy)
    with open(os.path.join(copy, "plans.ii"), encoding="utf-8") as text:
        if '"star"' not in text.read():
            fail("the new plan is not in the table")


def mpi_flags(mpicc):
    """For a C++ compiler. The compiler wrappers of both families have -show."""
    words = shlex.split(run(*shlex.split(mpicc), "-show", folder=ROOT))[1:]
    return [*(word for word in words if word.startswith("-I")), "-DMPICH_SKIP_MPICXX", "-DOMPI_SKIP_MPICXX", "-Impi_quant/include"]


def function(copy, cxx, mpicc, _gtest):
    """The header is C, and the function compiles as it is declared."""
    with open(os.path.join(copy, "user.c"), "w", encoding="utf-8") as user:
        user.write('#include <mpi_quant.h>\nint f(int* flag);\nint f(int* flag) { return MPIQ_Method_is_exact("bf16", flag); }\n')
    run(*shlex.split(mpicc), "-std=c99", "-Wall", "-Werror", "-I", "mpi_quant/include", "-fsyntax-only", "user.c", folder=copy)
    run(cxx, *FLAGS, *mpi_flags(mpicc), "-c", "mpi_quant/core/api.cpp", "-o", "api.o", folder=copy)
    if " T MPIQ_Method_is_exact" not in run("nm", "api.o", folder=copy):
        fail("the function is not in the object")


def column(copy, cxx, mpicc, _gtest):
    """The program and the scripts have the same columns, and what fills the row compiles."""
    for file in ("bench/rows.cpp", "bench/tabulate.cpp"):
        run(cxx, *FLAGS, *mpi_flags(mpicc), "-fsyntax-only", file, folder=copy)
    test = "test_the_schema_is_that_of_the_harness"
    if "Ran 1 test" not in run("/usr/bin/python3", "tests/scripts/check_results_test.py", "-k", test, folder=copy):
        fail("the test of the schema has another name")


def plot(copy, _cxx, _mpicc, _gtest):
    """scripts/plot finds the plot and draws a committed file, and the plot has the test that plots need."""
    file = sorted(glob.glob(os.path.join(ROOT, "results", "reference", "*.h5")))[0]
    run("scripts/plot", "sent", file, "-o", "drawn", "--name", "a", "--format", "png", folder=copy)
    for name in ("a-sent.png", "a-sent.csv"):
        if os.path.getsize(os.path.join(copy, "drawn", name)) < 100:
            fail(f"{name} is empty")
    tests = "Plots.test_sent", "Register.test_every_plot_has_a_test_words_and_a_file"
    if "Ran 2 tests" not in run("/usr/bin/python3", "tests/scripts/plots_test.py", *tests, folder=copy):
        fail("tests of plots have other names")


FOLDERS = {plan: ("kernels", "mpi_quant", "tests"), function: ("kernels", "mpi_quant"),
           column: ("kernels", "mpi_quant", "sparse_allreduce", "bench", "scripts", "tests"), plot: ("scripts", "tests")}


def main(arguments):
    walks = {walk.__name__: walk for walk in FOLDERS}
    if not arguments or arguments[0] not in walks:
        sys.exit(f"usage: walks_test.py {'|'.join(walks)} [CXX [MPICC [GTEST]]]")
    cxx, mpicc, gtest = [*arguments[1:], *("c++", "mpicc", "-lgtest_main -lgtest")[len(arguments) - 1:]]
    with tempfile.TemporaryDirectory(prefix="mpiq-walk-") as copy:
        for folder in FOLDERS[walks[arguments[0]]]:
            shutil.copytree(os.path.join(ROOT, folder), os.path.join(copy, folder), ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(os.path.join(ROOT, "CMakeLists.txt"), copy)
        files = apply(arguments[0], copy)
        walks[arguments[0]](copy, cxx, mpicc, gtest)
        print(f"{arguments[0]}: {', '.join(files)}")


if __name__ == "__main__":
    main(sys.argv[1:])
