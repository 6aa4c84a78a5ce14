"""What a fitted model says about calls that nobody made: other numbers of ranks, other links, with error bands.

A band holds 95 % of the draws of the bootstrap (mpiq_model). Each draw is multiplied by a residual as large as those of the
fit. So a band shows how badly the points fix the coefficients. It does not show whether the model still holds where nothing was
measured.
"""
import re
import zlib

import numpy as np

import mpiq_model
from mpiq_selection import natural

GROUP = ("link", "dtype", "data")  # the rows of one fit, over all numbers of ranks
ENDS = (0.025, 0.975)


def wire_limit(link):
    """The B/s that the name of a link states ('lab-10gbit'); None if it states none."""
    found = re.search(r"(\d+(?:\.\d+)?)\s*([gm])bit", link.lower())
    return float(found.group(1)) * {"g": 1e9, "m": 1e6}[found.group(2)] / 8 if found else None


def groups(selection):
    """(key, rows, fit) of each link, type and input that has a fit. Only ranks that are alone on their host are used, because
    several ranks of a host share its link."""
    points = selection.points[selection.points["nodes"] == selection.points["ranks"]]
    for key in sorted({tuple(row[c].item() for c in GROUP) for row in points}, key=lambda k: [natural(v) for v in k]):
        rows = points[np.logical_and.reduce([points[c] == v for c, v in zip(GROUP, key)])]
        if key not in selection.fits:
            selection.fits[key] = mpiq_model.of_rows(selection, rows)
        if selection.fits[key]:
            yield key, rows, selection.fits[key]


def drawn(fit, seconds):
    """Seconds of each draw (last axis), each with a residual."""
    rng = np.random.default_rng(zlib.crc32(b"residual" + fit.method.encode()))
    return seconds * np.exp(fit.spread * rng.standard_normal(mpiq_model.DRAWS))


def ends(values):
    low, high = np.quantile(values, ENDS, axis=-1)
    return float(low), float(high)


def call(fit, base, size, ranks):
    """The (value, low, high) of one call: of its seconds, and of its speed-up over the base."""
    times = [mpiq_model.seconds(f, size, ranks) for f in (fit, base)]
    draws = [drawn(f, mpiq_model.seconds(f, size, ranks, draws=True)) for f in (fit, base)]
    return (float(times[0]), *ends(draws[0])), (float(times[1] / times[0]), *ends(draws[1] / draws[0]))


def host_seconds(fits):
    """An upper bound of the seconds per byte sent that the host takes, not the link: the least excess of the measured links
    over their nominal rate. fits: (B/s of the link, beta) of each."""
    return max(0.0, min(beta - 1 / rate for rate, beta in fits))


def on_links(fit, sizes, ranks, nominal, host, rates):
    """Seconds at each rate (B/s) and size, for each draw. The host's part of the fitted beta stays; the rest grows as the link
    gets slower."""
    sizes, scale = np.asarray(sizes, float)[:, None], (nominal / np.asarray(rates))[:, None, None]
    at = np.array([mpiq_model.conditions(fit, s, ranks) for s in sizes[:, 0]], float).T[..., None] if fit.method != "dense" else None

    def of(alpha, beta, gamma):
        kept = np.minimum(host / fit.beta, 1) * beta if fit.beta > 0 else beta
        beta = kept + (beta - kept) * scale
        return (mpiq_model.dense_seconds(alpha, beta, sizes, ranks) if at is None
                else mpiq_model.call_seconds(alpha, beta, gamma, sizes, at))

    return of(fit.alpha, fit.beta, fit.gamma)[..., 0], drawn(fit, of(*fit.draws))
