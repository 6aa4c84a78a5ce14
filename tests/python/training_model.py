"""What the tests of mpi_quant.torch train: a small network, and batches that differ between ranks."""
import torch
from common import WORLD
from torch import nn


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))


def batch(step):
    """Which of the first ten numbers is the greatest?"""
    torch.manual_seed(1000 * step + WORLD.rank)
    x = torch.randn(32, 64)
    return x, x[:, :10].argmax(1)


def train(model, steps, same=None, momentum=0.0):
    """The losses of this rank. `same`: the number of the batch of all steps."""
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.05, momentum=momentum), []
    for number in range(steps):
        x, y = batch(number if same is None else same)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses
