"""The section of a report about events of the processor in calls (`mpiq-bench --counters`)."""
import os

import numpy as np

from mpi_quant.figures.look import order
from mpi_quant.report import html_parts as h
from mpi_quant.results import counted, reader


def _number(value):
    return f"{value:.3g}" if np.isfinite(value) else ""


def _cell(event, count, vector_bytes):
    """The count; of misses also that of a line."""
    if event not in counted.MISSES or not np.isfinite(count):
        return _number(count)
    return f"{_number(count)} ({_number(count * counted.LINE_BYTES / vector_bytes)} a line)"


def _rows(result, events):
    found = counted.by_method(result)
    for size, method, phase in sorted(found, key=lambda what: (what[0], order(what[1]), what[1], counted.PHASES.index(what[2]))):
        if phase == "empty":
            continue
        counts = found[size, method, phase]
        per_byte, per_cycle = counted.derived(counts, size)
        cells = [_cell(event, counts.get(event, np.nan), size) for event in events]
        yield reader.bytes_label(size), method, phase, *cells, _number(per_byte), _number(per_cycle)


def section(selection):
    """Yields a table for each file that has counts."""
    files = [result for result in selection.results if result.counters is not None and len(result.counters)]
    if not files:
        return
    yield h.heading(2, "Events of the processor")
    yield h.paragraph("In one call, the mean over ranks; of encode and decode in the codec steps of the call. Bytes and lines of 64 bytes are those of the vector. "
                      "Waiting for a message is a loop of instructions, too: compare encode and decode. An empty cell is not counted.")
    for result in files:
        events = counted.events_of(result.counters)
        rows = list(_rows(result, events))
        head = ("size", "method", "phase", *events, "instructions a byte", "instructions a cycle")
        keep = [i for i in range(len(head)) if i < 3 + len(events) or any(row[i] for row in rows)]
        yield h.heading(3, f"Events in {os.path.basename(result.attrs['file'])}")
        yield h.table([head[i] for i in keep], [[row[i] for i in keep] for row in rows], left=3)
