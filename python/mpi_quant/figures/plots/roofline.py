"""Codecs alone against the memory's roof."""
import numpy as np
from matplotlib import ticker

from mpi_quant.figures import look as fig
from mpi_quant.figures.register import plot
from mpi_quant.figures.selection import PlotError
from mpi_quant.results.reader import bytes_label

WORKS = {"encode+feedback": True, "decode+add": False}  # what an allreduce does -> whether its marker is filled
ISAS = ("scalar", "neon", "sve", "avx2", "avx512")
ELEMENT = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2}


def kernel_rows(kernels):
    """The rows of the CSV, for floats: the best instruction set of each codec, work and size."""
    best = {}
    for row in kernels.rows:
        name = row["bytes"], row["codec"], row["work"]
        if row["work"] in WORKS and row["dtype"] == "f32" and ISAS.index(row["isa"]) >= ISAS.index(best.get(name, row)["isa"]):
            best[name] = row
    for (size, codec, work), row in best.items():
        elements = size / ELEMENT[row["dtype"]]
        rate = elements / row["seconds"]
        yield {"bytes": size, "method": codec, "work": work, "dtype": row["dtype"], "isa": row["isa"], "seconds": row["seconds"],
               "elements_per_s": rate, "elements_per_B": rate / row["moved_Bps"], "moved_Bps": row["moved_Bps"],
               "triad_Bps": row["triad_Bps"]}


def applies(kernels):
    return next(kernel_rows(kernels), None) is not None


def roof_of(kernels, rows, size):
    """The highest rate of bytes at a size, in B/s, and what reached it. Nothing is above it."""
    found = [(kernels.triad(size), "triad")] + [(row["moved_Bps"], f"{row['method']}, {row['work']}") for row in rows if row["bytes"] == size]
    return max(found, key=lambda pair: pair[0])


def numbers_of(rows):
    """Method -> its number in the figure, the fastest first. There are more codecs than colours that a reader can tell apart."""
    best = {}
    for row in rows:
        best[row["method"]] = max(best.get(row["method"], 0), row["elements_per_s"])
    return {method: n for n, method in enumerate(sorted(best, key=lambda method: (-best[method], method)), 1)}


PANEL = np.array([220.0, 200.0])  # about the size of a panel, in points of 1/72 inch
BESIDE = [8 * np.array([np.cos(angle), np.sin(angle)]) for angle in np.arange(12) * np.pi / 6]  # where a number may stand, seen from its marker


def offset_from(place, taken):
    """The offset of BESIDE that is the farthest from all places that are taken."""
    return max(BESIDE, key=lambda offset: min(np.hypot(*(place + offset - other)) for other in taken))


def write_numbers(axis, marks):
    """Writes numbers beside marks (x, y, number)."""
    low, high = np.log([axis.get_xlim(), axis.get_ylim()]).T
    places = [(np.log([x, y]) - low) / (high - low) * PANEL for x, y, _ in marks]
    taken = list(places)
    for (x, y, number), place in zip(marks, places):
        offset = offset_from(place, taken)
        taken.append(place + offset)
        axis.annotate(str(number), (x, y), xytext=offset, textcoords="offset points", ha="center", va="center", fontsize="x-small")


@plot("roofline", applies, takes="kernels", read="""Right is less memory traffic for an element, up is faster. The black line is
the highest rate at which anything here moved bytes from or to memory. On the line the memory is the limit, and below it the arithmetic. The dashed line is
the triad of one core, which writes a third of its bytes. A codec that writes less may be faster. Numbers refer to the legend, the fastest codec
first.""")
def roofline(kernels):
    """The elements per second of the codecs alone against the memory's roof (kernels.json)."""
    rows = list(kernel_rows(kernels))
    if not rows:
        raise PlotError(f"{', '.join(kernels.files)}: no rows of {' or '.join(WORKS)} on floats")
    sizes = sorted({row["bytes"] for row in rows}, reverse=True)
    figure, axes = fig.panels([f"{bytes_label(s)} of floats, one core" for s in sizes], "elements per second",
                              "elements for each byte moved")
    looks, numbers = fig.looks((row["method"] for row in rows), ["f32"]), numbers_of(rows)
    looks = {method: (*look[:3], f"{numbers[method]}: {look[3]}") for method, look in looks.items()}
    across = np.array([min(r["elements_per_B"] for r in rows) / 1.3, max(r["elements_per_B"] for r in rows) * 1.3])
    for axis, size in zip(axes, sizes):
        triad, (roof, by) = kernels.triad(size), roof_of(kernels, rows, size)
        axis.plot(across, across * roof, color="black", linewidth=1, label=f"roof: {by}, {roof / 1e9:.3g} GB/s")
        if roof > triad:
            axis.plot(across, across * triad, color="#555555", linewidth=1, linestyle=(0, (5, 3)), label=f"triad, {triad / 1e9:.3g} GB/s")
        for work, filled in WORKS.items():
            axis.plot([], [], color="#555555", marker="o", linestyle="none", markerfacecolor="#555555" if filled else "white", label=work)
        for row in rows:
            if row["bytes"] == size:
                point = {"value": row["elements_per_s"], "low": 0, "high": 0, "drawn": "line" if WORKS[row["work"]] else "hollow"}
                fig.mark(axis, row["elements_per_B"], point, looks[row["method"]])
    fig.log_x_axis(axes[0], 2, ticker.FuncFormatter(lambda x, _: f"1/{1 / x:.3g}" if x < 1 else f"{x:g}"), *across)
    ends = [r["elements_per_s"] for r in rows]
    fig.log_axis(axes[0], 10, ticker.EngFormatter(), min(ends), max(ends))
    for axis, size in zip(axes, sizes):
        write_numbers(axis, [(row["elements_per_B"], row["elements_per_s"], numbers[row["method"]]) for row in rows if row["bytes"] == size])
    used = sorted({row["isa"] for row in rows}, key=ISAS.index)
    fig.finish(figure, kernels.title or "Codecs alone and the memory's roof", [
        f"An element counts as one operation. Each codec has its best instruction set ({', '.join(used)}). mpiq-kernels measured one "
        f"core of host {'; '.join(kernels.hosts)}."])
    return figure, rows
