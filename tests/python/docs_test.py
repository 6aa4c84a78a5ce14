"""Runs the blocks of Python of docs/python.md, one after the other in one program, and looks at what they leave."""
import os
import re
import tempfile
from importlib.util import find_spec

import numpy as np
from common import WORLD, OnAllRanks, main, rendezvous

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

# What is in a block: the module without which it is left out.
NEEDS = {"results.open": "h5py", "plots.": "matplotlib", "mq.jax": "jax", "fully_shard": "torch.distributed.tensor", "torch.register": "torch.distributed.tensor"}


class Page(OnAllRanks):
    def test_its_blocks(self):
        with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as file:
            page = file.read()
        folder = tempfile.TemporaryDirectory()  # the page reads a committed result file and writes a figure
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.symlink(os.path.join(ROOT, "results"), os.path.join(folder.name, "results"))
        os.chdir(folder.name)
        names, ran = {"__name__": "page"}, 0
        for block in re.finditer(r"^```python\n(.*?)^```", page, re.S | re.M):
            lacking = [module for name, module in NEEDS.items() if name in block[1] and not find_spec(module)]
            if lacking:
                print(f"left out: a block of the page that needs {lacking[0]}")
                continue
            first = page.count("\n", 0, block.start(1))
            try:
                exec(compile("\n" * first + block[1], "docs/python.md", "exec"), names)  # with the page's line numbers
            except NotImplementedError as lacking_in_torch:
                print(f"left out: a block of the page: {lacking_in_torch}")
                continue
            ran += 1
        self.assertGreater(ran, 6)
        for name in ("total", "mine", "sums", "dense", "rest"):
            self.assertEqual(names[name].dtype, np.float32)
        self.assert_same_bits(names["dense"])
        np.testing.assert_array_equal(names["mine"], np.array([2, 1, 2], np.float32)[:, None] * WORLD.size * np.ones(16))
        self.assertEqual(names["state"].step, 4)
        self.assert_same_bits(np.concatenate([p.detach().numpy().ravel() for p in names["ddp"].parameters()]))


if __name__ == "__main__":
    rendezvous()
    main()
