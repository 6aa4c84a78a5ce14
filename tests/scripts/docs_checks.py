"""The checks of docs_test.py: functions from pages (name in the tree -> text) to a list of what is wrong with them.

The command line is docs_test.py's: BIN, the folder of the built programs, and the compiler wrapper of an MPI.
"""
import csv
import functools
import glob
import os
import re
import shlex
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BIN = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ""
MPICC = sys.argv[2] if len(sys.argv) > 2 else "mpicc"
MAX_README, MAX_WORDS = 160, 700  # lines; words before the table of what to use
TABLE = "<!-- begin scripts/readme_tables advice"
POLICY_PAGE, METHODS_PAGE = "docs/policy.md", "docs/methods.md"

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```[ \t]*$", re.S | re.M)
TREE = ("bench/", "cmake/", "docs/", "examples/", "kernels/", "mpi_quant/", "python/", "results/", "scripts/", "slurm/", "sparse_allreduce/", "tests/")

# What a fragment of C may use.
FRAGMENT = """#include <mpi_quant.h>
void fragment(float* gradient, int n, MPI_Comm comm);
void fragment(float* gradient, int n, MPI_Comm comm) {
%s
}
"""

# Commands of other projects that the pages use.
LAUNCHERS = {"apptainer", "mpiexec", "mpiexec.mpich", "mpiexec.openmpi", "srun"}
OTHERS = {"$EDITOR", ".ci/run", "cmake", "cp", "ctest", "docker", "eb", "env", "export", "git", "module", "mpicc", "mpiq", "pip", "ramble", "rattler-build", "reframe",
          "spack"}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def pages_of_tree():
    names = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md",
             *(os.path.relpath(path, ROOT) for path in sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))))]
    return {name: read(name) for name in names}


PAGES = pages_of_tree()


def blocks(pages, *languages):
    """(where, first line of the fence, body) of every block in one of these languages."""
    for name, text in pages.items():
        for match in FENCE.finditer(text):
            if match.group(1).split()[:1] in [[language] for language in languages]:
                yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}", match.group(1), match.group(2)


def prose(text):
    return FENCE.sub("", text)


def without_walks(text):
    """Blocks of a walk (walks_test.py) name what is not there yet."""
    return FENCE.sub(lambda block: "" if "walk" in block.group(1).split() else block.group(0), text)


# Length and links

def too_long(pages):
    lines, words = len(pages["README.md"].splitlines()), len(pages["README.md"].partition(TABLE)[0].split())
    return [f"README.md has {n} {what}, more than {most}" for n, what, most in
            ((lines, "lines", MAX_README), (words, "words before its table", MAX_WORDS)) if n > most]


def anchors(text):
    """The anchors of a page's headings, as forges make them."""
    found, counts = set(), {}
    for heading in re.findall(r"^#+ +(.*?) *#*$", prose(text), re.M):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        counts[slug] = counts.get(slug, -1) + 1
        found.add(f"{slug}-{counts[slug]}" if counts[slug] else slug)
    return found


def broken_links(pages):
    wrong = []
    for name, text in pages.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
            if re.match(r"\w+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            if file not in pages and not os.path.exists(os.path.join(ROOT, file)):
                wrong.append(f"{name}: ({target}): there is no {file}")
            elif anchor and anchor not in anchors(pages[file] if file in pages else read(file)):
                wrong.append(f"{name}: ({target}): {file} has no such heading")
    return wrong


def missing_paths(pages):
    """Files and folders of the tree that a page names in backquotes."""
    wrong = []
    for name, text in pages.items():
        for span in re.findall(r"`([^`\n]+)`", prose(text)):
            path = span.split()[0]
            if path.startswith(TREE) and not re.search(r"[<*{]", path) and not os.path.exists(os.path.join(ROOT, path)):
                wrong.append(f"{name}: `{path}` does not exist")
    return wrong


def unlisted_pages(pages):
    index = pages["docs/index.md"]
    return [f"docs/index.md does not list {name}" for name in pages
            if name.startswith("docs/") and name != "docs/index.md" and f"]({os.path.basename(name)})" not in index]


# Names

def first_column(text):
    return {name for row in re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|", text, re.M) for name in re.findall(r"`([^`]+)`", row)}


def differences(what, code, docs):
    return [f"{name}: {what}, but not documented" for name in sorted(code - docs)] + \
           [f"{name}: documented, but not {what}" for name in sorted(docs - code)]


def variables(pages):
    code = set()
    for path in ("mpi_quant/base/env.cpp", "mpi_quant/preload/stub.c", "python/mpi_quant/_library.py"):
        code |= set(re.findall(r'"(MPIQ_[A-Z_]+)"', read(path)))
    return differences("read from the environment", code, {n for n in first_column(pages[POLICY_PAGE]) if n.startswith("MPIQ_")})


def info_keys(pages):
    code = set()
    for path in ["mpi_quant/core/info.cpp", *glob.glob("mpi_quant/sparse/*.cpp", root_dir=ROOT)]:
        code |= set(re.findall(r'"(mpiq_[a-z_]+)"', read(path)))
    return differences("read from an MPI_Info", code, {n for n in first_column(pages[POLICY_PAGE]) if n.startswith("mpiq_")})


@functools.cache
def codecs():
    return set(re.findall(r"^MQ_CODEC\((\w+),", read("kernels/registry.def"), re.M))


def codec_names(pages):
    table = re.search(r"^\| codec \| use it for.*?\n\n", pages[METHODS_PAGE], re.S | re.M)
    return differences("a registered codec", codecs(), first_column(table.group(0) if table else ""))


def memory_names(pages):
    rules = set(re.findall(r"^MQ_MEMORY\((\w+),", read("kernels/memory/registry.def"), re.M))
    table = re.search(r"^\| memory rule \|.*?\n\n", pages[METHODS_PAGE], re.S | re.M)
    return differences("a registered memory rule", rules, first_column(table.group(0) if table else ""))


def plan_names(pages):
    code = {"/" + name for name in re.findall(r'PlanRow\{\s*"(\w+)"', read("mpi_quant/plan/plans.cpp"))}
    return differences("a plan", code, {name for name in first_column(pages[METHODS_PAGE]) if name.startswith("/")})


@functools.cache
def names_of_tree():
    """Every MPIQ_ name in the sources, and every program."""
    found = set()
    for folder in ("CMakeLists.txt", "bench", "cmake", "mpi_quant", "python", "scripts", "slurm"):
        for path in [os.path.join(ROOT, folder), *glob.glob(os.path.join(ROOT, folder, "**"), recursive=True)]:
            if os.path.isfile(path) and not path.endswith((".md", ".pyc")):
                with open(path, encoding="utf-8", errors="replace") as file:
                    found |= set(re.findall(r"\bMPIQ_\w+|\bmpiq-[a-z-]+", file.read()))
    return found


def unknown_names(pages):
    known = names_of_tree()
    return [f"{page}: nothing in the tree is called {name}" for page, text in pages.items()
            for name in sorted(set(re.findall(r"\bMPIQ_\w*\w\b|\bmpiq-[a-z]+(?:-[a-z]+)*\b(?!\.sh)", without_walks(text))) - known)
            if not (name.endswith("_") and any(k.startswith(name) for k in known))]


# Figures

def figures(pages):
    """The errors and bytes of the methods page are in quality.csv; accuracies are in the generated tables."""
    with open(os.path.join(ROOT, "results/reference/quality.csv"), encoding="utf-8", newline="") as file:
        quality = {row["method"]: row for row in csv.DictReader(file) if row["data"] == "normal"}
    wrong = []
    for name, _, size, error, owed in re.findall(r"^\| `(\w+)` \|([^|]*)\| ([^|]*) \| ([\d.]+) % \| ([\d.]+) \|$", pages[METHODS_PAGE], re.M):
        number, _, options = size.partition(" with ")
        row = quality[name + (f"({options.strip('`')})" if options else "")]
        wrong += [f"{METHODS_PAGE}: {name}: {text} is not {row[column]}" for text, factor, column in
                  ((number, 1, "bytes_per_element"), (error, 100, "rel_err"), (owed, 1, "residual"))
                  if float(text) != round(factor * float(row[column]), len(text.partition(".")[2]))]
    block = re.compile("<!-- begin scripts/readme_tables .*?<!-- end scripts/readme_tables -->", re.S)
    tables = "".join(table for text in pages.values() for table in block.findall(text))
    for name, text in pages.items():
        wrong += [f"{name}: {accuracy} is in no generated table" for accuracy in re.findall(r"[+-]?[\d.]+ ± [\d.]+", text) if accuracy not in tables]
    return wrong


# Code

def compile_error(header, body):
    language, *marks = header.split()
    source = FRAGMENT % body if "fragment" in marks else body
    mode = ["-x", "c", "-std=c99"] if language == "c" else ["-x", "c++", "-std=c++20"]
    folders = ["-I", os.path.join(ROOT, "mpi_quant", "include"), "-I", ROOT]
    command = [*shlex.split(MPICC), *mode, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *folders, "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def bad_code(pages):
    """What is marked as a walk is a part of a file, which walks_test.py compiles."""
    found = ((where, compile_error(header, body)) for where, header, body in blocks(pages, "c", "cpp") if "walk" not in header.split())
    return [f"{where}: {error}" for where, error in found if error]


# Policies

def policies(pages):
    """(where, rules): blocks of policies, rules in commands, and rules in backquotes."""
    for where, _, body in blocks(pages, "policy"):
        yield from ((where, line) for line in body.splitlines() if line.strip())
    rule = re.compile(rf"`([^`\n|]*:\s*(?:mpi|{'|'.join(sorted(codecs()))})\b[^`\n|]*)`")
    for name, text in pages.items():
        yield from ((name, rules) for rules in re.findall(r"(?:--policy |MPIQ_POLICY=)'([^'\n]*)'", text))
        yield from ((name, rules) for rules in rule.findall(prose(text)))


def bad_policies(pages):
    wrong = []
    for where, rules in policies(pages):
        done = run(os.path.join(BIN, "mpiq-run"), "--check-policy", "--policy", rules)
        if done.returncode:
            wrong.append(f"{where}: '{rules}': {done.stderr.strip()}")
    return wrong


# Commands

def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=120, cwd=ROOT)


@functools.cache
def help_of(program, subcommand=""):
    """What --help prints, or None if the program was not built."""
    path = os.path.join(ROOT, program) if "/" in program else os.path.join(BIN, program)
    if not os.path.exists(path):
        return None
    done = run(path, *([subcommand] if subcommand else []), "--help")
    return done.stdout + done.stderr


@functools.cache
def programs():
    lists = read("bench/CMakeLists.txt") + read("mpi_quant/CMakeLists.txt")
    return set(re.findall(r"add_executable\((mpiq-[a-z-]+)", lists))


def commands(body):
    """The words of each command of a shell block: `a && b` is two."""
    for line in body.replace("\\\n", " ").splitlines():
        words = []
        for word in shlex.split(line, comments=True):
            if word in ("&&", "||", "|", ";"):
                yield words
                words = []
            else:
                words.append(word)
        yield words


def is_ours(word):
    return word.startswith(("scripts/", "slurm/")) and "." not in word or re.fullmatch(r"mpiq-[a-z-]+", word) is not None


def missing_option(program, subcommand, word):
    option = word.partition("=")[0]
    text = help_of(program, subcommand)
    return text is not None and re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text) is None


def wrong_words(words):
    """What is wrong with one command. Programs may start programs: a launcher, scripts/lab, mpiq-run."""
    words = words[:]
    while words and (re.match(r"\w+=", words[0]) or words[0] in ("env", "export")):
        words.pop(0)
    if not words:
        return
    if not (is_ours(words[0]) or words[0] in LAUNCHERS | OTHERS or words[0].startswith("./")):
        yield f"{words[0]} is not a known program"
    program, subcommand = None, ""
    for word in words:
        if is_ours(word):
            program, subcommand = word, ""
            path = os.path.join(ROOT, word)
            if word not in programs() and not (os.path.isfile(path) and os.access(path, os.X_OK)):
                yield f"there is no program {word}"
                return
        elif word.startswith("./") or word == "--":
            return
        elif word.startswith(TREE) and not re.search(r"[<*]", word) and not os.path.exists(os.path.join(ROOT, word)):
            yield f"there is no {word}"
        elif program == "mpiq-bench" and word in ("allreduce", "sparse"):
            subcommand = word
        elif program and re.match(r"--?[A-Za-z]", word) and missing_option(program, subcommand, word):
            yield f"{program} {subcommand} has no option {word}"


def bad_commands(pages):
    return [f"{where}: {problem}" for where, _, body in blocks(pages, "sh") for words in commands(body) for problem in wrong_words(words)]


def unknown_languages(pages):
    known = {"c", "cpp", "sh", "policy", "python", "text"}  # python: tests/preload/key_test.py and tests/python/docs_test.py run it
    return [f"{name}: a block of '{header}' is checked by nothing" for name, text in pages.items()
            for header, _ in FENCE.findall(text) if (header.split() or [""])[0] not in known and "walk" not in header.split()]
