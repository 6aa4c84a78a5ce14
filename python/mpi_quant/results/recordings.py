"""Sequences of vectors for mpiq quality, scripts/frontier and tests/preload/identity.py: gradients of small networks, recorded while PyTorch trains them on MNIST, and
other data that programs send through one buffer. A sequence is a list of steps. A step is the index of a tensor and its vector
on each rank."""
import gzip
import itertools
import os
import struct
import sys

import numpy as np

RANKS, BATCH = 2, 32


def read_idx(path):
    """An array of unsigned bytes from a file of MNIST."""
    with gzip.open(path) as file:
        data = file.read()
    shape = struct.unpack(f">{data[3]}I", data[4:4 + 4 * data[3]])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def has_torch(script):
    """Whether PyTorch is there. If not, says what brings it."""
    try:
        import torch  # noqa: F401
    except ImportError:
        print(f"{script}: needs python3-torch: scripts/setup check", file=sys.stderr)
        return False
    return True


def networks(nn):
    """Networks by name: how each is made, the momentum of its optimizer, and whether it takes images as planes."""
    def perceptron(activation, *after):
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), activation(), *after, nn.Linear(128, 128), activation(), *after,
                             nn.Linear(128, 10))

    def convolutions(norm, *after):
        return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), *norm(16), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Conv2d(16, 128, 3, padding=1), *norm(128), nn.ReLU(), nn.MaxPool2d(2), *after, nn.Flatten(),
                             nn.Linear(128 * 49, 16), nn.ReLU(), nn.Linear(16, 10))

    return {
        "mlp-relu": (lambda: perceptron(nn.ReLU), 0.0, False),
        "mlp-relu-momentum": (lambda: perceptron(nn.ReLU), 0.9, False),
        "mlp-dropout": (lambda: perceptron(nn.ReLU, nn.Dropout(0.5)), 0.0, False),
        "mlp-tanh": (lambda: perceptron(nn.Tanh), 0.0, False),
        "cnn-dropout": (lambda: convolutions(lambda _: (), nn.Dropout(0.5)), 0.0, True),
        "cnn-batchnorm": (lambda: convolutions(lambda planes: (nn.BatchNorm2d(planes),)), 0.0, True),
    }


def examples(folder):
    """The images of MNIST's training set, centred, and their labels."""
    import torch  # pylint: disable=import-outside-toplevel
    images = torch.tensor(read_idx(os.path.join(folder, "train-images-idx3-ubyte.gz")) / np.float32(255)) - 0.13
    return images, torch.tensor(read_idx(os.path.join(folder, "train-labels-idx1-ubyte.gz")).astype(np.int64))


def steps_of(model, images, labels, rate, momentum=0.0):
    """Trains a network without end. Each step yields the gradients of all parameters on each rank, and then applies their mean.
    Each rank has its own batches."""
    import torch  # pylint: disable=import-outside-toplevel
    from torch import nn  # pylint: disable=import-outside-toplevel
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)
    while True:
        own = []
        for _ in range(RANKS):
            batch = torch.randint(0, len(images), (BATCH,))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            own.append([p.grad.detach().clone() for p in model.parameters()])
        yield [[g.numpy() for g in mine] for mine in own]
        for k, p in enumerate(model.parameters()):
            p.grad = sum(g[k] for g in own) / RANKS
        optimizer.step()


def gradients(folder, steps, is_wanted):
    """Name and steps of each tensor of at least 16384 elements, for each network whose name is wanted. The optimizer applies the
    momentum, so the summed gradients do not contain it."""
    import torch  # pylint: disable=import-outside-toplevel
    from torch import nn  # pylint: disable=import-outside-toplevel
    images, labels = examples(folder)
    for name, (make, momentum, planes) in networks(nn).items():
        if not any(is_wanted(f"{name}/{index}") for index in range(3)):
            continue
        torch.manual_seed(1)
        model = make()
        long = [k for k, p in enumerate(model.parameters()) if p.numel() >= 16384]
        training = steps_of(model, images[:, None] if planes else images, labels, 0.02 if momentum or planes else 0.1, momentum)
        recorded = list(itertools.islice(training, steps))
        for index, k in enumerate(long):
            if is_wanted(f"{name}/{index}"):
                yield f"{name}/{index}", [(0, [g[k].ravel() for g in step]) for step in recorded]


def noise_of(random, n):
    return random.standard_normal(n).astype(np.float32)


def smooth_of(random, n):
    """A map with a structure that is long compared with the distance between the positions that are sampled."""
    return np.interp(np.arange(n), np.linspace(0, n, 40), random.standard_normal(40)).astype(np.float32)


def tensors(steps, n=32768):
    """Sequences of one tensor that are not gradients."""
    random = np.random.default_rng(1)
    for kind, make in (("rough", noise_of), ("smooth", smooth_of)):
        maps = [make(random, n) for _ in range(RANKS)]
        for name, factor in (("", lambda t: 1), ("-alternating", lambda t: (-1)**t * (1 + 0.2 * (t % 3)))):
            yield f"{kind}-map{name}", [(0, [np.float32(factor(t)) * (m + 0.3 * noise_of(random, n)) for m in maps])
                                        for t in range(steps)]


def strangers(steps, n=32768):
    """Sequences in which one buffer holds different data: pieces of a map with different scales, in turn or in random order; or
    noise, in which nothing can be recognised."""
    random = np.random.default_rng(2)
    for pieces in (1, 4, 16):
        yield f"noise-{pieces}", [(t % pieces, [noise_of(random, n) for _ in range(RANKS)]) for t in range(steps)]
    for kind, make in (("rough", noise_of), ("smooth", smooth_of)):
        for pieces in (4, 16):
            maps = [[make(random, n) for _ in range(RANKS)] for _ in range(pieces)]
            for order, scale in (("cycle", 1), ("random", 1), ("alternating", -1), ("cycle-scales", 10), ("random-scales", 10)):
                sequence = []
                for t in range(steps):
                    piece = int(random.integers(pieces)) if order.startswith("random") else t % pieces
                    factor = np.float32((-1)**t if scale < 0 else scale**(piece % 4))
                    sequence.append((piece, [factor * (m + 0.3 * noise_of(random, n)) for m in maps[piece]]))
                yield f"{kind}-{pieces}-{order}", sequence


def write(path, sequence):
    """Writes PATH.RANK for each rank, as tests/preload/replay.c reads it; returns the numbers of elements, steps and
    tensors."""
    for rank in range(RANKS):
        with open(f"{path}.{rank}", "wb") as file:
            for tensor, vectors in sequence:
                file.write(struct.pack("i", tensor))
                file.write(np.ascontiguousarray(vectors[rank], np.float32).tobytes())
    return len(sequence[0][1][0]), len(sequence), 1 + max(tensor for tensor, _ in sequence)
