"""PyTorch: MPIQ_Allreduce sums the gradients where they are, on the host or on a GPU.

Run: mpiexec -n 2 python3 torch_training.py LIBRARY [DEVICE [METHOD...]]
LIBRARY is libmpi_quant_mpich.so or libmpi_quant_openmpi.so; use the mpiexec of the MPI library that mpi4py was built for.
SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import statistics
import sys
import time

import torch
from mpi4py import MPI

ctypes.CDLL(MPI.__file__, ctypes.RTLD_GLOBAL)  # the library finds the MPI of mpi4py
comm, library = MPI.COMM_WORLD, ctypes.CDLL(sys.argv[1])
device, methods = (sys.argv[2:3] or ["cpu"])[0], sys.argv[3:] or ["bf16", "onebit"]
WIDTH, BATCH, STEPS = (2048, 2048, 60) if device == "cuda" else (256, 64, 30)


def handle(of):
    """What C passes for an object of mpi4py: an int or a pointer, as the MPI library defines it."""
    kind = ctypes.c_int if MPI._sizeof(of) == ctypes.sizeof(ctypes.c_int) else ctypes.c_void_p
    return kind.from_address(MPI._addressof(of))


def train(method):
    torch.manual_seed(1)
    network = torch.nn.Sequential(*(layer for _ in range(3) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()))).to(device)
    teacher = torch.randn(WIDTH, WIDTH, device=device) / WIDTH ** 0.5
    # One vector for all gradients; the gradients of the parameters are views of it.
    sizes = [p.numel() for p in network.parameters()]
    gradient = torch.zeros(sum(sizes), device=device)
    total = torch.empty_like(gradient)
    for parameter, view in zip(network.parameters(), gradient.split(sizes)):
        parameter.grad = view.view_as(parameter)
    info = MPI.Info.Create()
    info["mpiq_method"], info["mpiq_key"] = method, "gradient, " + method  # what is not sent waits under the key
    optimizer, times = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9), []
    torch.manual_seed(2 + comm.rank)
    for _ in range(STEPS):
        start = time.perf_counter()
        x = torch.randn(BATCH, WIDTH, device=device)
        gradient.zero_()
        loss = torch.nn.functional.mse_loss(network(x), torch.relu(x @ teacher))
        loss.backward()
        if gradient.is_cuda: torch.cuda.current_stream().synchronize()
        error = library.MPIQ_Allreduce(ctypes.c_void_p(gradient.data_ptr()), ctypes.c_void_p(total.data_ptr()), ctypes.c_longlong(gradient.numel()),
                                       handle(MPI.FLOAT), handle(MPI.SUM), handle(comm), handle(info))
        if error != MPI.SUCCESS: raise MPI.Exception(error)  # mpi4py lets functions return errors
        gradient.copy_(total).div_(comm.size)
        optimizer.step()
        times.append(time.perf_counter() - start)
    same = len(set(comm.allgather(tuple(float(p.double().sum()) for p in network.parameters())))) == 1
    if comm.rank == 0:
        print(f"{method}: {1e3 * statistics.median(times):.3f} ms a step, loss {float(loss):.4f}, the ranks {'agree' if same else 'differ'}")
    return same and float(loss.detach()) < 0.5


sys.exit(0 if all([train(method) for method in methods]) else 1)
