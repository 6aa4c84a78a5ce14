"""Reads what mpiq-quality writes (QUALITY.csv): the error and the bytes of codecs, without any network. It needs only Python
itself."""
import csv
import dataclasses
import math

NEEDED = ("method", "data", "elements", "bytes_per_element", "rel_err", "calls", "residual")
NUMBERS = NEEDED[2:]


class QualityError(Exception):
    """A file that cannot be used; the message names it and says why."""


@dataclasses.dataclass
class Quality:
    """rows: dicts with numbers as numbers. An error is infinite where a codec overflows."""

    rows: list
    files: list


def is_quality(path):
    """Whether a CSV file is of mpiq-quality, by its header."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return "bytes_per_element" in next(csv.reader(file), ())
    except (OSError, UnicodeDecodeError, csv.Error):
        return False


def _row(path, line, row):
    out = dict(row)
    for name in NUMBERS:
        try:
            out[name] = float(row[name])
            if not out[name] >= 0 or (math.isinf(out[name]) and name not in ("rel_err", "residual")):
                raise ValueError
        except (TypeError, ValueError) as error:
            raise QualityError(f"{path}: line {line}: {name} is '{row[name]}'") from error
    return out


def read(paths):
    """The Quality of files. Raises QualityError."""
    rows = []
    for path in paths:
        with open(path, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in NEEDED if name not in (reader.fieldnames or ())]
            if missing:
                raise QualityError(f"{path}: not a file of mpiq-quality: lacks the columns {', '.join(missing)}")
            rows += [_row(path, reader.line_num, row) for row in reader]
    if not rows:
        raise QualityError(f"{', '.join(paths)}: no rows: nothing was measured")
    return Quality(rows, list(paths))
