"""mpiq-kernels: its rows are those that were asked for, every rate is one that a processor can have, and what is no codec is refused.
Usage: kernels_test.py BIN"""
import os
import sys
import unittest

from result_files import WithFiles
from scripts_common import call

from mpi_quant.results import kernel_rates  # after scripts_common, which says where it is

BIN = os.path.abspath(sys.argv.pop(1))


def kernels(*words):
    return call(os.path.join(BIN, "mpiq-kernels"), *words)


class Kernels(WithFiles):
    METHODS = "bf16,bf16 memory=momentum,bf16 memory=ef21,bf16 memory=3pc(v=3),topk(k=0.02)"

    def kernels(self, *words):
        done = kernels("--methods", self.METHODS, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_methods_have_rows_for_what_their_memory_rule_changes(self):
        works = {}
        for name in self.kernels("--benchmark_filter=/f32/scalar/256KiB", "--benchmark_list_tests").splitlines():
            codec, work = name.split("/")[:2]
            works.setdefault(codec, set()).add(work)
        everything = {"encode", "encode+feedback", "decode", "decode+streamed", "decode+add", "decode+add+apart",
                      "decode+add+apart+streamed"}
        self.assertEqual(works, {"bf16": everything, "topk(k=0.02)": everything, "bf16 memory=momentum": {"encode+feedback"},
                                 "bf16 memory=ef21": {"encode+feedback", "decode"},
                                 "bf16 memory=3pc(v=3)": {"encode+feedback", "decode"}})

    def test_no_row_moves_a_byte_in_less_than_a_picosecond(self):
        """A step that did nothing would. Not the decodes of topk: they are so fast that their repetitions take seconds."""
        path = self.path("kernels.json")
        self.kernels("--benchmark_filter=^(bf16.*|topk.*/encode)/f32/scalar/256KiB|^bf16/encode/f64/scalar/256KiB", f"--benchmark_out={path}",
                     "--benchmark_out_format=json")
        rows = kernel_rates.read([path]).rows
        self.assertEqual(len(rows), 14)
        for row in rows:
            self.assertLess(row["moved_Bps"], 1e12, row)
            self.assertGreater(row["moved_Bps"], 0, row)

    def test_what_is_no_codec_is_refused(self):
        for methods, why in (("mpi", "not a codec"), ("bf16/direct", "not a codec"), ("lowrank(rank=2)", "not a codec"),
                             ("nothing", "nothing"), ("bf16,", "empty word")):
            done = kernels("--methods", methods)
            self.assertEqual(done.returncode, 2, methods)
            self.assertIn("mpiq-kernels: --methods: ", done.stderr)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main()
