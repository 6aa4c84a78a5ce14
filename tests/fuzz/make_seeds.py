#!/usr/bin/env python3
"""Writes tests/fuzz/seeds anew: small inputs that bring each fuzz target into its code. What a target makes of its bytes is
said in the target.

    tests/fuzz/make_seeds.py [FOLDER]
"""
import gzip
import os
import struct
import sys

CODECS = 20  # of the registry, or more: targets take the number modulo what there is

EDGES = b"# a ring and a chord\n0 1\n1 2\n2\t0\n0, 2\n"
MATRIX = b"%%MatrixMarket matrix coordinate real symmetric\n% three edges\n3 3 3\n1 1 .5\n2 1 1\n3 2 -1e3\n"
POLICIES = (
    "64K-1M@4- f32 calls=100-: onebit(block=512)/direct feedback=address guard=64 error=0.05; 1M-: bf16",
    "comm=grid* site=*solve?: topk; 4K-64K small: mpi; -2G@2-3 f64: adaptive feedback=off",
    "onebit(means=column,rows=31,ld=34,split=signs)/hierarchical",
    "threshold(level=auto)/ring",
)


def u16(*values):
    return struct.pack(f"<{len(values)}H", *values)


def floats(n):
    return struct.pack(f"<{n}f", *[(i % 7 - 3) * 0.25 ** (i % 5) for i in range(n)])


def decode():
    """The way, the codec, its parameters (0: the preset), n, elements, feedback, residuals, changes."""
    for codec in range(CODECS):
        head = bytes([2, codec]) + bytes(codec % 7)
        yield head + u16(20) + floats(20) + bytes([1]) + floats(20) + u16(3) + b"\x40" + u16(9) + b"\x01"
    yield bytes([0, 1]) + bytes(6) + u16(100) + bytes(range(200))
    entropy = bytes([4, 0, 0, 0, 1])  # int4(code=entropy): 160 symbols in four streams
    yield b"\x02" + entropy + u16(260) + floats(260) + bytes([1]) + floats(260) + u16(3) + b"\x40" + u16(9) + b"\x01"
    yield b"\x00" + entropy + u16(300) + b"\x05" + u16(20, 20, 20, 20) + bytes(range(80)) + floats(2)


def execute():
    """Ranks, the rank, ranks a node, plan, codec, parameters, element, count, feedback, frames."""
    for plan in range(6):
        frames = b"".join(bytes([chunk << 4]) + u16(32) + floats(8) for chunk in (0, 1, 0, 1, 2, 3))
        yield bytes([plan % 3, 0, plan % 2, plan, plan]) + bytes(3) + u16(16) + b"\x01" + frames


def sparse():
    """Element, operation and stride; range; lists (a merge), or a header and a payload (a frame)."""
    gaps = bytes(range(0, 120, 3))
    source = b"\x00" + u16(40) + b"\x00" + gaps
    for way in (0, 1, 2, 12):
        yield bytes([way, 0]) + u16(9000) + bytes([2, way % 2]) + source + source + b"\x02" + source[1:]
    block = struct.pack("<QII", 7, 12, 0)  # "full": 12 positions from 0 on
    yield bytes([0, 0]) + u16(64) + bytes([0, 0, 1]) + u16(12, len(block)) + block
    yield bytes([64, 0]) + u16(64) + b"\x00" + u16(12) + floats(12) + block
    yield bytes([64, 0]) + u16(16) + b"\x01" + u16(12) + floats(12) + struct.pack("<QII", 7, 4, 12)


def idx(count=3, labels=3):
    images = struct.pack(">IIII", 0x803, count, 2, 2) + bytes(range(4 * count))
    return u16(len(images)) + images + struct.pack(">II", 0x801, labels) + bytes(range(labels))


def seeds():
    return {
        "decode": list(decode()),
        "execute": list(execute()),
        "policy": [text.encode() for text in POLICIES],
        "sparse": list(sparse()),
        "bench_graph": [EDGES, MATRIX, gzip.compress(EDGES, mtime=0), MATRIX.replace(b"real", b"pattern")],
        "bench_idx": [idx(), idx(4, 3)],
        "residual": [bytes([1]), bytes([1]) + u16(2000) + b"\x01", bytes([0]) + u16(2) + bytes(60),
                     bytes([0]) + u16(1) + bytes([0, 0, 200, 200]) + bytes(40)],
        "bench_results": [b"", u16(96) + b"\x01", u16(5000, 0)],
    }


def main(arguments):
    root = arguments[0] if arguments else os.path.join(os.path.dirname(os.path.realpath(__file__)), "seeds")
    for target, inputs in seeds().items():
        folder = os.path.join(root, target)
        os.makedirs(folder, exist_ok=True)
        for number, data in enumerate(inputs):
            with open(os.path.join(folder, str(number)), "wb") as file:
                file.write(data)


if __name__ == "__main__":
    main(sys.argv[1:])
