"""The requests to Slurm, and its answers. All jobs of a run have one name, which no other job has: numbers come again in a new controller."""
import getpass
import os
import re
import shutil
import subprocess

from mpi_quant.slurm.run_folder import Failed

# What sbatch may take from the environment. The other variables SLURM_* describe the job that mpiq submit
# runs in, as at a terminal on a compute node: the new job would get its limits, and srun refuses some of them
# together.
KEPT = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT")


def ask(*words):
    """The output of a command of Slurm."""
    if not shutil.which(words[0]):
        raise Failed(f"no {words[0]} here: run this where jobs are submitted")
    env = {name: value for name, value in os.environ.items() if name in KEPT or not name.startswith("SLURM_")}
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60, env=env)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{words[0]} does not answer") from error
    if done.returncode != 0:
        raise Failed(f"{words[0]}: {done.stderr.strip() or 'exit code ' + str(done.returncode)}")
    return done.stdout


def ask_if_any(*words):
    """The output of a command of Slurm; "" if it fails."""
    try:
        return ask(*words)
    except Failed:
        return ""


def config():
    """name -> value, from `scontrol show config`."""
    return dict(re.findall(r"^(\S+) *= *(.*?) *$", ask("scontrol", "show", "config"), re.M))


def submit(words):
    """The number of the job that this sbatch command submits."""
    answer = ask(*words)  # where some sites print a banner before the number, or a remark behind it
    numbers = re.findall(r"^\s*([0-9]+)(?:;\S+)?\s*$", answer, re.M)
    if not numbers:
        raise Failed(f"sbatch answered without the number of a job, which is cancelled if it exists: '{answer.strip()[-200:]}'")
    return numbers[-1]


def cancel_command(name):
    return ["scancel", "--user=" + getpass.getuser(), "--name=" + name]


def queue(name):
    """Job, such as 101_0 -> [state, reason, time left, nodes], of the jobs of this name whose end Slurm has not seen."""
    rows = (line.split("|") for line in ask("squeue", "-h", "-r", "--name=" + name, "-o", "%i|%T|%r|%L|%N").splitlines())
    return {row[0]: row[1:] for row in rows if len(row) == 5}


def fate(job, name):
    """How a job ended that wrote nothing itself: by the controller, which knows it for some minutes, or by the accounting."""
    shown = dict(re.findall(r"(\S+?)=(\S*)", ask_if_any("scontrol", "-o", "show", "job", job)))
    if shown.get("JobName") == name:
        found = [shown.get("JobState", ""), shown.get("Reason", ""), shown.get("ExitCode", "")]
    else:
        rows = ask_if_any("sacct", "-n", "-X", "-P", "-o", "State,ExitCode", "-j", job, "--name=" + name).splitlines()
        found = rows[-1].split("|") if rows else ["ended without a word, and Slurm no longer knows of it"]
    return f"{', '.join(word for word in found if word != 'None')}: see its log"
