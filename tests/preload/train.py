"""Data-parallel training as programs do it: PyTorch and mpi4py, a sum for each tensor of gradients. Knows nothing of mpi_quant.
    train.py FOLDER_OF_MNIST STEPS
Prints the accuracy on test images, and whether the ranks still have the same weights."""
import gzip
import os
import sys

import numpy as np
import torch
from mpi4py import MPI
from torch import nn

world = MPI.COMM_WORLD
BATCH = 32


def read(name, header):
    with gzip.open(os.path.join(sys.argv[1], name)) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def images(name):
    return torch.tensor(read(f"{name}-images-idx3-ubyte.gz", 16).reshape(-1, 784) / np.float32(255)) - 0.13


def labels(name):
    return torch.tensor(read(f"{name}-labels-idx1-ubyte.gz", 8).astype(np.int64))


torch.set_num_threads(1)
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
mine, wanted = images("train")[world.rank::world.size], labels("train")[world.rank::world.size]
torch.manual_seed(100 + world.rank)
for step in range(int(sys.argv[2])):
    batch = torch.randint(0, len(mine), (BATCH,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(mine[batch]), wanted[batch]).backward()
    for p in model.parameters():
        gradient = p.grad.numpy()
        world.Allreduce(MPI.IN_PLACE, gradient)
        gradient /= world.size
    optimizer.step()

with torch.no_grad():
    right = (model(images("t10k")).argmax(1) == labels("t10k")).float().mean().item()
weights = np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])
same = all(np.array_equal(weights, other) for other in world.allgather(weights))
if world.rank == 0:
    print(f"accuracy {right:.4f}")
    print("the ranks", "agree" if same else "differ")
sys.exit(0 if same else 1)
