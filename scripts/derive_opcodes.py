#!/usr/bin/env python3
"""Derives data/sass/opcodes.json, the opcode names that `pinch sass` uses without a disassembler, from builds of our own.

    derive_opcodes.py CUBIN... >data/sass/opcodes.json

Each cubin is disassembled with nvdisasm (on PATH). Bits 0-8 of the word choose the operation; bits 9-11 say where its operands
come from (register, constant, immediate, uniform register), which changes no name, so that an operation seen in one form is
known in all. The few operations that share their bits say in DECIDED which other bits choose the name. Modifiers that rates
depend on are fields whose place is given below and whose values are read off the builds. What no build of one architecture
shows is taken from the nearest one: operations have kept their bits (the script checks that no two builds disagree).
"""

import collections
import json
import re
import subprocess
import sys

SOURCE = ("own builds with CUDA 13.0: the kernels and tiny cubins of tests/data/sass, data/sass/h200_loops.cubin, "
          "scripts/opcode_coverage.cu and tests/gpu/support/output_check.cu, by scripts/derive_opcodes.py")

# base name: (first bit, bits, which part of the mnemonic the field chooses)
FIELDS = {
    "MUFU": (74, 4, r"^MUFU\.([A-Z0-9]+)"),
    "LDS": (73, 3, r"^LDS\.(?:.*\.)?(64|128|U8|S8|U16|S16)\b"),
    "STS": (73, 3, r"^STS\.(?:.*\.)?(64|128|U8|U16)\b"),
    "LDG": (73, 3, r"^LDG\.(?:.*\.)?(64|128|U8|S8|U16|S16)\b"),
    "STG": (73, 3, r"^STG\.(?:.*\.)?(64|128|U8|U16)\b"),
    "LDL": (73, 3, r"^LDL\.(?:.*\.)?(64|128|U8|S8|U16|S16)\b"),
    "STL": (73, 3, r"^STL\.(?:.*\.)?(64|128|U8|U16)\b"),
    "LDSM": (72, 2, r"^LDSM\.(?:.*\.)?(2|4)\b"),
    "STSM": (72, 2, r"^STSM\.(?:.*\.)?(2|4)\b"),
    "WARPGROUP": (80, 1, r"^WARPGROUP\.(ARRIVE|DEPBAR)"),
    "HMMA": (75, 4, r"^HMMA\.(16816|1688|1684)\b"),
    "USETMAXREG": (72, 2, r"^USETMAXREG\.(DEALLOC|TRY_ALLOC)"),
}
# Operations that several names share, and the bits that tell them apart.
DECIDED = {
    0x1AB: (9, 10, 11),  # ERRBAR, CGAERRBAR
    0x1C7: (9, 10, 11),  # UCGABAR_ARV, UCGABAR_WAIT
    0x1EA: (63, 72, 73),  # UTCHMMA, UTCQMMA, UTCIMMA, UTCOMMA
}
# Opcodes of their own whose names share a base with others.
OWN_NAMES = ("HFMA2.MMA", "IMAD.HI", "IMAD.WIDE")
WORDS = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s*/\* 0x([0-9a-f]{16}) \*/\s*\n\s*/\* 0x([0-9a-f]{16}) \*/")


def instructions(cubin):
    text = subprocess.run(["nvdisasm", "-c", "-hex", cubin], check=True, capture_output=True, text=True).stdout
    sm = re.search(r"\.target\s+sm_(\d+)", text).group(1)
    for _, body, low, high in WORDS.findall(text):
        yield sm, re.sub(r"^@\S+\s+", "", body).split()[0], int(low, 16) | int(high, 16) << 64


def chosen_by(word, bits):
    return sum((word >> bit & 1) << place for place, bit in enumerate(bits))


def tables(names, sm):
    """Operations with one name, and those that bits of DECIDED tell apart."""
    opcodes, shared = {}, {}
    for operation, values in sorted(names.items()):
        clashes = {value: dict(count) for value, count in values.items() if len(count) > 1}
        if clashes:
            print(f"sm_{sm}: left out, operation {operation:#x} has several names: {clashes}", file=sys.stderr)
        elif operation in DECIDED:
            shared[f"{operation:#05x}"] = {"bits": DECIDED[operation], "values": {str(v): next(iter(c)) for v, c in sorted(values.items())}}
        else:
            opcodes[f"{operation:#05x}"] = next(iter(values[0]))
    return opcodes, shared


def main():
    names = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(collections.Counter)))
    fields = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(collections.Counter)))
    for cubin in sys.argv[1:]:
        for sm, mnemonic, word in instructions(cubin):
            base = mnemonic.split(".")[0]
            operation = word & 0x1FF
            own = next((name for name in OWN_NAMES if (mnemonic + ".").startswith(name + ".")), base)
            names[sm][operation][chosen_by(word, DECIDED.get(operation, ()))][own] += 1
            if base in FIELDS and own == base:
                bit, bits, pattern = FIELDS[base]
                found = re.search(pattern, mnemonic)
                fields[sm][base][word >> bit & (1 << bits) - 1][found.group(1) if found else ""] += 1
    document = {"source": SOURCE, "key": "bits 0-8 of the word", "archs": {}}
    for sm in sorted(names, key=int):
        opcodes, shared = tables(names[sm], sm)
        own = len(opcodes)
        for other in sorted(set(names) - {sm}, key=lambda o: abs(int(o) - int(sm))):
            more, more_shared = tables(names[other], other)
            opcodes, shared = {**more, **opcodes}, {**more_shared, **shared}
        chosen = {}
        for base, values in sorted(fields[sm].items()):
            bit, bits, _ = FIELDS[base]
            if any(len(count) > 1 for count in values.values()):
                print(f"sm_{sm}: {base}: the field at bit {bit} does not decide: { {v: dict(c) for v, c in values.items()} }", file=sys.stderr)
                continue
            chosen[base] = {"bit": bit, "bits": bits, "values": {str(v): count.most_common(1)[0][0] for v, count in sorted(values.items())}}
        document["archs"][sm] = {"opcodes": dict(sorted(opcodes.items())), "shared": dict(sorted(shared.items())), "fields": chosen}
        print(f"sm_{sm}: {own} operations of its own, {len(opcodes)} with those of other architectures", file=sys.stderr)
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
