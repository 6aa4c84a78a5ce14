"""Error against bytes of the codecs alone."""
from mpi_quant.figures import look as fig
from mpi_quant.figures.register import extent, plot

SHOWN = ("normal", "laplace", "mlp-relu", "cnn-batchnorm")  # or what there is


def codec_of(method):
    return method.split("(")[0]


def frontier(rows):
    """The rows that no other beats in both bytes and error, by bytes."""
    best, out = float("inf"), []
    for row in sorted(rows, key=lambda r: (r["bytes_per_element"], r["rel_err"])):
        if row["rel_err"] < best:
            best = row["rel_err"]
            out.append(row)
    return out


def applies(quality):
    return any(0 < row["rel_err"] < float("inf") for row in quality.rows)


@plot("codecs", applies, takes="quality", read="""Lower and further left is better. Each mark is a codec, with its preset parameters (large)
or with others (small). The grey line joins those that no other beats in both bytes and error: a user who knows how much error he
can bear chooses from it. Error feedback delivers later what a call leaves out, so that training can bear more error than the scale
suggests.""")
def codecs(quality):
    """The error of one encode against the bytes of an element."""
    lossy = [row for row in quality.rows if 0 < row["rel_err"] < float("inf")]
    there = [row["data"] for row in lossy]
    panels = [data for data in SHOWN if data in there] or sorted(set(there))
    looks = fig.looks({codec_of(row["method"]) for row in lossy if row["data"] in panels}, ["f32"])
    figure, axes = fig.panels(panels, "|v - decoded| / |v| of one encode", "bytes per element (uncompressed: 4)", height=3.6)
    drawn = []
    for axis, data in zip(axes, panels):
        rows = [row for row in lossy if row["data"] == data]
        line = frontier(rows)
        axis.plot([r["bytes_per_element"] for r in line], [r["rel_err"] for r in line], color="#bbbbbb", linewidth=1.2, zorder=1)
        for row in rows:
            colour, marker, _, label = looks[codec_of(row["method"])]
            preset = "(" not in row["method"]
            axis.plot(row["bytes_per_element"], row["rel_err"], color=colour, marker=marker, linestyle="none",
                      markersize=7 if preset else 3.5, label=label if preset else None, zorder=2)
            drawn.append({"data": data, "method": row["method"], "bytes_per_element": row["bytes_per_element"],
                          "rel_err": row["rel_err"], "on_frontier": int(row in line), "residual": row["residual"]})
    fig.log_x_axis(axes[0], 10, fig.PLAIN, *extent(drawn, "bytes_per_element"))
    fig.log_axis(axes[0], 10, fig.PLAIN, *extent(drawn, "rel_err"))
    calls = quality.rows[0]["calls"]
    fig.finish(figure, "Error and bytes of the codecs",
               ("Generated floats, as in mpiq-bench --data, and gradients that PyTorch recorded (mlp-..., cnn-...).",
                f"The CSV also has the residual after {calls:.0f} calls with feedback, in units of a vector."))
    return figure, drawn
