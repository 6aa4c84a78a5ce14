"""What is asked of Slurm, and its answers."""
import dataclasses
import getpass
import re
import shlex
import shutil
import subprocess

SMALL_MINUTES = {"merge": 15, "report": 15, "outcome": 5}
# Of slurm/lib/job.sh: exits that say why when nothing else could be written.
EXITS = {2: "the program or the job was given what it does not take", 69: "a module or a program is missing",
         74: "could not write: a full disk, or no shared folder", 75: "points are left, and it was not requeued"}
FATES = {"TIMEOUT": "killed by its time limit: give more --time; what was measured is kept",
         "NODE_FAIL": "a node failed", "OUT_OF_MEMORY": "out of memory", "DEADLINE": "Slurm's deadline was over",
         "PREEMPTED": "preempted", "BOOT_FAIL": "a node did not boot", "CANCELLED": "cancelled"}


class BatchError(Exception):
    """Slurm is not there, or said no."""


def ask(*words, timeout=60):
    """What a command of Slurm prints."""
    if not shutil.which(words[0]):
        raise BatchError(f"no {words[0]} here: run this where jobs are submitted")
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise BatchError(f"{words[0]} does not answer") from error
    if done.returncode != 0:
        raise BatchError(f"{shlex.join(words)}: {done.stderr.strip() or 'exit code ' + str(done.returncode)}")
    return done.stdout


def config():
    """name -> value of `scontrol show config`."""
    pairs = (line.split("=", 1) for line in ask("scontrol", "show", "config").splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, value in pairs}


@dataclasses.dataclass(frozen=True)
class Asked:
    """What the command line and the site ask of Slurm, the same for all jobs of a run."""

    options: tuple  # --partition=... and the like, of cells
    small_options: tuple  # of what comes after them
    cpus_per_task: int
    gpus: int
    time: str
    at_once: int


def cells_command(asked, array, tasks, script, folder, after=()):
    """sbatch for the cells of an array."""
    words = ["sbatch", "--parsable", f"--array={tasks}%{asked.at_once}", f"--nodes={array.nodes}",
             f"--ntasks-per-node={array.ranks_per_node}", f"--cpus-per-task={asked.cpus_per_task}", f"--time={asked.time}",
             f"--output={folder.at('log', '%x-%A_%a.log')}"]
    words += [f"--gpus-per-node={asked.gpus}"] if asked.gpus else []
    words += ["--dependency=afterany:" + ":".join(after)] if after else []
    return [*words, *asked.options, script, folder.path]


def after_command(asked, role, script, folder, condition, numbers):
    """sbatch for what comes after other jobs. Without --kill-on-invalid-dep it would wait for ever for one that has failed."""
    words = ["sbatch", "--parsable"]
    words += [f"--dependency={condition}:" + ":".join(numbers), "--kill-on-invalid-dep=yes"] if numbers else []
    return [*words, f"--output={folder.at('log', '%x-%j.log')}", f"--time={SMALL_MINUTES[role]}", *asked.small_options, script,
            folder.path]


def submit(words):
    """The number of the job."""
    number = ask(*words).strip().split(";")[0]
    if not re.fullmatch(r"[0-9]+", number):
        raise BatchError(f"sbatch answered '{number}'")
    return number


def cancel(numbers):
    if numbers:
        ask("scancel", *numbers)


@dataclasses.dataclass(frozen=True)
class Queued:
    """A job or task that Slurm has not seen the end of."""

    number: str
    task: str
    state: str
    reason: str
    left: str
    nodes: str


def queue(jobs):
    """Of these jobs, those still queued or running, by (job, task); the task of a job that is no array is ''."""
    out, names = {}, {job.number: job.name for job in jobs}
    text = ask("squeue", "-h", "-r", "-u", getpass.getuser(), "-o", "%F|%K|%T|%r|%L|%N|%j") if jobs else ""
    for line in text.splitlines():
        fields = line.split("|", 6)
        if len(fields) == 7 and fields[0] in names and names[fields[0]] in ("", fields[6]):
            job = Queued(fields[0], "" if fields[1] == "N/A" else fields[1], *fields[2:6])
            out[job.number, job.task] = job
    return out


def fate(job, task):
    """In words, how a job ended that said nothing itself, with Slurm's reason where it has one."""
    label = f"{job.number}_{task}" if task else job.number
    known = remembered(label, job.name)
    state, code = accounted(label, job.name) or known[:2]
    if not state:
        return "ended without a word, and Slurm no longer knows of it: see its log"
    status = int(code.split(":")[0]) if re.match(r"\d+:", code) else 0
    words = FATES.get(state) or EXITS.get(status, f"{state.lower()}, exit code {code}: see its log")
    return f"{words} (Slurm: {known[2]})" if known[2] not in ("", "None") else words


def accounted(label, name):
    """(state, exit code) of the accounting, where a site has one and this job is in it."""
    try:
        lines = ask("sacct", "-n", "-X", "-P", "-o", "State,ExitCode,JobName", "-j", label).splitlines()
    except BatchError:
        return None
    fields = lines[-1].split("|", 2) if lines else []
    return (fields[0].split()[0], fields[1]) if len(fields) == 3 and fields[0] and name in ("", fields[2]) else None


def remembered(label, name):
    """(state, exit code, reason) of the controller, which knows a job for some minutes after its end; else empty texts."""
    try:
        text = ask("scontrol", "-o", "show", "job", label)
    except BatchError:
        return "", "", ""
    found = dict(word.split("=", 1) for word in text.split() if "=" in word)
    if "JobState" not in found or name not in ("", found.get("JobName")):
        return "", "", ""
    return found["JobState"], found.get("ExitCode", ""), found.get("Reason", "")


@dataclasses.dataclass(frozen=True)
class Partition:
    """What a cluster says of one of its partitions."""

    name: str
    default: bool
    nodes: int


def partitions():
    """Those that there are; none where Slurm does not say."""
    try:
        lines = [line.rsplit("|", 1) for line in ask("sinfo", "-h", "-a", "-o", "%P|%D").splitlines()]
    except BatchError:
        return []
    return [Partition(name.rstrip("*"), name.endswith("*"), int(nodes)) for name, nodes in lines if nodes.isdigit()]
