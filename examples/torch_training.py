"""Data-parallel training with PyTorch: MPIQ_Allreduce sums the gradients where they are, on the host or on a GPU.

Run: mpiexec -n 2 python3 torch_training.py LIBRARY [--device cuda] [--methods none,mpi,bf16,onebit]
LIBRARY is libmpi_quant_mpich.so or libmpi_quant_openmpi.so. Use the mpiexec of the MPI library that mpi4py was built for.
Prints for each method the median time of a step, and the loss after the last one. 'none' sums nothing: it is the time of the
network alone. 'mpi' is what a program does whose MPI does not know GPUs: copy to the host, sum, copy back.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import ctypes
import statistics
import sys
import time

import torch
from mpi4py import MPI

parser = argparse.ArgumentParser()
parser.add_argument("library")
parser.add_argument("--device", default="cpu")
parser.add_argument("--methods", default="none,mpi,bf16,onebit")
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--layers", type=int, default=3)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--steps", type=int, default=30)
options = parser.parse_args()

comm = MPI.COMM_WORLD
library = ctypes.CDLL(options.library)


def handle(of):
    """What C passes for an object of mpi4py: an int or a pointer, as the MPI library defines it."""
    kind = ctypes.c_int if MPI._sizeof(of) == ctypes.sizeof(ctypes.c_int) else ctypes.c_void_p
    return kind.from_address(MPI._addressof(of))


def make_sum(method, gradient):
    """A function that replaces `gradient` by its mean over the ranks."""
    if method == "none":
        return lambda: None
    if method == "mpi":
        host = torch.empty_like(gradient, device="cpu", pin_memory=gradient.is_cuda)

        def dense():
            host.copy_(gradient)
            comm.Allreduce(MPI.IN_PLACE, host.numpy())
            gradient.copy_(host).div_(comm.size)
        return dense
    info = MPI.Info.Create()
    info["mpiq_method"] = method
    info["mpiq_key"] = "gradient of " + method  # the vector of this key keeps what was not sent
    total = torch.empty_like(gradient)

    def compressed():
        if gradient.is_cuda:
            torch.cuda.current_stream().synchronize()
        error = library.MPIQ_Allreduce(ctypes.c_void_p(gradient.data_ptr()), ctypes.c_void_p(total.data_ptr()),
                                       ctypes.c_longlong(gradient.numel()), handle(MPI.FLOAT), handle(MPI.SUM), handle(comm), handle(info))
        if error != 0:
            raise MPI.Exception(error)
        gradient.copy_(total).div_(comm.size)
    return compressed


def train(method):
    """(seconds of the median step, loss after the last step, whether the ranks have the same parameters)"""
    torch.manual_seed(1)
    layers = []
    for _ in range(options.layers):
        layers += [torch.nn.Linear(options.width, options.width), torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers).to(options.device)
    teacher = torch.randn(options.width, options.width, device=options.device) / options.width ** 0.5
    # One vector for all gradients; those of the parameters are views of it.
    sizes = [p.numel() for p in network.parameters()]
    gradient = torch.zeros(sum(sizes), device=options.device)
    for parameter, view in zip(network.parameters(), gradient.split(sizes)):
        parameter.grad = view.view_as(parameter)
    reduce = make_sum(method, gradient)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(2 + comm.rank)
    times = []
    for _ in range(options.steps):
        x = torch.randn(options.batch, options.width, device=options.device)
        if gradient.is_cuda:
            torch.cuda.synchronize()
        comm.Barrier()
        start = time.perf_counter()
        gradient.zero_()
        loss = torch.nn.functional.mse_loss(network(x), torch.relu(x @ teacher))
        loss.backward()
        reduce()
        optimizer.step()
        if gradient.is_cuda:
            torch.cuda.synchronize()
        times.append(comm.allreduce(time.perf_counter() - start, op=MPI.MAX))
    mean_loss = comm.allreduce(float(loss.detach())) / comm.size
    checksum = sum(float(p.detach().double().sum()) for p in network.parameters())
    same = len(set(comm.allgather(checksum))) == 1
    return statistics.median(times[len(times) // 3:]), mean_loss, same


def main():
    bad = False
    for method in options.methods.split(","):
        seconds, loss, same = train(method)
        bad |= method != "none" and not same
        if comm.rank == 0:
            print(f"{method:12} {1e3 * seconds:9.3f} ms a step, loss {loss:.4f}, the ranks {'agree' if same else 'differ'}", flush=True)
    return 1 if bad else 0


sys.exit(main())
