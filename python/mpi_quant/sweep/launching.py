"""One launch of mpiq-bench, here or in a lab: started, watched, ended. mpiq sweep does this for each cell."""
import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time

from mpi_quant import _places
from mpi_quant.commands import command_line
from mpi_quant.results import reader
from mpi_quant.sweep import sweep_files

LAB = _places.of("scripts/lab")
DONE, FAILED, USAGE, LEFT = 0, 1, 2, 75  # exit codes of mpiq-bench
NO_LAB = 3  # exit code of scripts/lab


def launcher():
    """The mpiexec of MPICH if there are several: its name on Debian, where `mpiexec` may belong to another library."""
    return shutil.which("mpiexec.mpich") or shutil.which("mpiexec")


def cores():
    return len(os.sched_getaffinity(0))


def command(sweep, cell, bench, words, mpiexec):
    """Binds each rank to a core if there are enough cores, because a rank that moves loses its caches. In a lab nothing is
    bound, because every host would take the same core of this machine."""
    if cell.link != sweep_files.SHARED_MEMORY:
        return [LAB, "with", str(sweep_files.hosts_of(cell.link)), sweep_files.rate_of(cell.link), str(cell.ranks), bench, *words]
    bind = sweep.bind or ("core" if cell.ranks <= cores() else "none")
    return [mpiexec, *(["-bind-to", bind] if bind != "none" else []), "-n", str(cell.ranks), bench, *words]


def is_complete(path):
    """Whether a result file says that no points are left, and every point in it is good."""
    try:
        with reader.hdf5(path) as file:
            if file.attrs["status"] not in (b"complete", "complete"):
                return False
            last = dict(zip(file["points"]["key"], file["points"]["status"]))
            return all(status in (b"ok", b"skipped") for status in last.values())
    except (OSError, KeyError, ValueError):  # not there, or not a result file; mpiq-bench will report what is wrong
        return False


class Launch:
    """A running launch. Leaving `with` in any way ends it. Its output goes to `show` line by line, and to a log."""

    def __init__(self, words, env, log, lab_prefix=""):
        self.words, self.log, self.lab_prefix = words, log, lab_prefix
        self.env = {**os.environ, **env, **({"LAB_PREFIX": lab_prefix} if lab_prefix else {})}

    def __enter__(self):
        self.file = open(self.log, "ab")  # pylint: disable=consider-using-with
        # A session of its own, so that an interrupt at the terminal reaches only this script, which ends the
        # launch in order.
        self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        env=self.env, start_new_session=True)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.started, self.rest = time.monotonic(), b""
        return self

    def __exit__(self, *_):
        self.end()
        self.file.close()
        self.process.stdout.close()

    def lines(self, wait_s):
        """What it has printed until now; waits at most this many seconds."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            selector.select(wait_s)
        data = self.process.stdout.read() or b""
        if not data and self.process.poll() is None:
            time.sleep(0.02)  # its output is closed, or nothing came
        self.file.write(data)
        self.file.flush()
        *whole, self.rest = (self.rest + data).split(b"\n")
        return [line.decode("utf-8", "replace") for line in whole]

    def end(self):
        """Ends the launch if it still runs, in order or by force, and removes its lab."""
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(15)
        with contextlib.suppress(ProcessLookupError):  # ranks may be left after their launcher has ended
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.lab_prefix:
            subprocess.run([LAB, "down"], env=self.env, check=False, capture_output=True)


class Patience:
    """When to give up a launch. MPI_Finalize sometimes hangs (MPICH 4.0 over UCX and TCP) although the file is complete. After
    each change the file is read once, when it is `idle_s` old, because reading it disturbs the measurement."""

    def __init__(self, path, idle_s, limit_s):
        self.path, self.idle_s, self.limit_s = path, idle_s, limit_s
        self.looked_at = None

    def reason_to_end(self, running_s):
        """`` to go on, otherwise the reason to give up."""
        if running_s > self.limit_s:
            return f"it has not ended after {self.limit_s:.0f} s"
        try:
            changed = os.stat(self.path).st_mtime_ns
        except OSError:
            return ""
        if changed == self.looked_at or time.time() - changed / 1e9 < self.idle_s or running_s < self.idle_s:
            return ""
        self.looked_at = changed
        return "its file is complete, but it does not end" if is_complete(self.path) else ""


def run(launch, patience, show):
    """The exit status of a launch. A launch that hangs is ended; then its file decides."""
    with launch:
        while launch.process.poll() is None:
            for line in launch.lines(1.0):
                show(line)
            why = patience.reason_to_end(time.monotonic() - launch.started)
            if why:
                show(f"{command_line.program()}: warning: {launch.log}: {why}: ended by force", file=sys.stderr)
                launch.end()
                return DONE if is_complete(patience.path) else FAILED
        for line in launch.lines(0):
            show(line)
        return launch.process.returncode
