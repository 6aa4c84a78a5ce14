"""What `mpiq-bench --counters` counted: events of the processor and the kernel in calls and in their codec steps (/counters)."""
import numpy as np

from mpi_quant.results.whole_files import known

PHASES = ("call", "encode", "decode", "empty")
INSTRUCTIONS, CYCLES = "PAPI_TOT_INS", "PAPI_TOT_CYC"
LINE_BYTES = 64
MISSES = ("PAPI_L1_DCM", "PAPI_L1_TCM", "PAPI_L2_DCM", "PAPI_L2_TCM", "PAPI_L3_DCM", "PAPI_L3_TCM")  # of lines
# What a row of /points is a measurement of, beside its launch.
CASE = ("collective", "ranks", "nodes", "dtype", "op", "place", "buffers", "form", "window", "arrival", "data", "input_rho", "feedback", "bytes", "method")


def events_of(table):
    """The names of the events, in the order in which they were asked for."""
    return list(dict.fromkeys(_text(name) for name in table["event"]))


def _text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def columns_of(table):
    """EVENT.PHASE for all that a file counted, as mpiq-bench --format csv has them."""
    return [f"{event}.{phase}" for event in events_of(table) for phase in PHASES]


def counts_of(table, point_id):
    """EVENT.PHASE -> the count in a call of this row of /points; None where it is not known."""
    rows = {f"{_text(row['event'])}.{_text(row['phase'])}": known(row["count"], "f") for row in table[table["point_id"] == point_id]}
    return {name: rows.get(name) for name in columns_of(table)}


def by_case(result):
    """(case, phase) -> {event: count in a call, the median over launches; NaN: not known} of a file that reader.read has read. A case has a value
    for each of CASE; None where the file does not say."""
    names = result.points.dtype.names
    found = {}
    for row in result.points:
        case = tuple(row[name].item() if name in names else None for name in CASE)
        for counted in result.counters[result.counters["point_id"] == row["point_id"]]:
            of = found.setdefault((case, str(counted["phase"])), {})
            of.setdefault(str(counted["event"]), []).append(float(counted["count"]))
    return {what: {event: float(np.median(counts)) for event, counts in of.items()} for what, of in found.items()}


def varying(cases):
    """The names in CASE that tell these cases apart, beside bytes and method."""
    return [name for i, name in enumerate(CASE) if name not in ("bytes", "method") and len({case[i] for case in cases}) > 1]


def derived(counts, vector_bytes):
    """What the counts of a call say: (instructions a byte of the vector, instructions a cycle); NaN where an event is missing."""
    instructions, cycles = (counts.get(name, np.nan) for name in (INSTRUCTIONS, CYCLES))
    return instructions / vector_bytes, instructions / cycles if cycles > 0 else np.nan
