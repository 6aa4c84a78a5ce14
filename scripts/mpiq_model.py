"""A model of the time of a call, fitted to the rows of a panel: what the latency, the wire and the codec take.

Dense: t = alpha + beta w with w = 2 (ranks - 1) / ranks * bytes, what each rank sends in the best allreduce. Compressed, for each
method: t = alpha' + beta w' + gamma bytes with w' the bytes that its busiest rank sent, and the beta of the dense one. All
coefficients are at least 0. Fitted to relative deviations, robustly: one bad point does not bend the rest.
"""
import itertools

import numpy as np

import mpiq_results
from mpiq_plots import good, summarise
from mpiq_selection import PANEL

MIN_SIZES = 3  # fewer say nothing about a line with two coefficients


def nonnegative(a, b):
    """Least squares with coefficients >= 0: the best of all choices of columns that yields no negative one."""
    best, best_cost = np.zeros(a.shape[1]), float((b**2).sum())
    for n in range(1, a.shape[1] + 1):
        for columns in itertools.combinations(range(a.shape[1]), n):
            found = np.linalg.lstsq(a[:, columns], b, rcond=None)[0]
            cost = float(((a[:, columns] @ found - b)**2).sum())
            if (found >= 0).all() and cost < best_cost:
                best, best_cost = np.zeros(a.shape[1]), cost
                best[list(columns)] = found
    return best


def robust(columns, rest, t):
    """Coefficients of rest = sum of coefficient x column: deviations relative to t, so that small calls count as much as large
    ones; those beyond the usual count less (Huber)."""
    a, target = np.column_stack(columns) / t[:, None], rest / t
    scales, weights = a.max(axis=0), np.ones(len(t))
    for _ in range(20):
        found = nonnegative(a / scales * weights[:, None], target * weights) / scales
        off = np.abs(a @ found - target)
        bound = max(1.5 * np.median(off), 1e-9)
        weights = np.sqrt(np.minimum(1, bound / np.maximum(off, 1e-300)))
    return found


def _sizes(points):
    """(bytes, bytes on the wire of the busiest rank, summary of the time) of the good rows of a method, by size."""
    for size in sorted(set(points["bytes"])):
        rows = points[points["bytes"] == size]
        wire = float(np.median(rows["wire_bytes_max"])) if "wire_bytes_max" in rows.dtype.names else -1.0
        yield int(size), wire, summarise(rows, "t_median_s", "t_ci_lo_s", "t_ci_hi_s")


def _dense(points):
    """The fastest dense method of each size, as (bytes, 0, summary)."""
    out = []
    for size in sorted(set(points["bytes"])):
        rows = points[points["bytes"] == size]
        method = mpiq_results.fastest_method(rows)
        out.append((int(size), 0.0, summarise(rows[rows["method"] == method], "t_median_s", "t_ci_lo_s", "t_ci_hi_s")))
    return out


def fit(points):
    """None, or {"dense": ..., method: ...} of one panel, each with alpha, beta, gamma and points: dicts with bytes, measured,
    low, high, model."""
    points = points[good(points)]
    is_dense, ranks = mpiq_results.dense(points), int(points["ranks"][0]) if len(points) else 1
    base = _dense(points[is_dense])
    if len(base) < MIN_SIZES or ranks < 2:
        return None
    share = 2.0 * (ranks - 1) / ranks
    sizes, t = np.array([b[0] for b in base], float), np.array([b[2]["value"] for b in base])
    alpha, beta = robust([np.ones(len(t)), share * sizes], t, t)
    out = {"dense": _model(base, alpha, beta, 0.0, share * sizes)}
    for method in sorted(set(points["method"][~is_dense])):
        mine = list(_sizes(points[points["method"] == method]))
        if len(mine) < MIN_SIZES or any(wire < 0 for _, wire, _ in mine):
            continue
        sizes, wire, t = (np.array(v, float) for v in zip(*((b, w, s["value"]) for b, w, s in mine)))
        own_alpha, gamma = robust([np.ones(len(t)), sizes], t - beta * wire, t)  # what the wire leaves is the codec's
        out[str(method)] = _model(mine, own_alpha, beta, gamma, wire)
    return out


def _model(measured, alpha, beta, gamma, wire):
    points = [{"bytes": size, "measured": s["value"], "low": s["low"], "high": s["high"],
               "model": float(alpha + beta * w + gamma * size)} for (size, _, s), w in zip(measured, wire)]
    return {"alpha": float(alpha), "beta": float(beta), "gamma": float(gamma), "points": points}


def panel(selection, key):
    """The fit of one panel of a selection."""
    points = selection.points
    return fit(points[np.logical_and.reduce([points[c] == v for c, v in zip(PANEL, key)])])


def speedups(fitted):
    """(method, bytes) -> what the model predicts, NaN where it says nothing."""
    if not fitted:
        return lambda method, size: float("nan")
    base = {p["bytes"]: p["model"] for p in fitted["dense"]["points"]}
    found = {(m, p["bytes"]): base[p["bytes"]] / p["model"] for m, f in fitted.items() if m != "dense"
             for p in f["points"] if p["bytes"] in base and p["model"] > 0}
    return lambda method, size: found.get((method, size), float("nan"))
