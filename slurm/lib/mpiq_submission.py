"""Submits the jobs of a run, all or none, and waits for their end."""
import contextlib
import os
import shlex
import subprocess
import sys
import time
import uuid

import mpiq_batch as batch
import mpiq_folder as folders
import mpiq_plan as planning
from mpiq_request import SLURM

LONGEST_PAUSE_S = 30
REFUSALS = 10  # failed calls of squeue in a row, after which waiting ends: five minutes without an answer of the controller


def script_of(name):
    return os.path.join(SLURM, name + ".sbatch")


def send_all(request, todo, send):
    """Calls send(role, tasks, command), which returns the number of the job, in the order of the dependencies between jobs."""
    asked, folder, cells = request.asked(), request.folder, []
    script = script_of(request.options.experiment)
    for array in request.arrays:
        tasks = planning.task_list(i for i in todo if array.first <= i <= array.last)
        if tasks:
            # One array starts after the other if no two cells may share the network.
            after = cells[-1:] if request.options.at_once == 1 else []
            cells.append(send("cells", tasks, batch.cells_command(asked, array, tasks, script, folder, after)))
    merge = send("merge", "", batch.after_command(asked, "merge", script_of("merge"), folder, "afterok", cells))
    report = send("report", "", batch.after_command(asked, "report", script_of("report"), folder, "afterok", [merge]))
    everything = [*cells, merge, report]
    outcome = send("outcome", "", batch.after_command(asked, "outcome", script_of("outcome"), folder, "afterany", everything))
    return [*everything, outcome]


def show(request, todo):
    """What would be submitted: the commands, and each script once."""
    scripts = []

    def printed(role, _, command):
        print("\n" + shlex.join(command))
        scripts.append(command[-2])
        return f"<{role} {len(scripts)}>"

    send_all(request, todo, printed)
    print(f"\n# {request.folder.at('settings.sh')}\n{folders.settings_text(request.settings())}", end="")
    for script in dict.fromkeys(scripts):
        with open(script, encoding="utf-8") as file:
            print(f"\n# {script}\n{file.read()}", end="")


def refuse_running(folder):
    """Refuses a second job that would write to the same file."""
    if folder.exists() and (left := batch.queue(folder.jobs())):
        names = sorted({number for number, _ in left})
        raise folders.FolderError(f"--out: jobs {' '.join(names)} of {folder.path} have not ended: slurm/status, or scancel them")


def submit(request, todo):
    """Submits the jobs and returns their numbers. If one is refused, those before it are cancelled."""
    sent = []
    with contextlib.suppress(FileNotFoundError):
        os.remove(request.folder.at("outcome.txt"))  # of an earlier submission

    token = uuid.uuid4().hex[:8]

    def submitted(role, tasks, command):
        name = f"mpiq-{os.path.basename(command[-2]).removesuffix('.sbatch')}-{token}"
        number = batch.submit([*command[:2], f"--job-name={name}", *command[2:]])
        sent.append(number)
        request.folder.add_job(folders.Job(role, number, tasks, name))
        return number

    try:
        return send_all(request, todo, submitted)
    except (batch.BatchError, OSError, KeyboardInterrupt):
        batch.cancel(sent)
        raise


def wait_for_end(jobs):
    """Waits for the end of the last of these jobs. It asks seldom, because all users share the controller."""
    pause, refused = 0.5, 0
    while True:
        try:
            if not batch.queue(jobs):
                return
            refused = 0
        except batch.BatchError:
            refused += 1
            if refused == REFUSALS:
                raise
            pause = LONGEST_PAUSE_S
        time.sleep(pause)
        pause = min(1.2 * pause, LONGEST_PAUSE_S)


def wait(folder, numbers):
    """Waits until the last job has ended; returns 0 if all is well."""
    wait_for_end([job for job in folder.jobs() if job.number in numbers])
    return subprocess.run([sys.executable, os.path.join(SLURM, "status"), folder.path, "--final"], check=False).returncode
