"""Files as scripts/frontier writes them, for the tests of what reads them."""
import csv
import os

import scripts_common  # noqa: F401  finds scripts/ for the next one
from mpi_quant.results import frontier


def write_csv(path, columns, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write(folder, methods, data=("a",), links=("shm",), launches=(1.0,)):
    """methods: name -> bytes, error and seconds; the seconds of a launch are multiplied by its factor."""
    rows = [{"method": method, "data": each, "elements": 4096, "row": 0, "ranks": 2, "calls": 50, "bytes": size, "error": error, "debt": 10 * error,
             "first_error": 0.5} for each in data for method, (size, error, _) in methods.items()]
    write_csv(os.path.join(folder, frontier.ERRORS), frontier.ERROR_COLUMNS, rows)
    rows = [{"method": method, "data": each, "link": link, "launch": number, "calls": 50, "t_median_s": factor * seconds, "t_lo_s": 0.9 * seconds,
             "t_hi_s": 1.1 * seconds, "oversubscribed": 0} for number, factor in enumerate(launches) for link in links for each in data
            for method, (_, _, seconds) in methods.items()]
    write_csv(os.path.join(folder, frontier.TIMES), frontier.TIME_COLUMNS, rows)
