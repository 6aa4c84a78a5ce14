"""The contents of a result file: columns with their types and units, attributes, datasets. This is schema version 1, as
bench/rows.cpp and bench/report.cpp write it. tests/scripts/check_results_test.py compares the columns with bench/rows.hpp."""
import numpy as np

SEVERAL = "several"  # a text attribute of a merged file if it differs between runs
NO_ORDER = 0xFFFFFFFF  # in /samples/order: no such repetition
SIMULATED = "simulated"  # by mpiq-simulate: never in one file with measured rows
DONE = ("ok", "skipped", SIMULATED)  # a point with any other status is measured again
STATUSES = (*DONE, "invalid", "failed", "timeout")
PUBLICATION = "publication"
PUBLICATION_CUT = "publicat"  # in files whose column has eight bytes
GRADES = ("smoke", "normal", PUBLICATION, PUBLICATION_CUT)
SYNCS = ("barrier", "round", "none")
BUFFERS = ("rotate", "warm", "cold")
PUBLICATION_LAUNCHES = 10  # a publication is the median of this many
FILE_STATES = ("running", "complete", "partial")
MEMORIES = ("host", "cuda")
# Methods that are not this library's: MPI_Allreduce, which copies vectors on a GPU to the host and back; MPI that gets the
# addresses on the GPU; NCCL.
DENSE = ("mpi", "mpi-direct", "nccl")
# The algorithms by which MPI libraries reduce, as the library's model prices them (mpi_quant/plan/cost.hpp). Which one is the fastest
# depends on the ranks and the size.
DENSE_ALGORITHMS = ("recursive_doubling", "halving_doubling", "ring")
SIMULATED_FASTEST = "dense/fastest"  # in figures: the fastest dense method of a simulated point
BEST_DENSE = "best-dense"  # word of --baseline: the fastest dense method of each point


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


def _columns(text):
    """'a S8, b f8' -> name -> type."""
    return {name: np.dtype(kind) for name, kind in (word.split() for word in text.split(","))}


POINTS = _columns(
    "point_id i8, key S32, status S12, grade S12, collective S32, algorithm S32, compressor S32, comp_params S96, dtype S8, "
    "op S8, memory S8, place S8, layer S48, model S32, ranks i4, nodes i4, ranks_per_node i4, count i8, bytes i8, input_id i4, "
    "ratio_target f8, ratio_achieved f8, buffers S8, sync S8, mode S12, launch i4, block_order_seed u8, warmup i4, reps i4, "
    "batch i4, invalid_reps i4, stop_reason S12, t_first_s f8, t_median_s f8, t_ci_lo_s f8, t_ci_hi_s f8, t_min_s f8, "
    "t_mean_s f8, t_p95_s f8, t_p99_s f8, t_mad_s f8, outliers_mild i4, outliers_severe i4, lag1 f8, algbw_Bps f8, "
    "busbw_Bps f8, wirebw_Bps f8, wire_bytes_max i8, wire_bytes_sum i8, scratch_bytes i8, speedup f8, speedup_lo f8, "
    "speedup_hi f8, base_key S32, err_rel_l2 f8, err_max_abs f8, snr_db f8, cosine f8, n_wrong i8, replicas_equal i1, "
    "oversubscribed i1, throttled i1, start_utc S32, wall_s f8, note S96")
# Types of columns that were narrower in earlier files.
NARROWER = {"grade": np.dtype("S8")}
# Columns that were added to the schema later. Files from before may lack them.
LATER = _columns("t_p5_s f8, feedback i1, layers_alike i4, residual_bytes i8, method S128, link S48, matrix_side i8")
# The run of a merged file that a row belongs to: /runs/<run>. Only scripts/merge writes it.
RUN_COLUMN = {"run": np.dtype("i4")}

INPUTS = _columns("input_id i4, distribution S32, params S96, seed u8, rho f8, entropy_bits f8, zero_frac f8, exp_min i2, "
                  "exp_max i2, path S256")
EVENTS = _columns("utc S32, level S8, point_id i8, text S256")
ENV = _columns("name S64, value S256")
NODES = _columns("node_index i4, host S64, cpu_model S96, sockets i2, cores i4, smt i1, mem_B i8, kernel S64, governor S16, "
                 "thp S16, aslr i1, llc_B i8, load1 f8")
RANKS = _columns("rank i4, node_index i4, local_rank i4, pid i4, cpu_first i4, cpu_count i4, numa i2, gpu_uuid S48")
# Only if vectors are in the memory of GPUs.
GPUS = _columns("gpu_uuid S48, node_index i4, name S64, driver S32, cuda_version i4, capability S8, multiprocessors i4, "
                "clock_sm_kHz i4, clock_mem_kHz i4, mem_B i8, l2_B i8, ecc i1")
RUN_TABLES = {"env": ENV, "nodes": NODES, "ranks": RANKS, "gpus": GPUS}
OPTIONAL_TABLES = ("gpus",)

_NO_SUFFIX = {"count": "elements", "matrix_side": "elements", "n_wrong": "elements", "bytes": "B", "wire_bytes_max": "B",
              "wire_bytes_sum": "B", "scratch_bytes": "B", "residual_bytes": "B", "snr_db": "dB"}

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
    if column in _NO_SUFFIX:
        return _NO_SUFFIX[column]
    return "B/s" if column.endswith("_Bps") else "s" if column.endswith("_s") else ""


def unknown(kind):
    """The value for 'unknown': NaN, -1, ''. It is 0 for unsigned numbers, which have no such value."""
    return {"f": np.nan, "i": -1}.get(kind.kind, b"" if kind.kind == "S" else 0)


def empty_table(columns, rows):
    """A table of unknown values. columns: name -> type."""
    table = np.empty(rows, dtype=list(columns.items()))
    for name, kind in columns.items():
        table[name] = unknown(kind)
    return table


# The variables that tell rows apart, besides the launch and the input. Other differences were measured or follow from these.
VARIABLES = ("collective", "method", "dtype", "op", "memory", "place", "layer", "model", "ranks", "nodes", "ranks_per_node",
             "link", "count", "matrix_side", "feedback", "buffers", "sync", "mode")


def lists_of(comp_params):
    """The part of comp_params that describes the lists of a sparse reduction."""
    return comp_params[comp_params.rfind("density="):] if "density=" in comp_params else ""


def identities(points):
    """What tells each row apart, except for the launch. It is equal for rows that repeated launches measured again."""
    columns = [c for c in VARIABLES if c in points.dtype.names]
    return [(*(row[c].item() for c in columns), int(row["input_id"]), lists_of(row["comp_params"].decode("utf-8", "replace")))
            for row in points]
