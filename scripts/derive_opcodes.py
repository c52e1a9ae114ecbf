#!/usr/bin/env python3
"""Derives data/sass/opcodes.json, the opcode names that `pinch sass` uses without a disassembler, from builds of our own.

    derive_opcodes.py CUBIN... >data/sass/opcodes.json

Each cubin is disassembled with nvdisasm (on PATH). Opcodes are bits 0-11 and 91 of the word; the form bits 9-11 (register,
constant or immediate operand) stay part of the key. Modifiers that rates depend on are fields whose place is given below
and whose values are read off the builds.
"""

import collections
import json
import re
import subprocess
import sys

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
    "USETMAXREG": (72, 2, r"^USETMAXREG\.(DEALLOC|TRY_ALLOC)"),
}
# Opcodes of their own whose names share a base with others.
OWN_NAMES = ("HFMA2.MMA", "IMAD.HI", "IMAD.WIDE")
WORDS = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s*/\* 0x([0-9a-f]{16}) \*/\s*\n\s*/\* 0x([0-9a-f]{16}) \*/")


def instructions(cubin):
    text = subprocess.run(["nvdisasm", "-c", "-hex", cubin], check=True, capture_output=True, text=True).stdout
    sm = re.search(r"\.target\s+sm_(\d+)", text).group(1)
    for _, body, low, high in WORDS.findall(text):
        yield sm, re.sub(r"^@\S+\s+", "", body).split()[0], int(low, 16) | int(high, 16) << 64


def main():
    names = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    fields = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(collections.Counter)))
    for cubin in sys.argv[1:]:
        for sm, mnemonic, word in instructions(cubin):
            base = mnemonic.split(".")[0]
            key = word & 0xFFF | (word >> 91 & 1) << 12
            own = next((name for name in OWN_NAMES if (mnemonic + ".").startswith(name + ".")), base)
            names[sm][key][own] += 1
            if base in FIELDS:
                bit, bits, pattern = FIELDS[base]
                found = re.search(pattern, mnemonic)
                fields[sm][base][word >> bit & (1 << bits) - 1][found.group(1) if found else ""] += 1
    document = {"source": "own builds with CUDA 13.0: tests/data/sass, bench/sass_corpus and scripts/opcode_coverage.cu, by scripts/derive_opcodes.py",
                "key": "bits 0-11 of the word, plus bit 91 as bit 12", "archs": {}}
    for sm in sorted(names, key=int):
        clashes = {f"{key:#x}": dict(count) for key, count in names[sm].items() if len(count) > 1}
        if clashes:
            print(f"sm_{sm}: left out, one key has several names: {clashes}", file=sys.stderr)
        table = {f"{key:#06x}": next(iter(count)) for key, count in sorted(names[sm].items()) if len(count) == 1}
        chosen = {}
        for base, values in sorted(fields[sm].items()):
            bit, bits, _ = FIELDS[base]
            pure = all(len(count) == 1 for count in values.values())
            if not pure:
                print(f"sm_{sm}: {base}: the field at bit {bit} does not decide: { {v: dict(c) for v, c in values.items()} }", file=sys.stderr)
                continue
            chosen[base] = {"bit": bit, "bits": bits, "values": {str(v): count.most_common(1)[0][0] for v, count in sorted(values.items())}}
        document["archs"][sm] = {"opcodes": table, "fields": chosen}
        print(f"sm_{sm}: {len(table)} opcodes", file=sys.stderr)
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
