"""What scripts/codes measures: science codes without the preload library and under it, which calls they make, what becomes of their results, and
what of the bytes and the time is saved. It needs only Python itself."""
import csv
import dataclasses
import os
import re
import statistics

CALLS, RESULTS, BYTES, TIMES = "calls.csv", "results.csv", "bytes.csv", "times.csv"
COLUMNS = {
    CALLS: ("case", "ranks", "function", "calls", "bytes", "large_calls", "large_bytes"),
    RESULTS: ("case", "policy", "run", "quantity", "value"),
    BYTES: ("case", "policy", "operation", "calls", "compressed_calls", "compressed_bytes", "wire_bytes"),
    TIMES: ("case", "policy", "link", "run", "program_s", "compressed_calls", "calls_s"),
}
EXACT = ""  # the policy of runs without the library
RANKS = 2
# The functions that rules can reach: those that add, and those that move.
SUMS, MOVES = ("Allreduce", "Reduce", "Reduce_scatter", "Reduce_scatter_block"), ("Bcast", "Allgather", "Allgatherv")


class CodesError(Exception):
    """Output or files that cannot be used; the message names them and says why."""


@dataclasses.dataclass(frozen=True)
class Quantity:
    """A number that a program prints: the group of a pattern. Of several matches the last one counts."""

    name: str
    pattern: str


@dataclasses.dataclass(frozen=True)
class Case:
    """A program with its input.

    words: the command after the launcher's words, in a folder that holds copies of bench/codes. `source` is compiled to its first word."""

    name: str
    title: str
    package: str  # Debian's, or ""
    words: tuple
    quantities: tuple
    policies: tuple  # that are tried; the first one is the one to use
    source: str = ""
    library: str = ""  # that the source needs, by its name for pkg-config
    before: tuple = ()  # words of a command that makes a file that the input needs
    timed: bool = False  # in the lab, too


def rules(template, *limits):
    """A policy for each limit. {} in the template is a method."""
    return tuple(template.replace("{}", f"bound(rel={limit})") for limit in limits)


NUMBER = r"([-+]?\d[\d.]*(?:[EeDd][-+]?\d+)?)"


def column(number, of):
    """A number in the last row of LAMMPS's table, which has `of` columns after the step, all with a decimal point."""
    cell = r"[-+]?\d+\.\d+"
    return r"^ *\d+" + "".join(f" +({cell})" if k == number else f" +{cell}" for k in range(of)) + " *$"


LARGE = "64K-: {}"
SILICON = ("pw.x", "-in", "silicon.in")
ATOM = ("sh", "-c", "ld1.x < silicon-atom.in")  # makes the pseudopotential
ENERGY, ITERATIONS = rf"^! +total energy += +{NUMBER} Ry", r"convergence has been achieved in +(\d+) iterations"
CASES = (
    Case("lammps-melt", "LAMMPS: a crystal melts", "lammps", ("lmp", "-in", "melt.in"),
         (Quantity("total energy", column(1, 3)), Quantity("pressure", column(2, 3))), rules(LARGE, "1e-9")),
    Case("lammps-map", "LAMMPS: the same with a map of the density", "lammps", ("lmp", "-in", "melt.in", "-var", "map", "1"),
         (Quantity("total energy", column(1, 4)), Quantity("sum of squares of the map", column(3, 4))), ("64K-: zerorun", *rules(LARGE, "1e-9", "1e-6"))),
    Case("lammps-ewald", "LAMMPS: a salt with Ewald's sum", "lammps", ("lmp", "-in", "salt.in"),
         (Quantity("total energy", column(1, 4)), Quantity("long-range energy", column(3, 4)), Quantity("pressure", column(2, 4))),
         rules(LARGE, "1e-9", "1e-6"), timed=True),
    Case("qe-waves", "Quantum ESPRESSO: silicon, plane waves shared", "quantum-espresso", SILICON,
         (Quantity("total energy", ENERGY), Quantity("iterations", ITERATIONS)), rules(LARGE, "1e-9"), before=ATOM),
    Case("qe-pools", "Quantum ESPRESSO: silicon, k points shared", "quantum-espresso", ("pw.x", "-nk", "2", *SILICON[1:]),
         (Quantity("total energy", ENERGY), Quantity("total force", rf"Total force = +{NUMBER}"), Quantity("iterations", ITERATIONS)),
         rules(LARGE, "1e-9", "1e-6", "1e-3"), before=ATOM, timed=True),
    Case("cp2k", "CP2K: eight molecules of water", "cp2k", ("cp2k", "-i", "water.inp"),
         (Quantity("energy", rf"ENERGY\| Total FORCE_EVAL .* {NUMBER}$"), Quantity("iterations", r"SCF run converged in +(\d+) steps")),
         rules(LARGE, "1e-9")),  # with 1e-6 its iterations do not converge
    Case("petsc", "PETSc: heat, and its main patterns", "petsc-dev", ("./snapshots",),
         (Quantity("iterations", r"^iterations (\d+)$"), Quantity("residual", rf"^residual {NUMBER}$"),
          Quantity("greatest eigenvalue", rf"^eigenvalue {NUMBER}$"), Quantity("energy", rf"^energy {NUMBER}$")),
         rules("reduce_scatter 64K-: {}", "1e-9", "1e-6"), source="snapshots.c", library="petsc"),
    Case("ptychography", "Ptychography: `examples/ptychography.c`", "", ("./ptychography",), (Quantity("error of the image", rf"^error of the image: {NUMBER}$"),),
         rules(LARGE, "1e-4", "1e-3", "1e-6") + ("64K-: bf16",), source="ptychography.c", timed=True),
)


def quantities_of(case, output):
    """The numbers that a program has printed, as texts."""
    found = {}
    for quantity in case.quantities:
        matches = re.findall(quantity.pattern, output, re.MULTILINE)
        if not matches:
            raise CodesError(f"{case.name}: the output has no {quantity.name}")
        found[quantity.name] = re.sub("[Dd]", "e", matches[-1])
    return found


def calls_of(case, text, ranks):
    """Rows of CALLS, of what count_calls.c writes."""
    rows = []
    for line in text.splitlines():
        words = line.split()
        if len(words) != 5 or not all(word.isdigit() for word in words[1:]):
            raise CodesError(f"{case.name}: '{line}' is no line of count_calls.c")
        rows.append(dict(zip(COLUMNS[CALLS], (case.name, str(ranks), *words))))
    return rows


def bytes_of(case, policy, report):
    """Rows of BYTES, of a report (mpi_quant-report-1): a row for each operation that has compressed calls."""
    found = {}
    for each in report["classes"]:
        compressed = each["reasons"].get("compressed", 0)
        if compressed:
            numbers = found.setdefault(each["op"], [0, 0, 0, 0])
            for k, number in enumerate((each["calls"], compressed, each["compressed_bytes"], each["wire_bytes"])):
                numbers[k] += number
    return [dict(zip(COLUMNS[BYTES], (case.name, policy, operation, *map(str, numbers)))) for operation, numbers in sorted(found.items())]


def seconds_of(report):
    """Calls, and the seconds in them on the rank with the shortest waits. Only classes count that the policy compresses, or would
    compress in a run that explains."""
    calls, seconds = 0, 0.0
    for each in report["classes"]:
        if reached := sum(each["reasons"].get(reason, 0) for reason in ("compressed", "would_be_compressed")):
            calls += reached
            seconds += each["seconds"]["min"]
    return calls, seconds


def read_table(folder, name):
    path = os.path.join(folder, name)
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS[name]:
            raise CodesError(f"{path}: its columns are not {', '.join(COLUMNS[name])}")
        return list(reader)


def write_table(folder, name, rows):
    path = os.path.join(folder, name)
    with open(path + ".tmp", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS[name], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    os.replace(path + ".tmp", path)


def replace(folder, case, tables):
    """Writes these tables. What they say of other cases stays."""
    order = [each.name for each in CASES]
    for name, rows in tables.items():
        old = read_table(folder, name) if os.path.exists(os.path.join(folder, name)) else []
        others = [row for row in old if row["case"] != case.name]
        write_table(folder, name, sorted(others + rows, key=lambda row: order.index(row["case"])))


def share(part, whole):
    return f"{100 * part / whole:.3g} %" if whole else "0 %"


def large(rows, functions, all_bytes):
    """'22 Allreduce, 69 %': the calls of at least 64 KiB, and their share of all bytes."""
    own = [row for row in rows if row["function"] in functions and int(row["large_calls"])]
    words = ", ".join(f"{row['large_calls']} {row['function']}" for row in own)
    return f"{words}, {share(sum(int(row['large_bytes']) for row in own), all_bytes)}" if own else "none"


def call_rows(folder):
    """For the table of calls: a row for each case."""
    rows = []
    calls = read_table(folder, CALLS)
    for case in CASES:
        own = sorted((row for row in calls if row["case"] == case.name), key=lambda row: -int(row["bytes"]))
        if not own:
            continue
        all_calls, all_bytes = (sum(int(row[name]) for row in own) for name in ("calls", "bytes"))
        most = ", ".join(f"{row['function']} {share(int(row['bytes']), all_bytes)}" for row in own if int(row["bytes"]) >= 0.01 * all_bytes)
        sums = sum(int(row["calls"]) for row in own if row["function"] in SUMS)
        rows.append([case.title, str(all_calls), f"{all_bytes / 1e6:.3g}", most, str(sums), large(own, SUMS, all_bytes), large(own, MOVES, all_bytes)])
    return rows


CALL_HEAD = ("code", "MPI calls", "MB", "of these bytes, 1 % and more", "sums", "sums of 64 KiB and more", "broadcasts and gathers of 64 KiB and more")


def difference(value, reference):
    """Relative; "none" where the texts are equal."""
    if value == reference:
        return "none"
    return f"{abs(float(value) - float(reference)) / max(abs(float(reference)), 1e-300):.1e}"


def dense_bytes(row):
    """What all ranks send at least for the vectors of a row of BYTES if nothing is compressed."""
    once = int(row["compressed_bytes"]) * (RANKS - 1) / RANKS  # each part of a vector goes to the rank that adds it
    return once if row["operation"].startswith("reduce") else 2 * once  # and its sum comes back


def result_rows(folder):
    """For the table of results: a row for each case, policy and quantity. What is the same as in the row above is left out."""
    rows = []
    results, sizes = read_table(folder, RESULTS), read_table(folder, BYTES)
    for case in CASES:
        title = case.title
        values = {(row["policy"], row["run"], row["quantity"]): row["value"] for row in results if row["case"] == case.name}
        for policy in dict.fromkeys(key[0] for key in values if key[0] != EXACT):
            sent = [row for row in sizes if row["case"] == case.name and row["policy"] == policy]
            calls, wire = (sum(int(row[name]) for row in sent) for name in ("compressed_calls", "wire_bytes"))
            begin = [title, f"`{policy}`", str(calls), f"{sum(map(dense_bytes, sent)) / wire:.1f}" if wire else ""]
            for quantity in case.quantities:
                exact, again, found = (values[key] for key in ((EXACT, "0", quantity.name), (EXACT, "1", quantity.name), (policy, "0", quantity.name)))
                rows.append([*begin, quantity.name, exact if again == exact else f"{exact}, then {again}", found, difference(found, exact)])
                title, begin = "", ["", "", "", ""]
    return rows


RESULT_HEAD = ("code", "policy", "compressed calls", "times fewer bytes", "result", "without the library", "under the policy", "relative difference")


def time_rows(folder):
    """For the table of times: a row for each case and link."""
    rows = []
    times = read_table(folder, TIMES)
    for case, link in dict.fromkeys((row["case"], row["link"]) for row in times):
        own = [row for row in times if (row["case"], row["link"]) == (case, link)]
        policy = next(row["policy"] for row in own if row["policy"] != EXACT)
        medians = [[statistics.median(float(row[name]) for row in own if row["policy"] == which) for which in (EXACT, policy)] for name in ("calls_s", "program_s")]
        title = next(each.title for each in CASES if each.name == case)
        rows.append([title, link, f"`{policy}`", str(len(own) // 2), *(f"{exact:.3g} -> {under:.3g}" for exact, under in medians)])
    return rows


TIME_HEAD = ("code", "link", "policy", "runs of each", "seconds in these calls", "seconds of the program")

# The file after which a table is named -> its head, and the function of a folder that makes its rows.
TABLES = {CALLS: (CALL_HEAD, call_rows), RESULTS: (RESULT_HEAD, result_rows), TIMES: (TIME_HEAD, time_rows)}
