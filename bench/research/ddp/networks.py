"""The two networks that scripts/mnist_torch trains on MNIST, and the images of each rank."""
import os

import numpy as np
import torch
from torch import nn

from mpi_quant.results import recordings

BATCH = 64  # images of a rank in a step
MOMENTUM = 0.5


def perceptron():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def convolutions():
    return nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(16 * 49, 128), nn.ReLU(), nn.Linear(128, 10))


# Name -> how it is made, and its rate. The name says the widths.
NETWORKS = {"mlp:512x512": (perceptron, 0.1), "cnn:8x16x128": (convolutions, 0.1)}


def made(name, seed):
    """A network with the parameters of this seed, the same ones on all ranks; and its optimizer's words."""
    make, rate = NETWORKS[name]
    torch.manual_seed(seed)
    return make(), {"lr": rate, "momentum": MOMENTUM}


class Images:
    """Images of MNIST, centred, and their labels: those that this rank trains with, and those that it tests with."""

    def __init__(self, folder, rank, ranks):
        def part(name):
            images = recordings.read_idx(os.path.join(folder, f"{name}-images-idx3-ubyte.gz"))[rank::ranks]
            labels = recordings.read_idx(os.path.join(folder, f"{name}-labels-idx1-ubyte.gz"))[rank::ranks]
            return torch.tensor(images / np.float32(255))[:, None] - 0.13, torch.tensor(labels.astype(np.int64))
        self.rank, self.train, self.test = rank, part("train"), part("t10k")

    def batches(self, seed):
        """Images and labels of one step after the other, without end: the same ones for each method."""
        draw = torch.Generator().manual_seed(1000 * seed + self.rank)
        images, labels = self.train
        while True:
            chosen = torch.randint(0, len(images), (BATCH,), generator=draw)
            yield images[chosen], labels[chosen]

    def recognised(self, model, every=1):
        """How many of this rank's test images a network recognises, and how many there are. every: 5 for each fifth image."""
        images, labels = (part[::every] for part in self.test)
        with torch.no_grad():
            good = sum(int((model(part).argmax(1) == label).sum()) for part, label in zip(images.split(1000), labels.split(1000)))
        return good, len(labels)


class Given(nn.Module):
    """A network whose gradients are what it is given, for gradients that were recorded."""

    def __init__(self, model):
        super().__init__()
        self.names = [name.replace(".", "_") for name, _ in model.named_parameters()]
        for name, (_, parameter) in zip(self.names, model.named_parameters()):
            self.register_parameter(name, nn.Parameter(torch.zeros_like(parameter)))

    def forward(self, gradients):
        return sum((getattr(self, name) * gradient).sum() for name, gradient in zip(self.names, gradients))
