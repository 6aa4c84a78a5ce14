"""A line on the terminal that says what a command is doing, from its third second on. It changes in place and goes away at the end.

Where standard error is no terminal there is no line, so logs and pipes hold what a command prints and nothing else.
"""
import contextlib
import os
import shutil
import sys
import threading
import time

from mpi_quant.commands import command_line

AFTER_S, EVERY_S = 2.0, 1.0  # the line appears after so long, and is drawn anew so often
_ERASE = b"\r\033[K"  # and what is written next begins the line


def clock(seconds):
    """'90 s', '5 min'."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


class Line:
    """The line, while a `with` is open. A thread draws it, because commands are busy in one call for long.

    What a command prints meanwhile goes through `print`, which erases the line first. A copy of the process that os.fork makes has no such
    thread, and must not call `print`: its lock may be held there for ever. A terminal that takes nothing, such as one that is gone, is no
    error.
    """

    def __init__(self, text=""):
        self._lock, self._end, self._began = threading.Lock(), threading.Event(), time.monotonic()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True) if os.isatty(2) else None
        self.now(text)

    def __enter__(self):
        if self._thread:
            self._thread.start()
        return self

    def __exit__(self, *_):
        if self._thread:
            self._end.set()
            self._thread.join()
            self._write()

    def now(self, text):
        """What the line says from now on: a text, behind which comes the time since the start; or a function that returns the whole line."""
        self._text = text if callable(text) else lambda: f"{text}, {clock(time.monotonic() - self._began)}"

    def each(self, what, things, name=str):
        """Goes over a list: the line says 'WHAT 2 of 5: NAME' meanwhile."""
        things = list(things)
        for number, thing in enumerate(things, 1):
            self.now(f"{what} {number} of {len(things)}: {name(thing)}")
            yield thing

    def print(self, text, **words):
        """print, on a line of its own. Raises command_line.OutputError where standard output takes no more."""
        with self._lock:
            self._write()
            with command_line.output():
                print(text, flush=True, **words)

    def _write(self, text=""):
        """Puts a text in place of the line. Without a text the line is gone until the thread draws it again."""
        if self._thread:
            with contextlib.suppress(OSError):
                os.write(2, _ERASE + text.encode(sys.getfilesystemencoding(), "replace"))

    def _run(self):
        wait = AFTER_S
        while not self._end.wait(wait):
            wait = EVERY_S
            with self._lock:
                if not self._end.is_set():
                    self._write(self._text()[:shutil.get_terminal_size().columns - 1])
