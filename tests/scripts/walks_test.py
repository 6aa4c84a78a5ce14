"""What CONTRIBUTING.md says step by step, done to a copy of the tree: walks_test.py WALK [CXX [MPICC [GTEST]]].

A block of the page after a line '<!-- walk: NAME, ACTION -->' is one step of the walk NAME. ACTION is

    new FILE               the block is a new file
    in FILE before "TEXT"  the block comes before the line that begins with TEXT
    in FILE after "TEXT"   the block comes after that line
    in FILE instead of "TEXT"

The walks are plan, scheme, function, caught, option, column and plot; add_codec_test.cmake has the codecs and memory rules. No walk compiles the codecs.
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
        run("env", "MPIQ_TEST_PLAN=star", f"./{test}", folder=copy)  # the build has tried the mutations of all others
    run(cxx, *FLAGS, "-E", sources[0], "-o", "plans.ii", folder=copy)
    with open(os.path.join(copy, "plans.ii"), encoding="utf-8") as text:
        if '"star"' not in text.read():
            fail("the new plan is not in the table")


def mpi_words(mpicc, *beginnings):
    """What mpicc gives to its compiler and begins so. The compiler wrappers of both families have -show."""
    return [word for word in shlex.split(run(*shlex.split(mpicc), "-show", folder=ROOT))[1:] if word.startswith(beginnings)]


def mpi_flags(mpicc):
    """For a C++ compiler."""
    return [*mpi_words(mpicc, "-I"), "-DMPICH_SKIP_MPICXX", "-DOMPI_SKIP_MPICXX", "-Impi_quant/include"]


CALLS = """// Calls of the new scheme, between this rank and one that has the same vector. The test stands in for the core.
#include <vector>

#include "mpi_quant/core/scheme.hpp"

namespace mq {
std::optional<kernels::Element> element_of(MPI_Datatype) { return kernels::Element::f64; }
}  // namespace mq

int main() {
  const mq::Scheme* const scheme = mq::find_scheme("halves");
  const mq::SchemeEntry* const entry = scheme == nullptr ? nullptr : mq::SchemeEntry::find(*scheme);
  if (entry == nullptr) return 1;
  char nothing = 0;  // in place of the state of a communicator, which this scheme does not look at
  const auto steps = entry->make(reinterpret_cast<mq::CommState&>(nothing));
  for (const bool in_place : {false, true}) {
    std::vector<double> x{1, 2, 3, 4, 5, 6, 7}, y = x, sum = x;
    for (double& v : sum) v *= 2;
    const mq::Call call{in_place ? MPI_IN_PLACE : x.data(), y.data(), 7, MPI_DOUBLE, MPI_SUM, MPI_COMM_NULL};
    if (!entry->suits(call, {}, {}) || !steps->prepare(call, {}, {}).ok()) return 2;
    for (mq::SchemePart part = steps->begin(0); part.call != nullptr; part = steps->next(false, 0))
      for (MPI_Count i = 0; i < part.call->count; ++i)
        static_cast<double*>(part.call->recvbuf)[i] = 2 * static_cast<const double*>(part.call->input())[i];
    if (y != sum) return 3;
  }
  return 0;
}
"""


def scheme(copy, cxx, mpicc, _gtest):
    """The scheme is in both lists, and its parts are the sum of the vector, also in place."""
    with open(os.path.join(copy, "calls.cpp"), "w", encoding="utf-8") as source:
        source.write(CALLS)
    run(cxx, *FLAGS, *mpi_flags(mpicc), "calls.cpp", "mpi_quant/schemes/halves.cpp", "-o", "calls", *mpi_words(mpicc, "-L", "-l", "-Wl"), folder=copy)
    run("./calls", folder=copy)


def function(copy, cxx, mpicc, _gtest):
    """The header is C, and the function compiles as it is declared."""
    with open(os.path.join(copy, "user.c"), "w", encoding="utf-8") as user:
        user.write('#include <mpi_quant.h>\nint f(int* flag);\nint f(int* flag) { return MPIQ_Method_is_exact("bf16", flag); }\n')
    run(*shlex.split(mpicc), "-std=c99", "-Wall", "-Werror", "-I", "mpi_quant/include", "-fsyntax-only", "user.c", folder=copy)
    run(cxx, *FLAGS, *mpi_flags(mpicc), "-c", "mpi_quant/core/api.cpp", "-o", "api.o", folder=copy)
    if " T MPIQ_Method_is_exact" not in run("nm", "api.o", folder=copy):
        fail("the function is not in the object")


MPI = """int MPI_Iscan(void*, void*, int, long, long, long, void*);
int PMPI_Iscan(void* s, void* r, int count, long t, long o, long c, void* q) {
  return s == r && t == o && c == 3 && q != 0 ? count : -1;
}
int PMPI_Allreduce(void) { return 1; }
int MPI_Iscan(void* s, void* r, int count, long t, long o, long c, void* q) { return PMPI_Iscan(s, r, count, t, o, c, q); }
"""
PROGRAM = """int MPI_Iscan(void*, void*, int, long, long, long, void*);
int PMPI_Iscan(void*, void*, int, long, long, long, void*);
int main(void) {
  int x = 0;
  return !(MPI_Iscan(&x, &x, 77, 2, 2, 3, &x) == 77 && PMPI_Iscan(&x, &x, 78, 2, 2, 3, &x) == 78);
}
"""


def caught(copy, _cxx, mpicc, _gtest):
    """The library exports the function, and a call reaches MPI's function of this name. MPI is a stand-in of two functions."""
    for name, text in (("mpi.c", MPI), ("program.c", PROGRAM)):
        with open(os.path.join(copy, name), "w", encoding="utf-8") as source:
            source.write(text)
    cc = shlex.split(run(*shlex.split(mpicc), "-show", folder=ROOT))[0]
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-I.", "-fPIC", "-shared"]
    stub = [f"mpi_quant/preload/{name}.c" for name in ("stub", "find", "unused")]
    run(cc, *flags, '-DMPIQ_SOVERSION="0"', *stub, "-o", "libstub.so", "-ldl", "-pthread", folder=copy)
    run(cc, *flags, "mpi.c", "-o", "libfake.so", folder=copy)
    symbols = run("nm", "-D", "libstub.so", folder=copy)
    if not all(f" T {name}\n" in symbols for name in ("MPI_Iscan", "PMPI_Iscan")):
        fail("the library does not export the function")
    run(cc, "program.c", "-o", "program", "-L.", "-Wl,-rpath,.,--no-as-needed", "-lstub", "-lfake", folder=copy)
    run("./program", folder=copy)


def option(copy, cxx, mpicc, _gtest):
    """The files compile with the new option."""
    for file in ("bench/options.cpp", "bench/option_table.cpp"):
        run(cxx, *FLAGS, *mpi_flags(mpicc), "-fsyntax-only", file, folder=copy)


NAMES = ('#include <cstdio>\n#include "bench/rows.hpp"\n'
         'int main() {\n  for (const auto& c : mq::bench::columns_of<mq::bench::PointRow>()) std::puts(c.name);\n}\n')


def column(copy, cxx, mpicc, _gtest):
    """The program and the scripts have the same columns, and what fills the row compiles."""
    for file in ("bench/rows.cpp", "bench/tabulate.cpp"):
        run(cxx, *FLAGS, *mpi_flags(mpicc), "-fsyntax-only", file, folder=copy)
    with open(os.path.join(copy, "names.cpp"), "w", encoding="utf-8") as source:
        source.write(NAMES)
    run(cxx, *FLAGS, "names.cpp", "bench/rows.cpp", "-o", "names", folder=copy)
    names = run("./names", folder=copy)
    script = "from mpi_quant.results import schema as s; print(*s.POINTS, *s.LATER, sep='\\n'); print(s.points_table(), end='')"
    known = run("env", "PYTHONPATH=python", "/usr/bin/python3", "-c", script, folder=copy)
    if "sent_per_byte\n" not in names or not known.startswith(names):
        fail(f"the program and the scripts have different columns: {names}")
    with open(os.path.join(copy, "results", "README.md"), encoding="utf-8") as page:
        if known[len(names):] not in page.read():
            fail("the table of results/README.md differs from bench/columns.def")


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


FOLDERS = {plan: ("kernels", "mpi_quant", "tests"), scheme: ("kernels", "mpi_quant"), function: ("kernels", "mpi_quant"), caught: ("mpi_quant",),
           option: ("kernels", "mpi_quant", "sparse_allreduce", "bench"),
           column: ("kernels", "mpi_quant", "sparse_allreduce", "bench", "python", "tests"), plot: ("bench", "python", "scripts", "tests")}


def main(arguments):
    walks = {walk.__name__: walk for walk in FOLDERS}
    if not arguments or arguments[0] not in walks:
        sys.exit(f"usage: walks_test.py {'|'.join(walks)} [CXX [MPICC [GTEST]]]")
    cxx, mpicc, gtest = [*arguments[1:], *("c++", "mpicc", "-lgtest_main -lgtest")[len(arguments) - 1:]]
    with tempfile.TemporaryDirectory(prefix="mpiq-walk-") as copy:
        for folder in FOLDERS[walks[arguments[0]]]:
            shutil.copytree(os.path.join(ROOT, folder), os.path.join(copy, folder), ignore=shutil.ignore_patterns("__pycache__"))
        os.mkdir(os.path.join(copy, "results"))
        for file in ("CMakeLists.txt", "results/README.md"):
            shutil.copy(os.path.join(ROOT, file), os.path.join(copy, file))
        files = apply(arguments[0], copy)
        walks[arguments[0]](copy, cxx, mpicc, gtest)
        print(f"{arguments[0]}: {', '.join(files)}")


if __name__ == "__main__":
    main(sys.argv[1:])
