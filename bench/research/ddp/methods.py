"""How the ranks of scripts/mnist_torch average gradients: torch's own hooks over gloo, and ours. And how many bytes that sends."""
import re

import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import mpi_quant as mq
from mpi_quant.results import torch_runs

EXACT_STEPS = 2  # first ones of the hooks that have some; PowerSGD of torch needs two
# One bucket for all methods, so none overlaps with the backward pass. PowerSGD of torch sends several sums
# for a bucket, and may hang over gloo where two buckets are on the way at once.
BUCKET_MIB = 1000


class Method:
    """A model whose gradients are averaged by a method of torch_runs. close() when done: collective."""

    def __init__(self, model, name):
        self.name, self.state = name, None
        self.ddp = DistributedDataParallel(model, bucket_cap_mb=BUCKET_MIB)
        self._dense = 4 * sum(p.numel() for p in model.parameters())
        self._steps = 0
        rank = re.fullmatch(r"gloo\+powersgd\(rank=(\d+)\)", name)
        if name == torch_runs.DENSE:
            pass
        elif name == "gloo+fp16":
            self.ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
        elif name == "gloo+bf16":
            self.ddp.register_comm_hook(None, default_hooks.bf16_compress_hook)
        elif rank:
            self.ddp.register_comm_hook(powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=int(rank[1]), start_powerSGD_iter=EXACT_STEPS,
                                                                    min_compression_rate=1), powerSGD_hook.powerSGD_hook)
        elif torch_runs.is_ours(name):
            method, small = torch_runs.parts_of(name)
            self.state = mq.torch.State(model, method=method, warmup_steps=EXACT_STEPS, **({"small": small} if small else {}))
            self.ddp.register_comm_hook(self.state, mq.torch.ddp_hook)
        else:
            raise ValueError(f"no method {name}")

    def __call__(self, *inputs):
        """What the model makes of them, for one backward() that averages gradients."""
        self._steps += 1
        return self.ddp(*inputs)

    def sent(self, summed):
        """Bytes that this rank has sent so far. Ours: frames, as the library counts them. torch's: what gloo's ring sends of the tensors that
        its hooks sum, or of all gradients where there is no hook. `summed`: the Summed that was there all the time."""
        if self.state:
            return mq.stats(self.state.comm).wire_bytes_sent
        if self.name == torch_runs.DENSE:
            return ring_bytes(self._steps * self._dense)
        return ring_bytes(summed.bytes)

    def close(self):
        if self.state:
            self.state.close()


def ring_bytes(size):
    """What each rank sends to sum a vector of so many bytes: all its parts but one, twice."""
    return 2 * size * (dist.get_world_size() - 1) // dist.get_world_size()


class Summed:
    """While its `with` is open: the bytes of the tensors that torch's hooks give to all_reduce."""

    def __enter__(self):
        self.bytes, self._own = 0, dist.all_reduce

        def counting(tensor, *arguments, **words):
            self.bytes += tensor.numel() * tensor.element_size()
            return self._own(tensor, *arguments, **words)
        dist.all_reduce = counting
        return self

    def __exit__(self, *_):
        dist.all_reduce = self._own
