#!/usr/bin/env python3
"""What NVFP4 of P costs in its linear and its log form, counted: instructions, and cycles by the machine model.

    bench/attention_algebra.py --cpu build --cuda build-cuda --csv data/h200/attention/algebra.csv

quantiser   one group of 16 keys a thread and step (kernels/attention/cuda/quantizer.cu), compiled for 90a, 100a, 103a
kernel      the fp4 attention kernels in a build with PINCH_TACTICS=full, dim 64 and 128: one step of a consumer warp (64
            queries of its warpgroup by 128 keys), and what a sub-partition of the SM issues for a key tile
cpu         softmax of a row, from the disassembly of cpu/avx512.cc: one group of 16 keys; cycles by the rates of a core
            (data/machines/emerald-rapids-rates.json): all vector instructions as of one unit, for there all of 512 bits
            share two ports, or loads, or stores

A sub-partition runs a warp of each of the two consumer warpgroups: simulated, taking turns fairly. Two of the four also run
a warp that decodes V, the same in both forms, and all warps of a warpgroup wait for the slowest: their issue slots are counted.
"""

import argparse
import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GROUP = 16
FORMS = ("linear", "log")


def sass(pinch, *arguments):
    """Kernels of `pinch sass`."""
    flags = f"-std=c++20 -I{ROOT} -I{ROOT / 'include'}"
    run = subprocess.run([pinch, "sass", *map(str, arguments), "--json", "-"], capture_output=True, text=True, check=False,
                         env={**os.environ, "NVCC_APPEND_FLAGS": flags})
    if run.returncode != 0:
        sys.exit(f"pinch sass: {run.stderr.strip()}")
    return json.loads(run.stdout)["kernels"]


def only(found, what):
    if len(found) != 1:
        sys.exit(f"{what}: one was expected, {len(found)} found")
    return found[0]


def row(where, form, unit, instructions, keys, cycles, by):
    return {"where": where, "form": form, "of": unit, "instructions": instructions,
            "a_key": round(instructions / keys, 3) if keys else "", "cycles": cycles, "bound_by": by}


def quantiser(pinch):
    kernels = sass(pinch, ROOT / "kernels/attention/cuda/quantizer.cu", "--arch", "90a,100a,103a")
    for arch in ("sm_90a", "sm_100a", "sm_103a"):
        for form in FORMS:
            kernel = only([k for k in kernels if k["arch"] == arch and k["name"] == f"quantize_{form}"], f"{arch} {form}")
            loop = only([each for each in kernel["loops"] if not each["spins"]], f"{arch} {form}: loops")
            yield row(f"quantiser {arch}", form, "a group of a thread", loop["instructions"], GROUP, loop["bound_cycles"],
                      loop["bound_by"])


def step_loop(kernel, tensor):
    """The innermost loop of consumers that multiplies (one that masks comes before it and is longer), or of decoders."""
    loops = [loop for loop in kernel["loops"] if not loop["spins"]]
    if tensor:
        of_tensor = [loop for loop in loops if loop["pipes"].get("tensor")]
        deepest = max(loop["depth"] for loop in of_tensor)
        return min((loop for loop in of_tensor if loop["depth"] == deepest), key=lambda loop: loop["instructions"])
    inner = [loop for loop in loops if loop["role"] == "producer" and loop["opcodes"].get("HMUL2.BF16", 0) +
             loop["opcodes"].get("HMUL2.BF16_V2", 0) + loop["opcodes"].get("HMUL2", 0) > 0]
    return max(inner, key=lambda loop: loop["depth"])


def kernel_rows(pinch, build, dim):
    names = {"linear": f"d{dim}_kBf16_kFp4_q128_kv128_stages2.cu.o", "log": f"d{dim}_kBf16_kFp4_q128_kv128_stages2_quantkLog.cu.o"}
    where = f"kernel sm_90a, dim {dim}"
    for form in FORMS:
        path = only(sorted(build.rglob(names[form])), f"{names[form]} under {build}")
        kernel = only(sass(pinch, path, "--kernel", "attention_kernel"), f"{path}: kernels")
        step = step_loop(kernel, True)
        yield row(where, form, "a step of a consumer warp", step["instructions"], 0, step["bound_cycles"],
                  step["bound_by"])
        both = step_loop(only(sass(pinch, path, "--kernel", "attention_kernel", "--warps", 2), f"{path}: kernels"), True)
        yield row(where, form, "two consumer warps of a sub-partition, simulated", 2 * step["instructions"], 0,
                  round(both["fair_cycles"], 1), "simulation")
        # A thread that decodes has two blocks of 16 keys by 8 columns of a tile, of dim 64 one, and what surrounds them once.
        inner = step_loop(kernel, False)
        outer = min((loop for loop in kernel["loops"] if not loop["spins"] and loop["begin"] < inner["begin"] and
                     inner["end"] < loop["end"]), key=lambda loop: loop["end"] - loop["begin"])
        pipes = {unit: 2 * step["pipes"].get(unit, 0) + dim // 64 * inner["pipes"].get(unit, 0) + outer["pipes"].get(unit, 0)
                 for unit in ("issue", "alu", "fma", "xu", "tensor")}
        busiest = max(pipes, key=pipes.get)
        yield row(where, form, "a key tile of a sub-partition with a decoding warp", pipes["issue"], 0,
                  pipes[busiest], busiest)


def loops_of(instructions):
    """(first, last) places of every backward jump."""
    places = {address: i for i, (address, _, _) in enumerate(instructions)}
    found = []
    for i, (_, mnemonic, operands) in enumerate(instructions):
        target = re.match(r"([0-9a-f]+)\b", operands)
        if mnemonic.startswith("j") and target and int(target[1], 16) in places and places[int(target[1], 16)] <= i:
            found.append((places[int(target[1], 16)], i))
    return found


# Entries of the machine model that a mnemonic is counted as: one with the very opcode, or one of its kind.
CPU_ENTRIES = (("vfn?m(add|sub)", "fma"), ("vmulp", "mul"), ("v(add|sub)[ps]s", "add"), ("v(max|min)[ps]s", "max"), ("vdivp", "div"),
               ("vp(add|sub)d", "add.i32"), ("vp?(and|or|xor)", "and"), ("vps[rl]ld", "shift.i16"), ("vcmp", "max"), ("vrndscale", "add"),
               ("v(extract|perm|shuf|insert|pmov|pack|unpck|pbroadcast|broadcast)", "shufb"), ("vcvt", "cvt.bf16"), ("vscalef", "scalef"))


def cpu_cycles(weighted, rates):
    """Cycles of a group, and what binds: of (instruction, how often a group)."""
    cycles = {"vector": 0.0, "load": 0.0, "store": 0.0}
    for (_, mnemonic, operands), times in weighted:
        if not mnemonic.startswith("v"):
            continue
        operands = operands.split("#")[0]
        width = 512 if "zmm" in operands else 256
        memory = operands.count("(") > 0 or "{1to16}" in operands
        to_memory = memory and re.search(r"\)(\{%k\d\})?\s*$", operands) is not None
        if memory:
            cycles["store" if to_memory else "load"] += times / rates[f"{'store' if to_memory else 'load'}.{width}"]
        entry = next((name for pattern, name in CPU_ENTRIES if re.match(pattern, mnemonic)), None)
        if entry and not (memory and entry == "shufb" and "broadcast" in mnemonic):
            # Broadcasts of memory and moves take no vector port; what no entry of 256 bits is for counts as of 512.
            cycles["vector"] += times / rates.get(f"{entry}.{width}", rates[f"{entry}.512"])
        elif not entry and not re.match("v(mov|zero)", mnemonic):
            sys.exit(f"{mnemonic}: no entry of the machine model to count it as")
    busiest = max(cycles, key=cycles.get)
    return round(cycles[busiest], 2), busiest


def cpu(build):
    model = json.loads((ROOT / "data/machines/emerald-rapids-rates.json").read_text())
    rates = {entry["name"]: entry["value"] for entry in model["entries"]}
    built = only([path for path in build.rglob("avx512.cc.o") if "attention.dir" in str(path)], f"avx512.cc.o under {build}")
    text = subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", built], capture_output=True, text=True, check=True).stdout
    functions, current = {}, None
    for line in text.splitlines():
        if header := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            current = functions.setdefault(header[1], [])
        elif (code := re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*)$", line)) and current is not None:
            current.append((int(code[1], 16), code[2], code[3]))
    for form in FORMS:
        name = only([each for each in functions if re.search(rf"::{form}<3, pinch::Bf16>\(", each)], f"{form} in {built}")
        loops = loops_of(functions[name])
        # The loop over blocks of 16 groups is the one around others; what it has beside them serves 16 groups.
        block = max(loops, key=lambda loop: loop[1] - loop[0])
        inner = [loop for loop in loops if block[0] <= loop[0] and loop[1] <= block[1] and loop != block]
        each_group = sum(last - first + 1 for first, last in inner)
        count = each_group + (block[1] - block[0] + 1 - each_group) / GROUP
        code = functions[name]
        weighted = [(code[i], 1 if any(first <= i <= last for first, last in inner) else 1 / GROUP)
                    for i in range(block[0], block[1] + 1)]
        yield row("cpu avx512, degree 3, bf16", form, "a group", round(count, 2), GROUP, *cpu_cycles(weighted, rates))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", type=Path, help="build folder whose avx512.cc is disassembled; has bin/pinch")
    parser.add_argument("--cuda", type=Path, help="build folder with the fp4 attention kernels (PINCH_TACTICS=full)")
    parser.add_argument("--csv", type=Path, help="write the rows there")
    arguments = parser.parse_args()
    pinch = only([build / "bin/pinch" for build in (arguments.cpu, arguments.cuda) if build and (build / "bin/pinch").exists()][:1],
                 "bin/pinch in a build folder")
    rows = [*quantiser(pinch)]
    if arguments.cuda:
        for dim in (64, 128):
            rows += kernel_rows(pinch, arguments.cuda, dim)
    if arguments.cpu:
        rows += cpu(arguments.cpu)
    for linear in (each for each in rows if each["form"] == "linear"):
        log = only([each for each in rows if each["form"] == "log" and (each["where"], each["of"]) == (linear["where"], linear["of"])],
                   linear["where"])
        cycles = f"; {linear['cycles']} and {log['cycles']} cycles ({linear['bound_by']}, {log['bound_by']}): " \
                 f"{100 * (linear['cycles'] / log['cycles'] - 1):.1f}%" if linear["cycles"] else ""
        print(f"{linear['where']}, {linear['of']}: {linear['instructions']} linear, {log['instructions']} log"
              f" ({(linear['instructions'] - log['instructions']) / GROUP:.2f} a key removed){cycles}" if linear["a_key"] else
              f"{linear['where']}, {linear['of']}: {linear['instructions']} linear, {log['instructions']} log{cycles}")
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
