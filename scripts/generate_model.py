"""generate_model.py FILE: writes weights in the shapes of named public models, for machines that cannot download one.

The values are normal with the spread of trained weights, 0.05, each row a stretch of one pool at a random place: enough for
timing and for numerics, made in seconds without NumPy. An existing FILE is kept.
"""

import array
import json
import os
import random
import struct
import sys

# One layer each: the shape [n, k] of every matrix product.
SHAPES = {
    "all_minilm_l6_v2.layer.0.attention.self.query": (384, 384),
    "all_minilm_l6_v2.layer.0.attention.self.key": (384, 384),
    "all_minilm_l6_v2.layer.0.attention.self.value": (384, 384),
    "all_minilm_l6_v2.layer.0.attention.output.dense": (384, 384),
    "all_minilm_l6_v2.layer.0.intermediate.dense": (1536, 384),
    "all_minilm_l6_v2.layer.0.output.dense": (384, 1536),
    "llama_3_8b.layers.0.self_attn.q_proj": (4096, 4096),
    "llama_3_8b.layers.0.self_attn.k_proj": (1024, 4096),
    "llama_3_8b.layers.0.mlp.gate_proj": (14336, 4096),
    "llama_3_8b.layers.0.mlp.down_proj": (4096, 14336),
}
POOL = 1 << 16


def main(path):
    if os.path.exists(path):
        return
    generator = random.Random(0)
    values = array.array("f", (generator.gauss(0, 0.05) for _ in range(POOL)))
    # BF16 is the upper half of FP32; the pool twice, so that a row may run over its end.
    words = struct.unpack(f"<{POOL}I", values.tobytes())
    pool = struct.pack(f"<{POOL}H", *(word >> 16 for word in words)) * 2

    header, at = {"__metadata__": {"format": "pt", "source": "generated"}}, 0
    for name, (n, k) in SHAPES.items():
        header[name + ".weight"] = {"dtype": "BF16", "shape": [n, k], "data_offsets": [at, at + 2 * n * k]}
        at += 2 * n * k
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    part = f"{path}.part{os.getpid()}"
    with open(part, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for n, k in SHAPES.values():
            for _ in range(n):
                start = 2 * generator.randrange(POOL)
                file.write(pool[start:start + 2 * k])
    os.replace(part, path)


if __name__ == "__main__":
    main(sys.argv[1])
