"""What the tests of slurm/ without a Slurm share: made-up commands of Slurm, which note their calls."""
import os
import subprocess

from scripts_common import SLURM, InTemporaryFolder, call  # finds the package for the next one
from mpi_quant.slurm import run_folder

# Each notes its call; FAKE_<NAME> is what it exits with.
FAKE = """#!/bin/bash
echo "{name} $*" >>"{folder}/calls"
env >"{folder}/env.{name}"
{body}
exit "${{FAKE_{upper}:-0}}"
"""
BODIES = {
    # Of --test-only it refuses what Slurm refuses; as for jobs, it gives them numbers.
    "sbatch": 'case $* in *--test-only*--nodes=65*|*--test-only*nosuch*) echo "allocation failure: not available" >&2; exit 1 ;; *--test-only*) exit 0 ;; esac; '
              'n=$(grep "^sbatch" "{folder}/calls" | grep -vc -e --test-only); '
              '[ "$n" != "${{FAKE_REFUSE:-}}" ] || {{ echo no such partition >&2; exit 1; }}; '
              '${{FAKE_BANNER:+cat "$FAKE_BANNER"}}; [ -n "${{FAKE_SILENT:-}}" ] || echo $((100 + n))',
    "squeue": 'if [ -f "{folder}/queue" ]; then cat "{folder}/queue"; fi',
    "scontrol": 'case $* in "show config") echo "ClusterName = toy"; echo "MaxArraySize = 50" ;; '
                '*hostnames*) echo n1; echo n2 ;; "-o show partition") cat "{folder}/partitions" 2>/dev/null ;; esac',
    "sinfo": 'for word; do case $word in --partition=*) cat "{folder}/nodes.${{word#*=}}" 2>/dev/null ;; esac; done',
    "scancel": "", "sacct": "exit 1", "srun": "", "sleep": "exit 0",
    "mpiq-bench": 'case $* in *--version) echo "mpiq-bench 0 abc" ;; *onebt*) echo "unknown codec onebt" >&2; exit 2 ;; *--nosuch*) echo "--nosuch: what?" >&2; exit 2 ;; *) '
                  'echo "# 2 points of 3 methods; about 3M bytes on each rank; about 90.0 s if all goes well" ;; esac',
    "mpiq-run": 'case $* in *onebt*) echo "mpiq-run: unknown codec onebt" >&2; exit 2 ;; esac',
    "mpiq-train": "",
}


class WithFakes(InTemporaryFolder):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("bin"))
        for name, body in BODIES.items():
            text = FAKE.format(name=name, folder=self.folder, body=body.format(folder=self.folder),
                               upper=name.upper().replace("-", "_"))
            with open(self.path("bin", name), "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(self.path("bin", name), 0o755)
        self.run_folder = self.path("run")

    def call(self, *words, stdin=subprocess.DEVNULL, **env):
        return call(*words, stdin=stdin, cwd=self.folder, env={"PATH": self.path("bin") + ":" + os.environ["PATH"], "MPIQ_SITE": "", **env})

    def submit(self, *words, **env):
        return self.call(os.path.join(SLURM, "submit"), "--bin", self.path("bin"), "--out", self.run_folder, *words, **env)

    def calls(self, name):
        try:
            with open(self.path("calls"), encoding="utf-8") as file:
                return [line.rstrip("\n") for line in file if line.startswith(name + " ") and " --test-only " not in line]
        except FileNotFoundError:
            return []

    def environment_of(self, name):
        """The variables that the last call of a command got."""
        with open(self.path("env." + name), encoding="utf-8") as file:
            return dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)

    def file(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def run_of_test(self):
        return run_folder.Folder(self.run_folder)

    def job_name(self):
        return self.run_of_test().record()["job_name"]
