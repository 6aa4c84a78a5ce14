"""The section of a report about events of the processor in calls (`mpiq-bench --counters`)."""
import os

import numpy as np

from mpi_quant.figures.look import order
from mpi_quant.report import html_parts as h
from mpi_quant.results import counted, reader


def _number(value):
    return f"{value:.3g}" if np.isfinite(value) else ""


def _cell(event, count, vector_bytes):
    """The count; of misses also the count for each line of the vector."""
    if event not in counted.MISSES or not np.isfinite(count):
        return _number(count)
    return f"{_number(count)} ({_number(count * counted.LINE_BYTES / vector_bytes)} a line)"


def _rows(found, shown, events):
    """shown: names in counted.CASE that stand before the size."""
    at = {name: i for i, name in enumerate(counted.CASE)}

    def place(what):
        case, phase = what
        method = case[at["method"]]
        return [str(case[at[name]]) for name in shown], case[at["bytes"]], order(method), method, counted.PHASES.index(phase)

    for case, phase in sorted(found, key=place):
        if phase == "empty":
            continue
        counts, size = found[case, phase], case[at["bytes"]]
        per_byte, per_cycle = counted.derived(counts, size)
        cells = [_cell(event, counts.get(event, np.nan), size) for event in events]
        yield *(str(case[at[name]]) for name in shown), reader.bytes_label(size), case[at["method"]], phase, *cells, _number(per_byte), _number(per_cycle)


def section(selection):
    """Yields a table for each file that has counts."""
    files = [result for result in selection.results if result.counters is not None and len(result.counters)]
    if not files:
        return
    yield h.heading(2, "Events of the processor")
    yield h.paragraph("In one call, the mean over ranks; of encode and decode in the codec steps of the call. Bytes and lines of 64 bytes are of the vector. "
                      "Waiting for a message is a loop of instructions, too: compare encode and decode. An empty cell is not counted.")
    for result in files:
        events = counted.events_of(result.counters)
        found = counted.by_case(result)
        shown = counted.varying({case for case, _ in found})
        rows = list(_rows(found, shown, events))
        head = (*shown, "size", "method", "phase", *events, "instructions a byte", "instructions a cycle")
        left = len(shown) + 3
        keep = [i for i in range(len(head)) if i < left + len(events) or any(row[i] for row in rows)]
        yield h.heading(3, f"Events in {os.path.basename(result.attrs['file'])}")
        yield h.table([head[i] for i in keep], [[row[i] for i in keep] for row in rows], left=left)
