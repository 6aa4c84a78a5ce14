"""One step of training by data parallelism, as a model: how long the ranks compute, how the gradient is cut, and how much of the calls that sum it is
hidden behind computation.

- Each rank has an accelerator that computes at a constant rate. A step takes a third of its computation forward and two thirds backward.
- The backward pass makes the bytes of the gradient at a constant rate. Every BUCKET bytes are a call, and what remains is the last call.
- The calls run one after the other beside the computation, and none slows the other down. A step ends when the last call ends.
"""
import dataclasses

BUCKET = 16 << 20  # bytes of a call; of the order of PyTorch's 25 MiB
ELEMENT_BYTES = 4  # float gradients
FLOPS = 100e12  # of an accelerator, a second: a third of what an A100 does at most (bf16)
STRONG_RANKS = 256  # all ranks together then have as many samples as so many ranks in weak scaling


@dataclasses.dataclass(frozen=True)
class Net:
    """parameters: as bench/models.cpp has them. flop: floating-point operations of a sample, forward and backward. samples: of a rank in a
    step, in weak scaling. sample: what one is. source: where flop and samples are from."""

    parameters: int
    flop: float
    samples: int
    sample: str
    source: str

    @property
    def bytes(self):
        return ELEMENT_BYTES * self.parameters


def transformer_flop(tokens, words, blocks=12, width=768):
    """Of a sequence, forward and backward: Narayanan et al. 2021 (arXiv:2104.04473), section 5.1, without activations that are computed
    twice. words: of the output layer, 0 for none."""
    return 72 * tokens * blocks * width**2 * (1 + tokens / (6 * width) + words / (12 * blocks * width))


# Well-known runs with 256 ranks or more have these numbers of samples, or close ones, by the same source.
NETS = {
    "resnet50": Net(25_557_032, 3 * 2 * 4.09e9, 32, "images of 224 x 224", "4.09e9 multiplications forward (torchvision); Goyal et al. 2017"),
    "bert-base": Net(109_482_240, transformer_flop(128, 0), 32, "sequences of 128 tokens", "Narayanan et al. 2021; You et al. 2020"),
    "gpt2": Net(124_439_808, transformer_flop(1024, 50257), 4, "sequences of 1024 tokens", "Narayanan et al. 2021; Radford et al. 2019"),
}
SCALINGS = ("weak", "strong")


def calls_of(net, bucket=BUCKET):
    """The bytes of each call of a step, in their order."""
    whole, rest = divmod(net.bytes, bucket)
    return [bucket] * whole + [rest] * (rest > 0)


def sizes(names, bucket=BUCKET):
    """The sizes of calls that the steps of some nets have, each once."""
    return sorted({size for name in names for size in calls_of(NETS[name], bucket)})


def samples_of(net, scaling, ranks):
    """The samples of a rank in a step. In strong scaling it may be a part of one on average."""
    return net.samples if scaling == "weak" else net.samples * STRONG_RANKS / ranks


def compute_s(net, scaling, ranks, flops=FLOPS):
    """The seconds that a rank computes in a step."""
    return net.flop * samples_of(net, scaling, ranks) / flops


def step_s(calls, seconds, computing):
    """The seconds of a step. calls: the bytes of each call; seconds: what each takes alone; computing: the seconds of the computation."""
    forward, backward, made, end = computing / 3, 2 * computing / 3, 0, 0.0
    for size, taken in zip(calls, seconds):
        made += size
        end = max(end, forward + backward * made / sum(calls)) + taken
    return max(end, computing)
