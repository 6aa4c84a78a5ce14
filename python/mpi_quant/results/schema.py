"""The contents of a result file: columns with their types and units, attributes, datasets. This is schema version 1, as
bench/report.cpp writes it. bench/columns.def lists the columns, also for the program."""
import re

import numpy as np

from mpi_quant import _places

SEVERAL = "several"  # a text attribute of a merged file if it differs between runs
NO_ORDER = 0xFFFFFFFF  # in /samples/order: no such repetition
SIMULATED = "simulated"  # by mpiq-simulate: never in one file with measured rows
DONE = ("ok", "skipped", SIMULATED)  # a point with any other status is measured again
STATUSES = (*DONE, "invalid", "failed", "timeout")
PUBLICATION = "publication"
PUBLICATION_CUT = "publicat"  # in files whose column has eight bytes
GRADES = ("smoke", "normal", PUBLICATION, PUBLICATION_CUT)
SYNCS = ("barrier", "round", "none")
FORMS = ("blocking", "nonblocking", "persistent")
BUFFERS = ("rotate", "warm", "cold")
PUBLICATION_LAUNCHES = 10  # a publication is the median of this many
FILE_STATES = ("running", "complete", "partial")
MEMORIES = ("host", "cuda")
# The collectives of rows. `link`: messages between pairs of ranks. Files from before there was a choice have
# rows of ALLREDUCE.
ALLREDUCE, MPI_ALLREDUCE = "allreduce", "MPI_Allreduce"
COLLECTIVES = (ALLREDUCE, "iallreduce", "reduce_scatter", "allgather", "bcast", "reduce", "sparse_allreduce", "link")
# Collectives in which a rank has a part of the vector, or one rank, the root, all of it: (MPI's function, the
# noun for texts). All others stand beside MPI_Allreduce.
PARTED = {"reduce_scatter": ("MPI_Reduce_scatter_block", "reduce-scatter"), "allgather": ("MPI_Allgather", "allgather"),
          "bcast": ("MPI_Bcast", "broadcast"), "reduce": ("MPI_Reduce", "reduction to a root")}
ROOTED = ("bcast", "reduce")
# Methods that are not this library's: MPI_Allreduce, which copies vectors on a GPU to the host and back; MPI
# that gets the addresses on the GPU; NCCL.
DENSE = ("mpi", "mpi-direct", "nccl")
# The algorithms by which MPI libraries reduce, as the library's model prices them (mpi_quant/plan/cost.hpp).
# Which one is the fastest depends on the ranks and the size.
DENSE_ALGORITHMS = ("recursive_doubling", "halving_doubling", "ring")
SIMULATED_FASTEST = "dense/fastest"  # in figures: the fastest dense method of a simulated point
BEST_DENSE = "best-dense"  # word of --baseline: the fastest dense method of each point


def function_of(collective):
    """The MPI function that dense rows of a collective are made by."""
    return PARTED.get(str(collective), (MPI_ALLREDUCE,))[0]


def noun_of(collective):
    """'allreduce', 'reduce-scatter', 'allgather', 'broadcast', 'reduction to a root'."""
    return PARTED.get(str(collective), ("", ALLREDUCE))[1]


def a_noun_of(collective):
    noun = noun_of(collective)
    return ("an " if noun[0] == "a" else "a ") + noun


def passes_of(collective):
    """How many times (ranks - 1) / ranks of the vector a rank sends on average in an uncompressed call."""
    return 1 if str(collective) in PARTED else 2


def busiest_share(collective, ranks):
    """The bytes that the busiest rank then sends or receives, divided by the bytes of the vector. ranks: 2 or more; may be an array. A root
    sends, or receives, the whole vector."""
    return 1 + 0 * ranks if str(collective) in ROOTED else passes_of(collective) * (ranks - 1) / ranks


def lone_algorithm(methods):
    """The algorithm that a point's dense methods name, if it is one where several were possible; None if not. mpi leaves the choice to MPI,
    or to the simulation, and so do mpi-direct and nccl. raw is this library's, in simulated rows: one plan, or a few, may be weak."""
    methods = {method.partition("#")[0] for method in methods}
    if methods & set(DENSE):
        return None
    plans = {method.partition("/")[2] for method in methods if method.startswith("raw")}
    named = sorted(methods)
    if len(plans) == len(methods):
        return None if not methods or set(DENSE_ALGORITHMS) <= plans else ", ".join(named)
    return named[0] if len(named) == 1 else None


ELEMENT_BYTES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2}

DEFINITIONS = _places.of("bench/columns.def")
_LINE = re.compile(r'^MQ_([A-Z_]+)\((\w+)(?:<(\d+)>)?, (\w+), "(.*?)", "(.*)"\)\n')
_KIND = {"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "u64": "u8", "f64": "f8"}


def definitions():
    """bench/columns.def as part -> name -> (type, unit, meaning). Parts: POINT, LATER, INPUT, COUNTER, EVENT, ENV, NODE, NODE_LATER, RANK, RANK_LATER, GPU;
    and GIVEN, the columns of INPUT that texts have beside each row."""
    parts = {}
    with open(DEFINITIONS, encoding="utf-8") as file:
        for line in filter(lambda line: line.startswith("MQ_"), file):
            match = _LINE.fullmatch(line)
            if not match:
                raise ValueError(f"{DEFINITIONS}: no column can be read from: {line.strip()}")
            part, kind, size, name, unit_, meaning = match.groups()
            for one in ("INPUT", "GIVEN") if part == "GIVEN" else (part,):
                parts.setdefault(one, {})[name] = (np.dtype(f"S{size}" if size else _KIND[kind]), unit_, meaning)
    return parts


_DEFINITIONS = definitions()


def _types(part):
    return {name: kind for name, (kind, _, _) in _DEFINITIONS[part].items()}


POINTS = _types("POINT")
# Types of columns that were narrower in earlier files.
NARROWER = {"grade": np.dtype("S8")}
# Columns that were added to the schema later. Files from before may lack them.
LATER = _types("LATER")
# The run of a merged file that a row belongs to: /runs/<run>. Only mpiq merge writes it.
RUN_COLUMN = {"run": np.dtype("i4")}

INPUTS, COUNTERS, EVENTS, ENV = (_types(part) for part in ("INPUT", "COUNTER", "EVENT", "ENV"))
# Columns of the tables of a run that were added later.
LATER_OF = {"nodes": _types("NODE_LATER"), "ranks": _types("RANK_LATER")}
NODES, RANKS = ({**_types(part), **LATER_OF[name]} for part, name in (("NODE", "nodes"), ("RANK", "ranks")))
GIVEN = tuple(_types("GIVEN"))  # beside each row of a text, as input_NAME
GPUS = _types("GPU")  # only if vectors are in the memory of GPUs
RUN_TABLES = {"env": ENV, "nodes": NODES, "ranks": RANKS, "gpus": GPUS}
OPTIONAL_TABLES = ("gpus",)

ROOT_ATTRIBUTES = {"schema_name": "S", "schema_version": "i", "uuid": "S", "created_utc": "S", "updated_utc": "S",
                   "harness_version": "S", "git_commit": "S", "git_dirty": "u", "status": "S"}
RUN_ATTRIBUTES = {"command_line": "S", "config_json": "S", "seed": "u", "sync_method": "S", "clock": "S",
                  "clock_resolution_s": "f", "launch_uuid": "S", "mpi_library": "S", "hdf5_version": "S"}

# name -> type, value for a missing repetition, unit
SAMPLES = {"t_max_s": ("f8", np.nan, "s"), "t_span_s": ("f8", np.nan, "s"), "skew_in_s": ("f8", np.nan, "s"),
           "order": ("u4", NO_ORDER, ""), "valid": ("u1", 0, "")}
# These have one more axis, the ranks. Only with --keep-ranks.
RANK_SAMPLES = {"t_rank_s": ("f8", np.nan, "s")}
PHASES = {"exposed_s": ("f8", np.nan, "s"), "busy_s": ("f8", np.nan, "s")}


def unit(column):
    """The unit of a column of /points; '' if it has none."""
    return {**_DEFINITIONS["POINT"], **_DEFINITIONS["LATER"]}.get(column, (None, "", ""))[1]


def points_table():
    """The columns of /points as a table in Markdown."""
    rows = [("run", "", "of a merged file only: group of `/runs`")]
    rows += [(name, unit_, meaning) for part in ("POINT", "LATER") for name, (_, unit_, meaning) in _DEFINITIONS[part].items()]
    lines = ["| `{}` |{} | {} |".format(name, unit_ and " " + unit_, meaning.replace("|", "\\|")) for name, unit_, meaning in rows]
    return "\n".join(["| column | unit | meaning |", "|---|---|---|", *lines]) + "\n"


def unknown(kind):
    """The value for 'unknown': NaN, -1, ''. It is 0 for unsigned numbers, which have no such value."""
    return {"f": np.nan, "i": -1}.get(kind.kind, b"" if kind.kind == "S" else 0)


def empty_table(columns, rows):
    """A table of unknown values, for rows of allreduce. columns: name -> type."""
    table = np.empty(rows, dtype=list(columns.items()))
    for name, kind in columns.items():
        table[name] = ALLREDUCE.encode() if name == "collective" and kind.kind == "S" else unknown(kind)
    return table


# The variables that tell rows apart, besides the launch and the input. Other differences were measured or
# follow from these.
VARIABLES = ("collective", "method", "dtype", "op", "memory", "place", "layer", "model", "ranks", "nodes", "ranks_per_node",
             "link", "count", "matrix_side", "compute_percent", "test_interval_us", "feedback", "buffers", "sync", "mode", "arrival", "form", "window")


def lists_of(comp_params):
    """The part of comp_params that describes the lists of a sparse reduction."""
    return comp_params[comp_params.rfind("density="):] if "density=" in comp_params else ""


def identities(points):
    """What tells each row apart, except for the launch. It is equal for rows that repeated launches measured again."""
    columns = [c for c in VARIABLES if c in points.dtype.names]
    return [(*(row[c].item() for c in columns), int(row["input_id"]), lists_of(row["comp_params"].decode("utf-8", "replace")))
            for row in points]
