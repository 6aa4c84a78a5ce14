"""The settings of a site: a shell file that jobs source. slurm/submit reads from it what it needs."""
import os
import re
import subprocess
import sys

LAUNCHERS = ("srun:pmi2", "srun:pmix", "srun:cray_shasta", "hydra", "openmpi")
TEXTS = {"partition": "", "account": "", "qos": "", "constraint": "", "modules": "", "launcher": "srun:pmi2", "link": "",
         "python": sys.executable or "/usr/bin/python3", "out": ".", "small_partition": "", "min_free_mb": "64", "max_nodes": ""}
LISTS = ("sbatch_options", "srun_options")
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")

# Prints the known settings as NAME=VALUE, each ended by a zero byte. Each element of a list is printed by itself.
READER = r"""
source "$1" >&2 || exit 1
for name in $2; do printf '%s=%s\0' "$name" "${!name-$'\x01'}"; done
for name in $3; do declare -n list=$name; for value in "${list[@]}"; do printf '%s+=%s\0' "$name" "$value"; done; done
"""


class SiteError(Exception):
    """Settings that cannot be used."""


def near_names(here):
    """The examples that come with the scripts."""
    folder = os.path.join(here, "sites")
    return sorted(name[:-3] for name in os.listdir(folder) if name.endswith(".sh"))


def find(word, here):
    """The path of a file, or of an example given by its name; None for no site."""
    if not word:
        return None
    if "/" not in word and word in near_names(here):
        return os.path.join(here, "sites", word + ".sh")
    if not os.path.isfile(word):
        raise SiteError(f"--site: no file '{word}', nor one of the examples: {', '.join(near_names(here))}")
    return os.path.abspath(word)


def read(path):
    """name -> text or list of words. What the file leaves out has its default."""
    site = {**TEXTS, **{name: [] for name in LISTS}}
    if path:
        # Uses a clean environment, because a variable of a login shell is not a setting of the site.
        env = {name: os.environ[name] for name in ("HOME", "USER", "PATH", "LANG", "SCRATCH", "WORK") if name in os.environ}
        done = subprocess.run(["bash", "-c", READER, "site", path, " ".join(TEXTS), " ".join(LISTS)], env=env, check=False,
                              stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode != 0:
            raise SiteError(f"{path}: {done.stderr.decode('utf-8', 'replace').strip() or 'does not load'}")
        for entry in done.stdout.decode("utf-8", "replace").split("\0")[:-1]:
            name, value = entry.split("=", 1)
            if name.endswith("+"):
                site[name[:-1]].append(value)
            elif value != "\x01":
                site[name] = value
    return checked(site, path)


def checked(site, path):
    for name, value in site.items():
        for word in value if isinstance(value, list) else [value]:
            if UNPRINTABLE.search(word):
                raise SiteError(f"{path}: {name} has a control character in it")
    if site["launcher"] not in LAUNCHERS:
        raise SiteError(f"{path}: launcher={site['launcher']}: one of {', '.join(LAUNCHERS)}")
    for name in ("min_free_mb", "max_nodes"):
        if not re.fullmatch(r"[0-9]{1,12}", site[name] or TEXTS[name] or "0"):
            raise SiteError(f"{path}: {name}={site[name]}: not a number")
    if site["link"] and not re.fullmatch(r"[A-Za-z0-9._-]{1,40}", site["link"]):
        raise SiteError(f"{path}: link={site['link']}: up to 40 letters, digits, dots, dashes")
    return site
