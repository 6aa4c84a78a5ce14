"""How many ranks 1-bit SGD can use: the formula of Seide et al. (Interspeech 2014), from measured constants.

    T_calc(K) = (N/2) T_frm / K + C T_post / K + T_upd       a half batch on K ranks, whose exchange is hidden behind it
    T_comm    = T_comm_float / Z
    K-hat     = ((N/2) T_frm + C T_post) / (T_comm_float / Z - T_upd)       where both take the same time

With fewer than K-hat ranks, computing is the bottleneck. With more, the exchange is, and more ranks gain nothing.
"""
import dataclasses
import statistics

import mpiq_model
import mpiq_predict
import mpiq_training
from mpiq_results import seconds_label

SOURCE = ("F. Seide, H. Fu, J. Droppo, G. Li and D. Yu: 1-bit stochastic gradient descent and its application to data-parallel "
          "distributed training of speech DNNs, Interspeech 2014")
MOST = 1024  # the most ranks that are tried for the best number by the model


@dataclasses.dataclass
class Constants:
    """The constants of one training setting, in seconds. Frames are images here."""

    setting: tuple
    ranks: int
    parameters: int
    batch: int
    frame_s: float  # T_frm
    update_s: float  # T_upd
    post_s: float = 0.0  # C T_post

    def calc(self, ranks):
        """T_calc in seconds."""
        return (self.batch / 2 * self.frame_s + self.post_s) / ranks + self.update_s

    def best(self, exchange_s):
        """K-hat for T_comm = exchange_s; None if the exchange never becomes the bottleneck."""
        left = exchange_s - self.update_s
        return (self.batch / 2 * self.frame_s + self.post_s) / left if left > 0 else None


def constants(training):
    """The constants of each setting. They come from the runs with the fewest ranks of which each had a core, from dense runs if
    there are any."""
    found = {}
    for (setting, ranks), methods in sorted(training.groups.items()):
        if not mpiq_training.timed(methods) or setting in found:
            continue
        dense = methods.get((mpiq_training.DENSE, ""))
        last = [run[-1] for runs in ([dense] if dense else methods.values()) for run in runs.values()]
        found[setting] = Constants(
            setting, ranks, last[0]["parameters"], last[0]["batch"],
            statistics.median(row["compute_s"] / row["step"] / (row["batch"] / ranks) for row in last),
            statistics.median(row["update_s"] / row["step"] for row in last))
    return list(found.values())


def best_by_model(constants_, fit):
    """(ranks, seconds of a half batch): the fewest ranks of 2 to MOST that are within 5 % of the least time by the extrapolated
    model."""
    size = 4 * constants_.parameters
    times = {k: max(constants_.calc(k), mpiq_model.seconds(fit, size, k)) for k in range(2, MOST + 1)}
    best = next(k for k, time in times.items() if time <= 1.05 * min(times.values()))
    return best, float(times[best])


def rows(training, selection):
    """A dictionary for each setting, link, input and method: for dense reduction and for the methods of the training runs."""
    trained = {method for methods in training.groups.values() for method, _ in methods}
    for c in constants(training):
        size = 4 * c.parameters
        for key, _, fitted in mpiq_predict.groups(selection):
            floats = 2 * size * fitted["dense"].beta
            for method, fit in fitted.items():
                if method != "dense" and (method not in trained or not fit.folds()):
                    continue
                share = 1.0 if method == "dense" else mpiq_model.encoded_share(fit, size)
                if share <= 0:
                    continue  # no bytes were sent, or none were counted
                z = 1 / share
                yield {"constants": c, "link": key[0] or "not named", "data": key[2], "method": method, "float_s": floats, "z": z,
                       "best": c.best(floats / z), "model": best_by_model(c, fit)}


def _ranks_words(best):
    return "no limit: T_upd is longer" if best is None else f"{best:.2f}" if best < 10 else f"{best:.0f}"


HEAD = ("link, input", "method", "Z", "T_comm", "K-hat", "best by the model", "half batch then")


def table(found):
    """The rows below HEAD, as texts."""
    for row in found:
        ranks, time = row["model"]
        yield (f"{row['link']}, {row['data']}", "mpi (fp32)" if row["method"] == "dense" else row["method"], f"{row['z']:.3g}",
               seconds_label(row["float_s"] / row["z"]), _ranks_words(row["best"]), f"{ranks} ranks", seconds_label(time))


def symbols(c):
    """(symbol, its meaning and where it was measured) for one setting."""
    return [
        ("K-hat", "ranks with which computing a half batch and exchanging its gradient take the same time: ((N/2) T_frm + C T_post) / "
         "(T_comm_float/Z - T_upd). More ranks gain nothing; below 1: the exchange is the bottleneck with any number of ranks"),
        ("N", f"images of a batch, {c.batch}; N/2 because half of it is exchanged while the other half is computed (K-hat grows as N)"),
        ("T_frm", f"forward and backward pass of one image on one rank, {seconds_label(c.frame_s)}: compute_s / step / (batch / ranks) "
         f"of mpiq-train with {c.ranks} ranks"),
        ("C T_post", "passes over the model that are divided among ranks; 0: mpiq-train updates the whole model on every rank"),
        ("T_upd", f"update of the model on every rank, {seconds_label(c.update_s)}: update_s / step of mpiq-train"),
        ("T_comm", "T_comm_float / Z, the exchange of the gradient"),
        ("T_comm_float", f"the exchange as floats with many ranks, each of which sends nearly two vectors: 2 x 4 B x "
         f"{c.parameters} parameters x beta, beta fitted to the dense calls of mpiq-bench on that link"),
        ("Z", "32 for one bit in the paper; here how many times fewer bytes than floats a method sends, as mpiq-bench counted them for a vector of this size"),
        ("best by the model", f"fewest ranks from 2 to {MOST} within 5 % of the least max(T_calc(K), time of the call): the call as the fitted model has it, "
         "with latency and codec, which the formula leaves out. Modelled, not measured"),
    ]
