"""Where scripts write the text that they make."""
import contextlib
import os
import sys


@contextlib.contextmanager
def place(path):
    """Where to write: standard output, or a file that appears only when it is complete."""
    if path is None or path == "-":
        sys.stdout.reconfigure(encoding="utf-8", newline="")
        yield sys.stdout
        return
    temporary = f"{path}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8", newline="") as out:
            yield out
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
