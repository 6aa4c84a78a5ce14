"""One rank of scripts/mnist_torch, which starts it and says what its words mean. Rank 0 writes the rows as JSON, one on a line."""
import argparse
import hashlib
import itertools
import json
import math
import os
import socket
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
from methods import EXACT_STEPS, Method, Summed
from mpi4py import MPI
from networks import BATCH, Given, Images, MOMENTUM, made
from torch import nn

WORLD = MPI.COMM_WORLD
QUIET_S = 0.2  # before MPI_Finalize: see bench/program.c
RECORDED_FROM, REPLAYED = 98, 50  # the first recorded step, and how many steps of a replay count


def parse_arguments(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=("accuracy", "errors", "times"))
    for name in ("data", "out", "link", "networks", "methods", "seeds"):
        parser.add_argument("--" + name, default="")
    for name in ("steps", "every", "rounds", "block", "launch"):
        parser.add_argument("--" + name, type=int, default=0)
    options = parser.parse_args(words)
    options.networks, options.methods = options.networks.split(","), options.methods.split(";")
    options.seeds = [int(seed) for seed in options.seeds.split(",")] if options.seeds else []
    return options


def start_torch():
    """Gloo between the processes, on the network of the lab if they are in one."""
    net = os.environ.get("LAB_NET")
    os.environ.update(RANK=str(WORLD.rank), WORLD_SIZE=str(WORLD.size), GLOO_SOCKET_IFNAME="eth0" if net else "lo", MASTER_ADDR=f"{net}.1" if net else "127.0.0.1")
    with socket.socket() as free:
        free.bind(("", 0))
        os.environ["MASTER_PORT"] = str(WORLD.bcast(free.getsockname()[1]))
    dist.init_process_group("gloo")
    torch.set_num_threads(1)


def loss_of(model, x, y):
    return nn.functional.cross_entropy(model(x), y)


def accuracy(images, model, is_last):
    """Of all test images after the last step. Before, a fifth of them is enough."""
    good, all_of_them = WORLD.allreduce(np.array(images.recognised(model, 1 if is_last else 5)))
    return good / all_of_them


def assert_replicas_are_equal(model, name):
    if len(set(WORLD.allgather(hashlib.sha256(flat(p.detach() for p in model.parameters()).tobytes()).digest()))) != 1:
        raise RuntimeError(f"{name}: the ranks have different parameters")


def trained(options, images, network, name, seed):
    """A training: a row for each test, with the columns of mpi_quant.results.training_runs. No times: other programs may run beside it."""
    model, words = made(network, seed)
    method, optimizer = Method(model, name), torch.optim.SGD(model.parameters(), **words)
    with Summed() as summed:
        for number, (x, y) in enumerate(itertools.islice(images.batches(seed), options.steps), 1):
            optimizer.zero_grad()
            loss = loss_of(method, x, y)
            loss.backward()
            optimizer.step()
            if number % options.every == 0 or number == options.steps:
                yield {"method": name, "feedback": int(not name.startswith("gloo") or "powersgd" in name), "seed": seed, "ranks": WORLD.size, "network": network,
                       "parameters": sum(p.numel() for p in model.parameters()), "optimizer": f"momentum {MOMENTUM:g}", "adapt": "after", "half_batches": 0,
                       "batch": BATCH * WORLD.size, "rate": words["lr"], "epoch": math.ceil(number * BATCH / len(images.train[1])), "step": number,
                       "loss": WORLD.allreduce(float(loss.detach())) / WORLD.size, "accuracy": accuracy(images, model, number == options.steps),
                       "sent_bytes": method.sent(summed), "link": options.link}
    assert_replicas_are_equal(model, name)
    method.close()


def accuracies(options, images):
    for network, seed, name in itertools.product(options.networks, options.seeds, options.methods):
        yield from trained(options, images, network, name, seed)


def recorded(images, network, seed):
    """The gradients of this rank in the steps that a replay needs, of a training with exact averages."""
    model, words = made(network, seed)
    optimizer, kept = torch.optim.SGD(model.parameters(), **words), []
    for number, (x, y) in enumerate(itertools.islice(images.batches(seed), RECORDED_FROM + EXACT_STEPS + REPLAYED)):
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        if number >= RECORDED_FROM:
            kept.append([p.grad.clone() for p in model.parameters()])
        for p in model.parameters():
            WORLD.Allreduce(MPI.IN_PLACE, p.grad.numpy())
            p.grad /= WORLD.size
        optimizer.step()
    return model, kept


def flat(tensors):
    return np.concatenate([t.numpy().astype(np.float64).ravel() for t in tensors])


def errors(options, images):
    """Rows with the columns of mpi_quant.results.frontier: how far the sum of 50 averages is from the exact one. The first two steps are
    exact with every method, and do not count."""
    for network, seed in itertools.product(options.networks, options.seeds):
        model, kept = recorded(images, network, seed)
        exact = [WORLD.allreduce(flat(gradients)) / WORLD.size for gradients in kept[EXACT_STEPS:]]
        total, step_norm = sum(exact), math.sqrt(sum(float(e @ e) for e in exact) / len(exact))
        for name in options.methods:
            method, found = Method(Given(model), name), np.zeros_like(total)
            with Summed() as summed:
                for number, gradients in enumerate(kept):
                    if number == EXACT_STEPS:
                        before = method.sent(summed)
                    method.ddp.zero_grad()
                    method(gradients).backward()
                    if number >= EXACT_STEPS:
                        average = flat([p.grad for p in method.ddp.parameters()])
                        found += average
                        if number == EXACT_STEPS:
                            first = float(np.linalg.norm(average - exact[0]) / np.linalg.norm(exact[0]))
                sent = (method.sent(summed) - before) / len(exact)
            method.close()
            off = float(np.linalg.norm(found - total))
            yield {"method": name, "data": network, "elements": len(total), "row": 0, "ranks": WORLD.size, "calls": len(exact), "bytes": WORLD.allreduce(sent, MPI.MAX),
                   "error": off / float(np.linalg.norm(total)), "debt": off / step_norm, "first_error": first, "link": options.link, "seed": seed}


def interface_bytes():
    """Bytes that this host of a lab has sent, with TCP and all. None outside of a lab."""
    if os.environ.get("LAB_NET"):
        with open("/proc/self/net/dev", encoding="ascii") as file:
            for line in file:
                if line.strip().startswith("eth0:"):
                    return int(line.split(":")[1].split()[8])
    return None


class Lane:
    """A method in a race: its model goes on from block to block."""

    def __init__(self, network, name):
        model, words = made(network, 1)
        self.method = Method(model, name) if name != "none" else None
        self.run = self.method.ddp if self.method else model
        self.optimizer, self.seconds, self.sent = torch.optim.SGD(model.parameters(), **words), [], []

    def block(self, batches, counts):
        dist.barrier()
        before = interface_bytes()
        for x, y in batches:
            start = time.perf_counter()
            self.optimizer.zero_grad()
            loss_of(self.run, x, y).backward()
            self.optimizer.step()
            if counts:
                self.seconds.append(time.perf_counter() - start)
        if counts and before is not None:
            self.sent.append((interface_bytes() - before) / len(batches))


def times(options, images):
    """Rows with the columns of torch_runs.TIMES. The methods take turns, a block of steps each, in an order that rotates. The step of a rank
    ends when its parameters are new; the time of the slower rank counts."""
    for network in options.networks:
        names = ["none", *options.methods]
        lanes = {name: Lane(network, name) for name in names}
        batches = list(itertools.islice(images.batches(1), options.block))
        for turn in range(options.rounds + 1):  # the first one warms up
            at = turn % len(names)
            for name in names[at:] + names[:at]:
                lanes[name].block(batches, turn > 0)
        for name, lane in lanes.items():
            seconds = np.array(lane.seconds)
            WORLD.Allreduce(MPI.IN_PLACE, seconds, op=MPI.MAX)
            seconds.sort()
            count = len(seconds)
            away = 0.98 * math.sqrt(count)  # the 95 % interval of a median, by ranks
            yield {"method": name, "data": network, "link": options.link, "launch": options.launch, "calls": count, "t_median_s": float(np.median(seconds)),
                   "t_lo_s": float(seconds[max(0, math.floor(count / 2 - away))]), "t_hi_s": float(seconds[min(count - 1, math.ceil(count / 2 + away))]),
                   "oversubscribed": int(len(os.sched_getaffinity(0)) < WORLD.size),
                   "sent_bytes": WORLD.allreduce(float(np.median(lane.sent)), MPI.MAX) if lane.sent else ""}
            if lane.method:
                lane.method.close()


PARTS = {"accuracy": accuracies, "errors": errors, "times": times}


def main(words):
    options = parse_arguments(words)
    start_torch()
    images = Images(options.data, WORLD.rank, WORLD.size)
    with open(options.out, "w", encoding="utf-8") if WORLD.rank == 0 else open(os.devnull, "w", encoding="utf-8") as file:
        for row in PARTS[options.part](options, images):
            file.write(json.dumps(row) + "\n")
            file.flush()
            if WORLD.rank == 0:
                print(" ".join(f"{name}={value:.5g}" if isinstance(value, float) else f"{name}={value}" for name, value in row.items()
                               if name in ("network", "data", "method", "seed", "step", "accuracy", "bytes", "error", "t_median_s")), flush=True)
    dist.destroy_process_group()
    WORLD.Barrier()
    time.sleep(QUIET_S)
    MPI.Finalize()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BaseException:  # the other rank would wait
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        WORLD.Abort(1)
