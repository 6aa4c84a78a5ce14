"""What Slurm says of a partition, and what a run asks for that the partition cannot give. Slurm refuses some of that when a job is submitted;
the rest lets jobs wait for ever."""
import collections
import re
import typing

from mpi_quant.slurm import batch, planning
from mpi_quant.slurm.run_folder import Refused

NODES = "%D|%X|%Y|%Z|%m|%G|%T|%f"  # number, sockets, cores of a socket, threads of a core, MB, GRES, state, features; the last may have any sign
NO_USE = ("down", "drain", "fail", "maint", "unknown", "inval")  # beginnings of the states of nodes that start no job; other nodes come back
SIMPLE = re.compile(r"[\w.-]+(?:&[\w.-]+)*")  # a constraint that names features, all of which a node must have


class Nodes(typing.NamedTuple):
    """Equal nodes of a partition. cores: of each. gpus: of each."""

    number: int
    cores: int
    threads: int
    memory_mb: int
    gpus: int
    state: str
    features: tuple

    def are_of_use(self):
        return not self.state.startswith(NO_USE)


class Partition(typing.NamedTuple):
    """limits: name -> value, as `scontrol show partition` writes them. nodes: a Nodes for each kind and state."""

    name: str
    limits: dict
    nodes: list


class Wish(typing.NamedTuple):
    """What jobs ask for. what: their name in texts. cores, gpus: of each node."""

    what: str
    nodes: int
    cores: int
    gpus: int
    seconds: int
    constraint: str
    account: str
    qos: str


def read(names):
    """The partitions of a comma-separated list; "": the default one. Those that Slurm does not know, or says nothing of, are left out."""
    found = []
    for line in batch.ask_if_any("scontrol", "-o", "show", "partition").splitlines():
        limits = dict(re.findall(r"(\S+?)=(\S*)", line))
        name = limits.get("PartitionName", "")
        if name and (name in names.split(",") or not names and limits.get("Default") == "YES"):
            rows = batch.ask_if_any("sinfo", "--noheader", "--exact", "--partition=" + name, "--format=" + NODES).splitlines()
            found.append(Partition(name, limits, [nodes for row in rows if (nodes := nodes_of(row))]))
    return found


def nodes_of(row):
    """Nodes of a line of sinfo; None if it is none."""
    words = row.strip().split("|", 7)
    numbers = [re.match(r"\d+", word) for word in words[:5]]  # a number may have a sign such as + behind it
    if len(words) != 8 or not all(numbers):
        return None
    number, sockets, cores, threads, memory_mb = (int(found[0]) for found in numbers)
    gpus = sum(int(found) for found in re.findall(r"(?:^|,)gpu(?::[\w.-]+)?:(\d+)(?=[(,]|$)", words[5]))
    return Nodes(number, sockets * cores, threads, memory_mb, gpus, words[6].rstrip("*~#!%$@^-").lower(), tuple(words[7].replace("(null)", "").split(",")))


def words_of(partition):
    """The lines that say what Slurm said."""
    states = collections.Counter()
    kinds = collections.Counter()
    for nodes in partition.nodes:
        states[nodes.state] += nodes.number
        kinds[nodes[1:5] + nodes[6:]] += nodes.number
    parts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    yield f"Slurm says of partition {partition.name}: {partition.limits.get('State', '?').lower()}, nodes: {sum(states.values())}" + (f" ({parts})" if parts else "")
    for (cores, threads, memory_mb, gpus, features), count in sorted(kinds.items()):
        more = [f"{threads} threads a core"] * (threads > 1) + [f"{memory_mb} MB"] + [f"{gpus} GPUs"] * (gpus > 0) + [f"features {','.join(features)}"] * any(features)
        yield f"  nodes: {count}, each with {cores} cores, {', '.join(more)}"
    yield f"  a job: {' to '.join(dict.fromkeys((least(partition), most(partition))))} nodes, at most {partition.limits.get('MaxTime', '?')}"


def least(partition):
    return number if (number := partition.limits.get("MinNodes", "")).isdigit() and number != "0" else "1"


def most(partition):
    return partition.limits.get("MaxNodes", "UNLIMITED").lower()


def nodes_words(count):
    return f"{count} node{'s' if count != 1 else ''}"


def seconds_of(text):
    """A time limit of Slurm in seconds; None for none, and for what is none."""
    try:
        return planning.seconds(text)
    except Refused:
        return None


def warnings(partition, wish):
    """What the partition cannot give of what jobs ask for."""
    limits = partition.limits
    if (state := limits.get("State", "UP")) != "UP":
        yield f"it is {state.lower()}, and jobs in it wait"
    if most(partition).isdigit() and wish.nodes > int(most(partition)):
        yield f"{wish.what}: {nodes_words(wish.nodes)} asked for, and a job gets at most {most(partition)} (MaxNodes)"
    if wish.nodes < int(least(partition)):
        yield f"{wish.what}: {nodes_words(wish.nodes)} asked for, and a job gets at least {least(partition)} (MinNodes)"
    longest = seconds_of(limits.get("MaxTime", ""))
    if longest is not None and wish.seconds > longest:
        yield f"{wish.what}: {wish.seconds / 60:g} minutes asked for, and a job gets at most {limits['MaxTime']} (MaxTime)"
    for name, asked in (("Accounts", wish.account), ("Qos", wish.qos)):
        if asked and limits.get("Allow" + name, "ALL") not in ("ALL", "") and asked not in limits["Allow" + name].split(","):
            yield f"{wish.what}: {name.lower().rstrip('s')} {asked} asked for, and allowed are {limits['Allow' + name]} (Allow{name})"
    yield from lacks(partition, wish)


def lacks(partition, wish):
    """What the nodes do not have: one sentence, about the first wish that leaves too few of them."""
    left = partition.nodes
    features = wish.constraint.split("&") if SIMPLE.fullmatch(wish.constraint) else []
    tests = [("", lambda _: True), (f" of {wish.cores} cores", lambda nodes: nodes.cores >= wish.cores)]
    tests += [(f" with {wish.gpus} GPUs (GRES)", lambda nodes: nodes.gpus >= wish.gpus)] if wish.gpus else []
    tests += [(f" with the feature {name}", lambda nodes, name=name: name in nodes.features) for name in features]
    tests += [(" that start jobs", Nodes.are_of_use)]
    for what, fits in tests if left else []:
        left = [nodes for nodes in left if fits(nodes)]
        if (count := sum(nodes.number for nodes in left)) < wish.nodes:
            yield f"{wish.what}: nodes{what} asked for: {wish.nodes}; there are {count}"
            return
