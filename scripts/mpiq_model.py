"""A model of the time of a call, fitted to measured rows: the costs of latency, wire and codec.

    dense       t = alpha m + beta v S, of the algorithm of mpiq_schedules.DENSE for which that is least
    compressed  t = alpha' m + max(w, c) + f min(w, c)    with    w = beta (bytes sent),    c = gamma k S
                m = (1 - s) (rounds) + s (messages)

S        bytes of the vector
m        messages one after the other. Latencies of a round overlap; what the processors at both ends do does not
s        share of alpha' that the processors take
v S      bytes that the busiest rank sends; for compressed methods the bytes sent are measured
k        codec work relative to that at the smallest measured number of ranks, where it is 1
f        share of the shorter one of coding and sending that the other does not hide (mpiq_schedules.share_alone)
alpha    s
beta     s per byte sent, the same for all methods
gamma    s per byte of the vector

All coefficients are at least 0. Rounds, messages, what overlaps, and the rest of a plan are those of the library's model
(mpiq_schedules), but the coefficients come from whole calls instead of parts.

s is fitted where points have more than one message a round, as from three ranks on. Two ranks alone do not tell. Then s is unknown:
the model takes a half, and each draw of the bootstrap a value from 0 to 1, so that bands of other numbers of ranks hold both ends.

It is fitted to relative deviations (of logarithms, so that double and half count the same). The fit is robust: one bad point
hardly changes it. Where the wire takes so long that it hides the codec, gamma is at least what encoding and decoding took by
the phases of the file, if it has any.
"""
import dataclasses
import functools
import zlib

import numpy as np

import mpiq_results
from mpiq_plots import good, summarise
from mpiq_schedules import DENSE, PLANS, plan_of, share_alone
from mpiq_selection import PANEL

MIN_SIZES = 3  # with fewer sizes, a line with two coefficients means nothing
DRAWS = 200  # of the bootstrap
STEPS = 160  # values of gamma that are tried in one pass
TURNS = 24  # of a robust fit
SHARES = np.linspace(0, 1, 11)  # values of s that are tried


@dataclasses.dataclass
class Point:
    """A measured size: the seconds measured, and the seconds of the model."""

    bytes: int
    ranks: int
    measured: float
    low: float
    high: float
    plan: str = ""
    wire: float = 0.0  # bytes
    model: float = 0.0


@dataclasses.dataclass
class Fit:
    """The fit of one method, or of the fastest dense one. draws: the coefficients of each draw of the bootstrap, one column
    each; spread: the spread of ln(measured / model), corrected for few points; free: its degrees of freedom."""

    method: str
    alpha: float
    beta: float
    gamma: float
    points: list
    draws: tuple = ()
    spread: float = 0.0
    free: int = 1
    encode_share: float = 0.5  # of the codec's time per element: encoding / (encoding + decoding)
    share: float = 0.5  # s
    share_draws: np.ndarray = None  # of each draw
    weights: np.ndarray = None

    @functools.cached_property
    def start(self):
        return min(self.points, key=lambda p: p.ranks)

    def folds(self):
        """Whether its schedule is known, so that the fit can be evaluated at other numbers of ranks."""
        return self.method == "dense" or all(p.plan in PLANS for p in self.points)


def _codec(plan, ranks, share):
    """The codec work of a plan, in units of encoding and decoding one element. It is 1 if the schedule is not known."""
    if plan not in PLANS:
        return 1.0
    work = PLANS[plan](ranks)
    return share * work.encoded + (1 - share) * work.decoded


def conditions(fit, size, ranks, plan=None, wire=None, share=None):
    """(messages in turn, bytes sent, codec work, share without overlap) of a call. Without plan and bytes sent, it uses the plan that
    the library would choose, and the measured bytes, interpolated between sizes."""
    start = fit.start
    plan = plan or (plan_of(fit.method, size, ranks) if fit.folds() else start.plan)
    if plan not in PLANS:
        return 1.0, encoded_share(fit, size) * size if wire is None else wire, 1.0, 1.0
    work = PLANS[plan](ranks)
    codec = _codec(plan, ranks, fit.encode_share) / _codec(start.plan, start.ranks, fit.encode_share)
    sent = encoded_share(fit, size) * work.moved * size if wire is None else wire
    return work.turns(fit.share if share is None else share), sent, codec, share_alone(work, size)


def encoded_share(fit, size):
    """Encoded bytes, with headers, per byte of the vector. Between measured sizes it is interpolated over the logarithm of the
    size."""
    by_size = {}
    for p in fit.points:
        moved = PLANS[p.plan](p.ranks).moved if p.plan in PLANS else 1.0
        by_size.setdefault(p.bytes, []).append(p.wire / moved / p.bytes)
    sizes = sorted(by_size)
    return float(np.interp(np.log(size), np.log(sizes), [np.mean(by_size[s]) for s in sizes]))


def dense_seconds(alpha, beta, size, ranks):
    """Seconds of the best dense algorithm. Coefficients may be arrays."""
    return np.min([alpha * w.rounds + beta * w.moved * size for w in (make(ranks) for make in DENSE.values())], axis=0)


def call_seconds(alpha, beta, gamma, size, at):
    """Seconds of a compressed method. Coefficients may be arrays. at: the conditions."""
    messages, sent, codec, alone = at
    wire, work = beta * sent, gamma * codec * size
    return alpha * messages + np.maximum(wire, work) + alone * np.minimum(wire, work)


def seconds(fit, size, ranks, draws=False, slower=None):
    """Modelled seconds. draws: of each draw of the bootstrap; slower(beta): beta on another link."""
    alpha, beta, gamma = fit.draws if draws else (fit.alpha, fit.beta, fit.gamma)
    beta = slower(beta) if slower else beta
    if fit.method == "dense":
        return dense_seconds(alpha, beta, size, ranks)
    return call_seconds(alpha, beta, gamma, size, conditions(fit, size, ranks, share=fit.share_draws if draws else None))


class _Robust:
    """Weights of deviations (of logarithms), for each turn. Those of the first half of the turns minimise the absolute
    deviations. After that, deviations up to 1.5 times their median get weight 1, larger ones get less (Huber)."""

    def __init__(self, turns):
        self.left, self.bound = turns // 2, 1e-4

    def weights(self, off):
        size, self.left = np.maximum(np.abs(off), 1e-4), self.left - 1
        if self.left == 0:
            self.bound = np.maximum(1.5 * np.median(size, axis=-1, keepdims=True), 1e-4)
        return np.minimum(1, self.bound / size)


def _line(m, v, t, weights):
    """alpha and beta, at least 0, of t = alpha m + beta v by relative least squares. Each draw has a row of weights and of
    t."""
    a, b = m / t, v / t
    aa, bb, ab, a1, b1 = ((weights * x).sum(-1) for x in (a * a, b * b, a * b, a, b))
    both = np.maximum(aa * bb - ab**2, 1e-300)
    alpha, beta = (a1 * bb - b1 * ab) / both, (b1 * aa - a1 * ab) / both
    alpha, beta = np.where(beta < 0, a1 / aa, alpha), np.where(alpha < 0, b1 / bb, beta)
    return np.maximum(alpha, 0), np.maximum(beta, 0)


def _dense_fit(points, t, weights, robust):
    """alpha and beta (a value per row of t) and the robust weights. The fit also decides which algorithm each point uses."""
    works = [[make(p.ranks) for make in DENSE.values()] for p in points]  # with a message a round
    size = np.array([p.bytes for p in points], float)
    turns, alpha, beta, huber, lean = _Robust(TURNS), np.zeros(len(t)), np.full(len(t), 1.0), np.ones_like(t), np.ones_like(t)
    for _ in range(TURNS):
        # axes: point, algorithm, (rounds, moved)
        every = np.array([[(w.rounds, w.moved) for w in of_point] for of_point in works])
        cost = alpha[:, None, None] * every[..., 0] + beta[:, None, None] * every[..., 1] * size[:, None]
        best = cost.argmin(-1)
        m, v = (np.take_along_axis(np.broadcast_to(every[..., i], cost.shape), best[..., None], -1)[..., 0] for i in (0, 1))
        alpha, beta = _line(m, v * size, t, weights * huber * lean)
        model = np.maximum(alpha[:, None] * m + beta[:, None] * v * size, 1e-300)
        lean = np.clip(t / model, 0.1, 10)  # (model - t)^2 / (model t) instead of / t^2: about the square of the logarithm
        if robust:
            huber = turns.weights(np.log(model / t))
    return alpha, beta, huber


def _codec_fit(at, size, beta, least, t, weights, robust):
    """alpha, gamma and the robust weights, for each row of t with its beta. at: the conditions of the points, a row each. All
    values of gamma from `least` on are tried in three passes, each finer; for each the best alpha is used."""
    m, sent, codec, alone = at
    wire, huber, rows = (beta[:, None] * sent)[:, None, :], np.ones_like(t), np.arange(len(t))
    most = float((t / (codec * size)).max()) * 2
    lean, turns = np.ones_like(t), _Robust(TURNS // 2)
    for _ in range(TURNS // 2 if robust else 1):
        low, high = np.full(len(t), max(least, most * 1e-6)), np.full(len(t), max(most, least * 1.01))
        for part in range(3):
            gamma = low[:, None] * (high / low)[:, None] ** np.linspace(0, 1, STEPS)
            if part == 0 and least == 0:
                gamma[:, 0] = 0
            work = gamma[..., None] * codec * size
            known = np.maximum(wire, work) + alone * np.minimum(wire, work)
            a, w = m / t[:, None, :], (weights * huber * lean)[:, None, :]
            alpha = np.maximum((w * a * (1 - known / t[:, None, :])).sum(-1) / (w * a * a).sum(-1), 0)
            off = np.log(np.maximum(known + alpha[..., None] * m, 1e-300) / t[:, None, :])
            best = ((weights * huber)[:, None, :] * off**2).sum(-1).argmin(-1)
            step = (high / low) ** (1.5 / (STEPS - 1))
            alpha, gamma, off = alpha[rows, best], gamma[rows, best], off[rows, best]
            if (gamma == 0).all():
                break
            centre = np.maximum(gamma, max(least, most * 1e-6))
            low, high = np.maximum(centre / step, max(least, most * 1e-9)), centre * step
        if robust:
            lean, huber = np.clip(np.exp(-off), 0.1, 10), turns.weights(off)
    return alpha, gamma, huber


def _draws(name, points, spread, free):
    """(weights of the points, times of the points) for each draw. Points are weighted at random (Rubin 1981), and times are
    moved by the spread."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    t = np.array([p.measured for p in points])
    return rng.exponential(size=(DRAWS, len(t))), t * np.exp(spread * np.clip(rng.standard_t(free, (DRAWS, len(t))), -5, 5))


def _spread(points, coefficients):
    """The robust spread of ln(measured / model), at least as large as the intervals of the points; and its degrees of
    freedom."""
    off = np.abs([np.log(p.measured / p.model) for p in points])
    free = max(1, len(points) - coefficients)
    half = np.median([(p.high - p.low) / 4 / p.measured for p in points])
    usual = min(np.sqrt((off**2).sum() / free), 1.4826 * np.median(off) * len(points) / free + np.sqrt((off**2).mean()) / 2)
    return max(float(usual), float(half), 1e-4), free


def _points_of(rows, dense):
    """The good rows of a method as points, sorted by ranks and size. Of the dense ones, the fastest at each."""
    out = []
    for ranks, size in sorted({(int(r["ranks"]), int(r["bytes"])) for r in rows}):
        here = rows[(rows["bytes"] == size) & (rows["ranks"] == ranks)]
        if dense:
            here = here[here["method"] == mpiq_results.fastest_method(here)]
        s = summarise(here, "t_median_s", "t_ci_lo_s", "t_ci_hi_s")
        wire = float(np.median(here["wire_bytes_max"])) if "wire_bytes_max" in here.dtype.names else -1.0
        out.append(Point(size, ranks, s["value"], s["low"], s["high"], str(here["algorithm"][0]), wire))
    return out


def _busy(rows, exposed):
    """(encode, decode) in seconds per byte of the vector, from the row with phases where their sum is least; or None."""
    known = [(exposed[row["key"]], row["bytes"]) for row in rows if row["key"] in exposed]
    parts = np.array([(e["encode"] / size, e["decode"] / size) for e, size in known
                      if e.get("encode", 0) > 0 and e.get("decode", 0) > 0])
    return parts[parts.sum(axis=1).argmin()] if len(parts) else None


def _fit_dense(points):
    t = np.array([p.measured for p in points])
    alpha, beta, huber = _dense_fit(points, t[None], np.ones((1, len(t))), True)
    fit = Fit("dense", float(alpha[0]), float(beta[0]), 0.0, points, weights=huber[0])
    for p in points:
        p.model = float(dense_seconds(fit.alpha, fit.beta, p.bytes, p.ranks))
    fit.spread, fit.free = _spread(points, 2)
    weights, times = _draws("dense", points, fit.spread, fit.free)
    alpha, beta, _ = _dense_fit(points, times, weights * fit.weights, False)
    fit.draws = (alpha, beta, np.zeros(DRAWS))
    return fit


def _tells_share(points):
    """Whether the points have several numbers of messages a round, so that latencies can be told from overheads."""
    works = [PLANS[p.plan](p.ranks) for p in points if p.plan in PLANS]
    return len({round(w.messages / w.rounds, 3) for w in works}) > 1


def _fit_method(method, points, base, busy):
    fit = Fit(method, 0.0, base.beta, 0.0, points)
    start, least = fit.start, 0.0
    if busy is not None:
        least = float(busy.sum())
        work = PLANS[start.plan](start.ranks) if start.plan in PLANS else None
        each = busy / ([work.encoded, work.decoded] if work else [1, 1])
        fit.encode_share = float(each[0] / each.sum())
    sizes, t = np.array([p.bytes for p in points], float), np.array([p.measured for p in points])
    at = columns = None

    def fit_with(share):
        """Sets alpha, gamma, the weights and the points' model; returns the deviation."""
        nonlocal at, columns
        fit.share = share
        at = [conditions(fit, p.bytes, p.ranks, p.plan, p.wire) for p in points]
        columns = np.array(at, float).T
        alpha, gamma, huber = _codec_fit(columns, sizes, np.array([base.beta]), least, t[None], np.ones((1, len(t))), True)
        fit.alpha, fit.gamma, fit.weights = float(alpha[0]), float(gamma[0]), huber[0]
        for p, of_point in zip(points, at):
            p.model = float(call_seconds(fit.alpha, fit.beta, fit.gamma, p.bytes, of_point))
        return float(np.abs([np.log(p.measured / p.model) for p in points]).mean())

    told = _tells_share(points)
    fit_with(min(SHARES, key=fit_with) if told else 0.5)
    fit.spread, fit.free = _spread(points, 2 + told)
    weights, times = _draws(method, points, fit.spread, fit.free)
    fit.share_draws = np.full(DRAWS, fit.share) if told else np.random.default_rng(zlib.crc32(b"share")).uniform(size=DRAWS)
    beta = base.draws[1]
    alpha, gamma, _ = _codec_fit(columns, sizes, beta, least, times, weights * fit.weights, False)
    fit.draws = (alpha, beta, gamma)
    return fit


def fit(rows, exposed=None):
    """The fits {"dense": Fit, method: Fit} of rows of one link, type and input, or None. exposed: key -> seconds by phase."""
    rows = rows[good(rows) & (rows["ranks"] > 1) & (rows["bytes"] > 0) & (rows["t_median_s"] > 0)]
    is_dense = mpiq_results.dense(rows)
    base = _points_of(rows[is_dense], True)
    if len({p.bytes for p in base}) < MIN_SIZES:
        return None
    out = {"dense": _fit_dense(base)}
    for method in sorted(set(rows["method"][~is_dense])):
        mine = rows[rows["method"] == method]
        points = _points_of(mine, False)
        if len({p.bytes for p in points}) >= MIN_SIZES and all(p.wire >= 0 for p in points):
            out[str(method)] = _fit_method(str(method), points, out["dense"], _busy(mine[mine["ranks"] == points[0].ranks],
                                                                                  exposed or {}))
    return out


def of_rows(selection, rows):
    """The fit of rows of a selection, with the phases of its files."""
    names = next((r.phases for r in selection.results if r.phases), ())
    return fit(rows, {key: dict(zip(names, values)) for key, values in selection.matrix("exposed").items()})


def panel(selection, key):
    """The fit of one panel of a selection, made once."""
    if key not in selection.fits:
        points = selection.points
        mine = points[np.logical_and.reduce([points[c] == v for c, v in zip(PANEL, key)])]
        selection.fits[key] = of_rows(selection, mine)
    return selection.fits[key]
