"""Sweep files and the launches that they ask for. mpiq sweep plans with it. Starts nothing."""
import dataclasses
import itertools
import os
import random
import re
import tomllib

SECTIONS = ("allreduce", "reduce_scatter", "allgather", "bcast", "reduce", "sparse")
LAB = re.compile(r"([1-9][0-9]*)x([1-9][0-9]*[kmg]?bit)")
SHARED_MEMORY = "shm"


class SweepError(Exception):
    """A sweep that cannot be run as it is written."""


@dataclasses.dataclass
class Sweep:
    """A sweep file. varied: option -> its values; each launch takes one of them."""

    path: str
    section: str
    options: dict
    launches: int = 1
    links: tuple = (SHARED_MEMORY,)
    ranks: int = 2
    ranks_per_node: int = 1
    bind: str = ""
    env: dict = dataclasses.field(default_factory=dict)
    varied: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Cell:
    """One launch: its name, where it runs, and the options of mpiq-bench in addition to the file."""

    name: str
    link: str
    ranks: int
    launch: int
    options: list

    @property
    def group(self):
        """The result file that it becomes a part of."""
        return group_of(self.link)

    @property
    def label(self):
        """The value of --link: the network, whatever the number of hosts."""
        return self.link if self.link == SHARED_MEMORY else "lab-" + rate_of(self.link)


def group_of(link):
    return link if link == SHARED_MEMORY else "lab-" + link


def hosts_of(link):
    return int(LAB.fullmatch(link).group(1))


def rate_of(link):
    return LAB.fullmatch(link).group(2)


def check_links(links, where):
    """The links as a tuple, each of them once."""
    for link in links:
        if not isinstance(link, str) or link != SHARED_MEMORY and not LAB.fullmatch(link):
            raise SweepError(f"{where}: '{link}' is neither {SHARED_MEMORY} nor HOSTSxRATE, such as 2x1gbit")
        if link != SHARED_MEMORY and hosts_of(link) > 200:
            raise SweepError(f"{where}: '{link}': a lab has at most 200 hosts")
    if not links or len(set(links)) != len(links):
        raise SweepError(f"{where}: " + ("a link comes twice" if links else "no link"))
    return tuple(links)


def positive(value, where):
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SweepError(f"{where}: {value!r} is not a positive number")
    return value


def check_varied(table, where):
    for key, values in table.items():
        if not isinstance(values, list) or not values or not all(type(v) in (str, int, float) for v in values):
            raise SweepError(f"{where}.{key}: not a list of values")
    return table


def read_launch(sweep, launch):
    """Reads the section [launch]."""
    where = f"{sweep.path}: [launch]"
    take = {
        "launches": lambda v: setattr(sweep, "launches", positive(v, f"{where} launches")),
        "ranks": lambda v: setattr(sweep, "ranks", positive(v, f"{where} ranks")),
        "ranks-per-node": lambda v: setattr(sweep, "ranks_per_node", positive(v, f"{where} ranks-per-node")),
        "labs": lambda v: setattr(sweep, "links", check_links(v if isinstance(v, list) else [v], f"{where} labs")),
        "bind": lambda v: setattr(sweep, "bind", str(v)),
        "env": lambda v: setattr(sweep, "env", {str(name): str(value) for name, value in v.items()}),
        "vary": lambda v: setattr(sweep, "varied", check_varied(v, f"{where[:-1]}.vary]")),
    }
    for key, value in launch.items():
        if key not in take:
            raise SweepError(f"{where} {key}: unknown; one of {', '.join(take)}")
        if key in ("env", "vary") and not isinstance(value, dict):
            raise SweepError(f"{where} {key}: not a table")
        take[key](value)


def read(path):
    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise SweepError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SweepError(f"{path}: {error}") from error
    sections = [name for name in content if name != "launch"]
    if len(sections) != 1 or sections[0] not in SECTIONS or not all(isinstance(v, dict) for v in content.values()):
        names = ", ".join(f"[{name}]" for name in SECTIONS)
        raise SweepError(f"{path}: has {sections or 'no section'}; needs one section of {names}, and at most [launch]")
    sweep = Sweep(path, sections[0], content[sections[0]])
    read_launch(sweep, content.get("launch", {}))
    return sweep


def cells(sweep):
    """The cells in the order in which a merged file has them."""
    out, names = [], set()
    combinations = list(itertools.product(*[[(key, value) for value in values] for key, values in sweep.varied.items()]))
    for link in sweep.links:
        ranks = sweep.ranks if link == SHARED_MEMORY else hosts_of(link) * sweep.ranks_per_node
        for combination in combinations:
            words = [re.sub(r"[^\w.]+", "_", str(value)) for _, value in combination]
            stem = unused("-".join([group_of(link), *words]), names)
            options = [f"--{key}={value}" for key, value in combination]
            out += [Cell(f"{stem}-{launch}", link, ranks, launch, options) for launch in range(sweep.launches)]
    return out


def unused(name, names):
    """The name, with a number added if two values differ only in characters that a file name cannot hold."""
    candidates = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(2)))
    names.add(found := next(c for c in candidates if c not in names))
    return found


def shuffled(planned, seed):
    """The launches in random order, so that drift over time does not look like a difference between them."""
    order = list(planned)
    random.Random(seed).shuffle(order)
    return order


def near(path):
    """The path as it is written into results: relative if it is below the current folder, which launches share."""
    path, here = os.path.realpath(path), os.path.realpath(os.curdir)
    return os.path.relpath(path, here) if path.startswith(here + os.sep) else path


def bench_words(sweep, cell, extra):
    """The words after the program's name, except where to write."""
    return ["--config", near(sweep.path), sweep.section, *cell.options, "--link", cell.label,
            "--launch-index", str(cell.launch), *extra]


def record(sweep, cell, extra):
    """What the file of a cell depends on. If any of it differs, the file belongs to another cell."""
    return {"section": sweep.section, "options": sweep.options, "words": [*cell.options, *extra], "link": cell.link,
            "ranks": cell.ranks, "bind": sweep.bind, "env": sweep.env}
