"""PyTorch: DistributedDataParallel whose gradients travel as one bit an element, by a communication hook.

Run: mpiexec -n 2 python3 ddp_training.py [METHOD...]
Needs mpi_quant in PYTHONPATH (docs/python.md), and the mpiexec of the MPI library that mpi4py was built for.
SPDX-License-Identifier: Apache-2.0
"""
import os
import sys

import torch
import torch.distributed as dist
from mpi4py import MPI
from torch.nn.parallel import DistributedDataParallel

import mpi_quant as mq

comm = MPI.COMM_WORLD
WIDTH, BATCH, STEPS = 256, 64, 60

torch.set_num_threads(1)
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")  # of rank 0's host
os.environ.setdefault("MASTER_PORT", "29400")
dist.init_process_group("gloo", rank=comm.rank, world_size=comm.size)


def train(method):
    """The last loss, and the bytes that this rank has sent."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH))
    teacher = torch.randn(WIDTH, WIDTH) / WIDTH ** 0.5
    ddp = DistributedDataParallel(model)
    state = mq.torch.State(model, method=method, warmup_steps=5)  # the two lines
    ddp.register_comm_hook(state, mq.torch.ddp_hook)              # that compress
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(2 + comm.rank)
    for _ in range(STEPS):
        x = torch.randn(BATCH, WIDTH)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(ddp(x), torch.relu(x @ teacher))
        loss.backward()
        optimizer.step()
    same = len(set(comm.allgather(tuple(float(p.double().sum()) for p in model.parameters())))) == 1
    return float(loss.detach()), mq.stats(state.comm).wire_bytes_sent, same


good = True
for name in sys.argv[1:] or ["raw", "int8", "onebit"]:
    final, sent, equal = train(name)
    good = good and equal and final < 0.5
    if comm.rank == 0:
        print(f"{name}: loss {final:.4f}, {sent / STEPS / 1000:.0f} kB sent a step, the ranks {'agree' if equal else 'differ'}")
sys.exit(0 if good else 1)
