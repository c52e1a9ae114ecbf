#!/usr/bin/env python3
"""Writes the validation corpus of `pinch sass`: compute-bound loops as CUDA kernels, and the table that launches them.

    generate.py OUT_FOLDER        writes OUT_FOLDER/kernels.cu and OUT_FOLDER/table.inc

A loop is a list of (operation, chains): each operation updates one of its own independent register chains in turn, so
that `chains` sets how much of its latency the loop can hide. The order of the text is the order asked for; ptxas is free
to change it, and what it made is read back from the cubin. The list is fixed: same script, same loops.
"""

import pathlib
import random
import sys

# name: (type of the chain, PTX with %0 the chain and %1 %2 loop-invariant operands of the same type)
OPERATIONS = {
    "ffma": ("float", "fma.rn.f32 %0, %0, %1, %2;"),
    "fadd": ("float", "add.rn.f32 %0, %0, %1;"),
    "fmul": ("float", "mul.rn.f32 %0, %0, %1;"),
    "fmnmx": ("float", "max.f32 %0, %0, %1;"),
    "mufu": ("float", "ex2.approx.ftz.f32 %0, %0;"),
    "rcp": ("float", "rcp.approx.ftz.f32 %0, %0;"),
    "hfma2": ("unsigned", "fma.rn.f16x2 %0, %0, %1, %2;"),
    "hmnmx2": ("unsigned", "max.f16x2 %0, %0, %1;"),
    "imad": ("unsigned", "mad.lo.u32 %0, %0, %1, %2;"),
    "imadhi": ("unsigned", "mad.hi.u32 %0, %0, %1, %2;"),
    "iadd3": ("unsigned", "add.u32 %0, %0, %1;"),
    "lop3": ("unsigned", "lop3.b32 %0, %0, %1, %2, 0x6a;"),
    "prmt": ("unsigned", "prmt.b32 %0, %0, %1, %2;"),
    "shf": ("unsigned", "shf.l.wrap.b32 %0, %0, %1, %2;"),
    "popc": ("unsigned", "popc.b32 %0, %0;"),
    "f2fp": ("bits", "cvt.rn.bf16x2.f32 %0, %1, %2;"),
    "f2fp8": ("bits8", "{ .reg .b16 h; cvt.rn.satfinite.e4m3x2.f32 h, %1, %2; cvt.u32.u16 %0, h; }"),
    "shfl": ("unsigned", "shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;"),
    "lds": ("shared", "ld.volatile.shared.u32 %0, [%0];"),
    "lds128": ("shared4", "ld.volatile.shared.v4.u32 {%0,%1,%2,%3}, [%0];"),
    "sts": ("store", "st.volatile.shared.u32 [%0], %0;"),
    "lg2": ("float", "lg2.approx.ftz.f32 %0, %0;"),
    "tanh": ("float", "tanh.approx.f32 %0, %0;"),
    "ex2h": ("unsigned", "ex2.approx.f16x2 %0, %0;"),
    "i2f": ("unsigned", "{ .reg .f32 f; cvt.rn.f32.s32 f, %0; mov.b32 %0, f; }"),
    "f2i": ("unsigned", "{ .reg .f32 f; mov.b32 f, %0; cvt.rni.s32.f32 %0, f; }"),
    "sel": ("unsigned", "{ .reg .pred p; setp.ge.s32 p, %0, %1; selp.b32 %0, %0, %2, p; }"),
    "bfma2": ("unsigned", "fma.rn.bf16x2 %0, %0, %1, %2;"),
    "unpack8": ("unsigned", "{ .reg .b16 l, h; mov.b32 {l, h}, %0; cvt.rn.f16x2.e4m3x2 %0, l; }"),
    "redux": ("unsigned", "redux.sync.max.u32 %0, %0, 0xffffffff;"),
    "hmma": ("mma", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"),
}


def statement(op, chain):
    kind, ptx = OPERATIONS[op]
    c = f"{op}{chain}"
    if kind == "mma":
        outs = ", ".join(f'"+f"({c}[{i}])' for i in range(4))
        return f'asm volatile("{ptx}" : {outs} : "r"(ua), "r"(ub), "r"(uc), "r"(ud), "r"(ue), "r"(uf));'
    if kind in ("bits", "bits8"):
        return f'asm volatile("{ptx}" : "=r"({c}) : "f"(__uint_as_float({c})), "f"(fa));'
    if kind == "shared":
        return f'asm volatile("{ptx}" : "+r"({c}));'
    if kind == "shared4":
        outs = ", ".join(f'"+r"({c}[{i}])' for i in range(4))
        return f'asm volatile("{ptx}" : {outs});'
    if kind == "store":
        return f'asm volatile("{ptx}" :: "r"({c}));'
    a, b, code = ("fa", "fb", "f") if kind == "float" else ("ua", "ub", "r")
    inputs = ", ".join(f'"{code}"({x})' for x, slot in ((a, "%1"), (b, "%2")) if slot in ptx)
    return f'asm volatile("{ptx}" : "+{code}"({c}) : {inputs});' if inputs else f'asm volatile("{ptx}" : "+{code}"({c}));'


def declaration(op, chain):
    kind = OPERATIONS[op][0]
    c = f"{op}{chain}"
    if kind == "mma":
        return f"float {c}[4] = {{seed_f, seed_f + 1, seed_f + 2, seed_f + 3}};"
    if kind == "float":
        return f"float {c} = seed_f + {chain}.0f;"
    if kind == "shared4":
        return f"unsigned {c}[4] = {{shared_base + 16 * (threadIdx.x & 7), 0, 0, 0}};"
    if kind in ("shared", "store"):
        return f"unsigned {c} = shared_base + 4 * (threadIdx.x & 31);"
    return f"unsigned {c} = seed_u + {chain}u;"


def collect(op, chain):
    kind = OPERATIONS[op][0]
    c = f"{op}{chain}"
    if kind == "mma":
        return f"sum += __float_as_uint({c}[0]) ^ __float_as_uint({c}[1]) ^ __float_as_uint({c}[2]) ^ __float_as_uint({c}[3]);"
    if kind == "shared4":
        return f"sum += {c}[0] ^ {c}[1] ^ {c}[2] ^ {c}[3];"
    return f"sum += __float_as_uint({c});" if kind == "float" else f"sum += {c};"


def linked_kernel(name, body, chains):
    """Every chain goes through all operations of `body` in turn, as in a real expression."""
    lines = []
    for op in body:
        kind, ptx = OPERATIONS[op]
        for chain in range(chains):
            a, b, code, type_name = ("fa", "fb", "f", "float") if kind in ("float", "bits") else ("ua", "ub", "r", "unsigned")
            into, out = ("__uint_as_float", "__float_as_uint") if type_name == "float" else ("", "")
            if kind == "bits":
                lines.append(f'    asm volatile("{ptx}" : "=r"(c{chain}) : "f"(__uint_as_float(c{chain})), "f"(fa));')
                continue
            inputs = ", ".join(f'"{code}"({x})' for x, slot in ((a, "%1"), (b, "%2")) if slot in ptx)
            lines.append(f'    {{ {type_name} t = {into}(c{chain}); asm volatile("{ptx}" : "+{code}"(t) : {inputs}); c{chain} = {out}(t); }}')
    declared = [f"  unsigned c{chain} = seed_u + {chain}u;" for chain in range(chains)]
    collected = [f"  sum += c{chain};" for chain in range(chains)]
    return wrap(name, declared, lines, collected)


def kernel(name, body, chains):
    if isinstance(chains, int):
        return linked_kernel(name, body, chains)
    used = {}
    lines = []
    for op in body:
        index = used.get(op, 0)
        used[op] = index + 1
        lines.append("    " + statement(op, index % chains[op]))
    slots = [(op, chain) for op in used for chain in range(min(chains[op], used[op]))]
    return wrap(name, ["  " + declaration(*slot) for slot in slots], lines, ["  " + collect(*slot) for slot in slots])


def wrap(name, declared, lines, collected, threads=1024):
    return "\n".join([
        f'extern "C" __global__ void __launch_bounds__({threads}) {name}(CORPUS_PARAMETERS) {{', "  CORPUS_PROLOGUE;",
        *declared, "  CORPUS_BEGIN;", "#pragma unroll 1",
        "  for (int i = 0; i < iterations; ++i) {", *lines, "  }", "  CORPUS_END;",
        *collected, "  CORPUS_EPILOGUE;", "}", ""])


def spread(counts):
    """The operations of `counts` interleaved as evenly as their numbers allow."""
    slots = [((i + 0.5) / n, op) for op, n in counts.items() for i in range(n)]
    return [op for _, op in sorted(slots)]


def in_runs(counts):
    return [op for op, n in counts.items() for _ in range(n)]


def loops():
    singles = [op for op in OPERATIONS if op not in ("lds", "lds128", "sts", "rcp")]  # a reciprocal of a reciprocal is folded away
    for op in singles:  # throughput with latency hidden, and latency alone
        width = 4 if op == "hmma" else 8
        yield f"{op}_wide", [op] * (4 * width if op != "hmma" else 16), {op: width}
        yield f"{op}_chain", [op] * 8, {op: 1}
    yield "lds_chain", ["lds"] * 8, {"lds": 1}
    yield "lds_wide", ["lds"] * 32, {"lds": 8}
    yield "lds128_wide", ["lds128"] * 16, {"lds128": 4}
    yield "sts_wide", ["sts"] * 16, {"sts": 1}
    for op in ("ffma", "lop3", "imad", "mufu", "shfl", "hmma"):
        yield f"{op}_ilp2", [op] * 16, {op: 2}
        yield f"{op}_ilp4", [op] * 16, {op: 4}
    pairs = [("mufu", 8, "f2fp", 8), ("mufu", 8, "ffma", 32), ("mufu", 4, "lop3", 16), ("ffma", 16, "lop3", 8),
             ("ffma", 16, "imad", 16), ("ffma", 24, "hfma2", 16), ("hfma2", 16, "imad", 8), ("hfma2", 16, "lop3", 16),
             ("imad", 16, "lop3", 16), ("prmt", 16, "lop3", 16), ("fmnmx", 16, "ffma", 16), ("fmnmx", 8, "f2fp", 16),
             ("f2fp", 16, "prmt", 8), ("f2fp", 16, "ffma", 16), ("f2fp8", 8, "ffma", 16), ("shfl", 4, "ffma", 24),
             ("shfl", 4, "lop3", 8), ("shfl", 8, "mufu", 8), ("hmma", 8, "mufu", 8), ("hmma", 8, "ffma", 32),
             ("hmma", 8, "lop3", 32), ("hmma", 8, "prmt", 24), ("imadhi", 8, "ffma", 24), ("popc", 4, "ffma", 16),
             ("shf", 8, "imad", 16), ("iadd3", 16, "ffma", 16), ("fadd", 16, "fmul", 16), ("rcp", 4, "fmul", 16)]
    for a, na, b, nb in pairs:
        counts, chains = {a: na, b: nb}, {a: min(na, 4), b: min(nb, 8)}
        yield f"{a}{na}_{b}{nb}_spread", spread(counts), chains
        yield f"{a}{na}_{b}{nb}_runs", in_runs(counts), chains
    expressions = {"exp": ["ffma", "mufu", "ffma", "f2fp"], "decode": ["shf", "lop3", "prmt", "hfma2"],
                   "reduce": ["shfl", "fmnmx", "shfl", "fmnmx", "ffma"], "hash": ["imad", "shf", "lop3", "imad"],
                   "scale": ["fmul", "fmnmx", "f2fp", "prmt", "lop3"], "poly": ["ffma"] * 6 + ["f2fp"]}
    for label, ops in expressions.items():
        for chains in (1, 2, 4, 8):
            yield f"{label}_linked{chains}", ops * 2, chains
    rng = random.Random(20)
    usable = ["ffma", "hfma2", "imad", "lop3", "prmt", "mufu", "f2fp", "fmnmx", "shfl", "hmma"]
    weight = {"ffma": 24, "hfma2": 16, "imad": 12, "lop3": 12, "prmt": 8, "mufu": 5, "f2fp": 8, "fmnmx": 8, "shfl": 4,
              "hmma": 4}
    for index in range(72):
        kinds = rng.sample(usable, rng.randint(3, 6))
        counts = {op: max(1, rng.randint(weight[op] // 4, weight[op])) for op in kinds}
        chains = {op: rng.choice([1, 2, 3, 4]) for op in kinds}
        body = in_runs(counts)
        if index % 3:
            rng.shuffle(body)
        yield f"mix{index:02d}", body, chains


WGMMA_N = (64, 128, 192, 256)


def wgmma_kernel(n):
    """Eight asynchronous m64nNk16 products and one wait an iteration: the tensor core's rate on shared operands."""
    registers = n // 2
    outs = ", ".join(f'"+f"(d[{i}])' for i in range(registers))
    names = ", ".join(f"%{i}" for i in range(registers))
    product = (f'    asm volatile("wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{names}}}, %{registers}, '
               f'%{registers + 1}, 1, 1, 1, 0, 0;" : {outs} : "l"(operand_a), "l"(operand_b));')
    return wrap(f"hgmma_n{n}",
                [f"  float d[{registers}];", "#pragma unroll", f"  for (int i = 0; i < {registers}; ++i) d[i] = seed_f + i;",
                 "  const unsigned long long operand_a = wgmma_descriptor(0), operand_b = wgmma_descriptor(8192);"],
                ['    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");', *[product] * 8,
                 '    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");',
                 '    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");'],
                ["#pragma unroll", f"  for (int i = 0; i < {registers}; ++i) sum += __float_as_uint(d[i]);"], threads=128)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    made = list(loops())
    assert len({name for name, _, _ in made}) == len(made)
    (folder / "kernels.cu").write_text(
        '#include "corpus.cuh"\n\n' + "\n".join(kernel(*loop) for loop in made) +
        "\n".join(wgmma_kernel(n) for n in WGMMA_N) + '\n#include "main.inc"\n')
    (folder / "table.inc").write_text("".join(f"CORPUS_LOOP({name}, 1, 32)\n" for name, _, _ in made) +
                                      "".join(f"CORPUS_LOOP(hgmma_n{n}, 4, 4)\n" for n in WGMMA_N))
    print(f"{len(made)} loops")


if __name__ == "__main__":
    main()
