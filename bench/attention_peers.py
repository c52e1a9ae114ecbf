#!/usr/bin/env python3
"""Times attention forward by PyTorch's libraries on a CUDA device, beside which `pinch bench attention --device cuda` stands.

    bench/attention_peers.py --batch 4 --heads 16 --seq 8192 --dim 128 [--kv-heads N] [--causal] [--samples 30] [--regimes] [--json FILE]

Every sample is one call between two events, warm (after a call that is not timed); libraries take turns, the order is shuffled each round. The output of each
is compared with FP64 on a few rows before it is timed. --regimes times each by itself too, as tests/gpu/attention_time does: the median of the first 7 calls
after a pause ("burst"), and of the last third of half a second ("sustained", what the power limit leaves). Needs torch with CUDA; exits 3 where there is none.
"""

import argparse
import json
import random
import statistics
import sys
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("batch", 1), ("heads", None), ("kv-heads", None), ("seq", None), ("kv-seq", None), ("dim", 128), ("samples", 30)):
        parser.add_argument(f"--{name}", type=int, default=value, required=name in ("heads", "seq"))
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--regimes", action="store_true")
    parser.add_argument("--json", help="write the samples too")
    options = parser.parse_args()
    options.kv_heads = options.kv_heads or options.heads
    options.kv_seq = options.kv_seq or options.seq
    if options.causal and options.kv_seq != options.seq:
        parser.error("PyTorch aligns a causal mask of unequal lengths at the top left: give equal ones")
    return options


def rel_l2(torch, out, q, k, v, causal):
    """Of the first, middle and last row of every head, against FP64."""
    rows = [0, q.shape[2] // 2, q.shape[2] - 1]
    group = q.shape[1] // k.shape[1]
    error = size = 0.0
    for row in rows:
        visible = row + 1 if causal else k.shape[2]
        keys = k[:, :, :visible].double().repeat_interleave(group, 1)
        values = v[:, :, :visible].double().repeat_interleave(group, 1)
        scores = torch.einsum("bhd,bhkd->bhk", q[:, :, row].double(), keys) / q.shape[3] ** 0.5
        want = torch.einsum("bhk,bhkd->bhd", scores.softmax(-1), values)
        error += (out[:, :, row].double() - want).square().sum().item()
        size += want.square().sum().item()
    return (error / size) ** 0.5


def main():
    o = arguments()
    try:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError as missing:
        print(f"attention_peers: {missing}", file=sys.stderr)
        return 3
    if not torch.cuda.is_available():
        print("attention_peers: torch sees no CUDA device", file=sys.stderr)
        return 3
    torch.manual_seed(1)
    q = torch.randn(o.batch, o.heads, o.seq, o.dim, dtype=torch.bfloat16, device="cuda")
    k, v = (torch.randn(o.batch, o.kv_heads, o.kv_seq, o.dim, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    pairs = o.seq * o.kv_seq
    flops = 4 * o.batch * o.heads * o.dim * (pairs - o.seq * (o.seq - 1) // 2 if o.causal else pairs)

    def call(backend):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=o.causal, enable_gqa=o.heads != o.kv_heads)

    rows = {}
    for name, backend in (("cuDNN", SDPBackend.CUDNN_ATTENTION), ("FlashAttention 2", SDPBackend.FLASH_ATTENTION)):
        try:
            rows[name] = {"backend": backend, "rel_l2": rel_l2(torch, call(backend), q, k, v, o.causal), "ns": []}
        except RuntimeError as refused:
            print(f"{name}: {str(refused).splitlines()[0]}", file=sys.stderr)

    def sample(name):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        call(rows[name]["backend"])  # the device works while the host enqueues the next
        begin.record()
        call(rows[name]["backend"])
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e6

    order = list(rows)
    for _ in range(o.samples):
        random.shuffle(order)
        for name in order:
            rows[name]["ns"].append(sample(name))
    for name in order if o.regimes else []:
        time.sleep(0.25)
        alone = [sample(name) for _ in range(7)]
        rows[name]["burst_ns"] = statistics.median(alone)
        until = time.monotonic() + 0.45
        while time.monotonic() < until:
            alone.append(sample(name))
        rows[name]["sustained_ns"] = statistics.median(alone[-len(alone) // 3 :])
    document = {"problem": {key: value for key, value in vars(o).items() if key != "json"}, "device": torch.cuda.get_device_name(),
                "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "rows": []}
    for name, row in rows.items():
        median = statistics.median(row["ns"])
        regimes = {key: flops / row[f"{key}_ns"] / 1e3 for key in ("burst", "sustained") if f"{key}_ns" in row}
        document["rows"].append({"name": name, "median_ns": median, "tflops": flops / median / 1e3, "rel_l2": row["rel_l2"],
                                 **{f"{key}_tflops": value for key, value in regimes.items()}, "samples_ns": row["ns"]})
        alone = "".join(f"  {key} {value:.1f}" for key, value in regimes.items())
        print(f"{name:<18} {median / 1e3:>10.1f} us  {flops / median / 1e3:>7.1f} TFLOP/s  rel_l2 {row['rel_l2']:.2g}{alone}")
    if o.json:
        with open(o.json, "w") as file:
            json.dump(document, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
