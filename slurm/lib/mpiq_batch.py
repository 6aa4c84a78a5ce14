"""The requests to Slurm, and its answers."""
import contextlib
import dataclasses
import getpass
import os
import re
import shlex
import shutil
import subprocess

SMALL_MINUTES = {"merge": 15, "report": 15, "outcome": 5}
# The exit codes of slurm/lib/job.sh. They explain an end about which nothing else could be written.
EXITS = {2: "the program or the job was given what it does not take", 69: "a module or a program is missing",
         74: "could not write: a full disk, or no shared folder", 75: "points are left, and it was not requeued"}
FATES = {"TIMEOUT": "killed by its time limit: give more --time; what was measured is kept",
         "NODE_FAIL": "a node failed", "OUT_OF_MEMORY": "out of memory", "DEADLINE": "Slurm's deadline was over",
         "PREEMPTED": "preempted", "BOOT_FAIL": "a node did not boot", "CANCELLED": "cancelled"}


class BatchError(Exception):
    """Slurm is not there, or refused."""


# What sbatch may take from the environment. The other variables SLURM_* are those of the job that slurm/submit runs in, as at a
# terminal on a compute node: the new job would get its limits, and srun refuses some of them together.
KEPT = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT")


def environment():
    return {name: value for name, value in os.environ.items() if name in KEPT or not name.startswith("SLURM_")}


def ask(*words, timeout=60, env=None):
    """The output of a command of Slurm."""
    if not shutil.which(words[0]):
        raise BatchError(f"no {words[0]} here: run this where jobs are submitted")
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=timeout,
                              env=env)
    except subprocess.TimeoutExpired as error:
        raise BatchError(f"{words[0]} does not answer") from error
    if done.returncode != 0:
        raise BatchError(f"{shlex.join(words)}: {done.stderr.strip() or 'exit code ' + str(done.returncode)}")
    return done.stdout


def config():
    """name -> value, from `scontrol show config`."""
    pairs = (line.split("=", 1) for line in ask("scontrol", "show", "config").splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, value in pairs}


@dataclasses.dataclass(frozen=True)
class Asked:
    """What the command line and the site request from Slurm. It is the same for all jobs of a run."""

    options: tuple  # --partition=... and similar options of cells
    small_options: tuple  # options of the jobs that come after the cells
    cpus_per_task: int
    gpus: int
    time: str
    at_once: int


def cells_command(asked, array, tasks, script, folder, after=()):
    """The sbatch command for the cells of an array."""
    words = ["sbatch", "--parsable", f"--array={tasks}%{asked.at_once}", f"--nodes={array.nodes}",
             f"--ntasks-per-node={array.ranks_per_node}", f"--cpus-per-task={asked.cpus_per_task}", f"--time={asked.time}",
             f"--output={folder.at('log', '%x-%A_%a.log')}"]
    words += [f"--gpus-per-node={asked.gpus}"] if asked.gpus else []
    words += ["--dependency=afterany:" + ":".join(after)] if after else []
    return [*words, *asked.options, script, folder.path]


def after_command(asked, role, script, folder, condition, numbers):
    """The sbatch command for a job that comes after others. Without --kill-on-invalid-dep it would wait forever if one of them
    failed."""
    words = ["sbatch", "--parsable"]
    words += [f"--dependency={condition}:" + ":".join(numbers), "--kill-on-invalid-dep=yes"] if numbers else []
    return [*words, f"--output={folder.at('log', '%x-%j.log')}", f"--time={SMALL_MINUTES[role]}", *asked.small_options, script,
            folder.path]


def submit(words):
    """Submits the job, which has a name of its own, and returns its number."""
    answer = ask(*words, env=environment())
    # Some sites print a banner before it, or a remark behind it.
    numbers = [line.strip() for line in answer.splitlines() if re.fullmatch(r"\s*[0-9]+(;\S+)?\s*", line)]
    if not numbers:
        # The job may be queued all the same.
        name = next(word for word in words if word.startswith("--job-name="))
        with contextlib.suppress(BatchError):
            ask("scancel", "--user=" + getpass.getuser(), name.replace("--job-name", "--name"))
        raise BatchError(f"sbatch answered without the number of a job, which is cancelled if it exists: '{answer.strip()[-200:]}'")
    return numbers[-1].split(";")[0]


def cancel(numbers):
    if numbers:
        ask("scancel", *numbers)


@dataclasses.dataclass(frozen=True)
class Queued:
    """A job or task whose end Slurm has not seen."""

    number: str
    task: str
    state: str
    reason: str
    left: str
    nodes: str


def queue(jobs):
    """Those of these jobs that are queued or running, by (job, task). The task of a job without an array is ''."""
    out, names = {}, {job.number: job.name for job in jobs}
    text = ask("squeue", "-h", "-r", "-u", getpass.getuser(), "-o", "%F|%K|%T|%r|%L|%N|%j") if jobs else ""
    for line in text.splitlines():
        fields = line.split("|", 6)
        if len(fields) == 7 and fields[0] in names and names[fields[0]] in ("", fields[6]):
            job = Queued(fields[0], "" if fields[1] == "N/A" else fields[1], *fields[2:6])
            out[job.number, job.task] = job
    return out


def fate(job, task):
    """Describes how a job ended that wrote nothing itself, with Slurm's reason if there is one."""
    label = f"{job.number}_{task}" if task else job.number
    known = remembered(label, job.name)
    state, code = accounted(label, job.name) or known[:2]
    if not state:
        return "ended without a word, and Slurm no longer knows of it: see its log"
    status = int(code.split(":")[0]) if re.match(r"\d+:", code) else 0
    words = FATES.get(state) or EXITS.get(status, f"{state.lower()}, exit code {code}: see its log")
    return f"{words} (Slurm: {known[2]})" if known[2] not in ("", "None") else words


def accounted(label, name):
    """(state, exit code) from the accounting, if the site has one and it contains this job."""
    try:
        lines = ask("sacct", "-n", "-X", "-P", "-o", "State,ExitCode,JobName", "-j", label).splitlines()
    except BatchError:
        return None
    fields = lines[-1].split("|", 2) if lines else []
    return (fields[0].split()[0], fields[1]) if len(fields) == 3 and fields[0] and name in ("", fields[2]) else None


def remembered(label, name):
    """(state, exit code, reason) from the controller, which knows a job for some minutes after its end; otherwise empty
    texts."""
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
    """What a cluster tells about one of its partitions."""

    name: str
    default: bool
    nodes: int


def partitions():
    """The partitions that exist; none if Slurm does not say."""
    try:
        lines = [line.rsplit("|", 1) for line in ask("sinfo", "-h", "-a", "-o", "%P|%D").splitlines()]
    except BatchError:
        return []
    return [Partition(name.rstrip("*"), name.endswith("*"), int(nodes)) for name, nodes in lines if nodes.isdigit()]
