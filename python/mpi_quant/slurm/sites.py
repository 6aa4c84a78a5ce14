"""The settings of a site: a shell file that jobs source. mpiq submit reads from it what it needs."""
import os
import re
import subprocess
import sys

from mpi_quant.slurm.run_folder import Refused

LAUNCHERS = ("srun:pmi2", "srun:pmix", "srun:cray_shasta", "hydra", "openmpi")
TEXTS = {"partition": "", "account": "", "qos": "", "constraint": "", "modules": "", "launcher": "srun:pmi2", "link": "",
         "python": sys.executable, "out": ".", "small_partition": ""}
LISTS = ("sbatch_options", "srun_options")
GONE = {"max_nodes": "sbatch --test-only says what a partition has", "min_free_mb": "a cell tries to write before it begins"}
# A variable of a login shell is not a setting of the site. These a site may use.
VARIABLES = ("HOME", "USER", "PATH", "LANG", "SCRATCH", "WORK")

# Prints the known settings as NAME=VALUE, each ended by a zero byte, and each element of a list as NAME+=VALUE.
READER = r"""
source "$1" >&2 || exit 1
for name in $2; do if [ -v "$name" ]; then printf '%s=%s\0' "$name" "${!name}"; fi; done
for name in $3; do declare -n list=$name; for value in "${list[@]}"; do printf '%s+=%s\0' "$name" "$value"; done; done
"""


def read(path):
    """name -> text or list of words. What the file leaves out has its default; path: '' for no file."""
    if path and not os.path.isfile(path):
        raise Refused(f"--site: no file '{path}': copy an example of slurm/sites/")
    site = {**TEXTS, **{name: [] for name in LISTS}}
    env = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    done = subprocess.run(["bash", "-c", READER, "site", path or os.devnull, " ".join([*TEXTS, *GONE]), " ".join(LISTS)], env=env,
                          check=False, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode != 0:
        raise Refused(f"{path}: {done.stderr.strip() or 'does not load'}")
    for entry in done.stdout.split("\0")[:-1]:
        name, value = entry.split("=", 1)
        if name in GONE:
            raise Refused(f"{path}: {name} is no setting any more ({GONE[name]}): take it out")
        if name.endswith("+"):
            site[name[:-1]].append(value)
        else:
            site[name] = value
    if site["launcher"] not in LAUNCHERS:
        raise Refused(f"{path}: launcher={site['launcher']}: one of {', '.join(LAUNCHERS)}")
    if not re.fullmatch(r"[A-Za-z0-9._-]{0,40}", site["link"]):
        raise Refused(f"{path}: link={site['link']}: up to 40 letters, digits, dots, dashes")
    return site
