"""make_seeds.py FOLDER: writes the fuzz targets' seeds, FOLDER/<target>/*: whole files, and one for each kind of break."""

import json
import pathlib
import struct
import sys


def safetensors(tensors, data, metadata=None):
    header = {"__metadata__": metadata} if metadata else {}
    header |= {name: {"dtype": dtype, "shape": shape, "data_offsets": offsets}
               for name, (dtype, shape, offsets) in tensors.items()}
    return raw(json.dumps(header).encode(), data)


def raw(header, data=b""):
    return struct.pack("<Q", len(header)) + header + data


def npy(descr, order, shape, data, version=(1, 0)):
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H" if version[0] == 1 else "<I", len(header)) + header + data


SAFETENSORS = {
    "empty": raw(b"{}"),
    "metadata": safetensors({}, b"", {"format": "pt"}),
    "two": safetensors({"a.weight": ("F32", [2, 2], [0, 16]), "a.bias": ("BF16", [2], [16, 20])}, bytes(range(20))),
    "nvfp4": safetensors({"w": ("U8", [1, 8], [0, 8]), "w_scale": ("F8_E4M3", [1, 1], [8, 9]),
                          "w_scale_2": ("F32", [], [9, 13])}, bytes(13)),
    "nvfp4_packed": safetensors({"w_packed": ("U8", [2, 8], [0, 16]), "w_scale": ("F8_E4M3", [2, 1], [16, 18]),
                                 "w_global_scale": ("F32", [1], [18, 22])}, bytes(18) + struct.pack("<f", 2)),
    "mxfp4": safetensors({"w": ("U8", [1, 16], [0, 16]), "w_scale": ("U8", [1, 1], [16, 17])}, bytes([0x7f] * 17)),
    "plain": safetensors({"w": ("BF16", [1, 16], [0, 32])}, bytes(32)),
    "sub_byte": safetensors({"a": ("F4", [2, 4], [0, 4]), "b": ("F6_E2M3", [4], [4, 7])}, bytes(7)),
    "no_elements": safetensors({"a": ("F64", [0, 5], [0, 0]), "b": ("I64", [], [0, 8])}, bytes(8)),
    "escaped": raw(rb'{"\u0061\n":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x"),
    "padded": raw(b"{}" + b" " * 30),
    "duplicate": raw(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
    "overlap": safetensors({"a": ("U8", [4], [0, 4]), "b": ("U8", [4], [2, 6])}, bytes(6)),
    "gap": safetensors({"a": ("U8", [4], [2, 6])}, bytes(6)),
    "overflow": safetensors({"a": ("F64", [2**62, 4], [0, 0])}, b""),
    "past_end": safetensors({"a": ("U8", [4], [0, 4])}, bytes(2)),
    "long_header": struct.pack("<Q", 2**63) + b"{}",
    "truncated": b"\x02\x00\x00",
    "not_json": raw(b"{not json}"),
    "nested": raw(b'{"a":' + b"[" * 50),
    "nul": raw(b"{}\x00{}"),
}

NPY = {
    "vector": npy("'<f4'", False, "(2,)", bytes(8)),
    "matrix": npy("'<f2'", False, "(2, 3)", bytes(12)),
    "scalar": npy("'|u1'", False, "()", bytes(1)),
    "version_2": npy("'<f8'", False, "(1,)", bytes(8), (2, 0)),
    "version_3": npy("'<i4'", True, "(1, 2)", bytes(8), (3, 0)),
    "column_major": npy("'<f4'", True, "(2, 2)", bytes(16)),
    "structured": npy("[('a', '<f4')]", False, "(1,)", bytes(4)),
    "big_endian": npy("'>f4'", False, "(1,)", bytes(4)),
    "overflow": npy("'<f4'", False, "(4294967296, 4294967296)", b""),
    "short_data": npy("'<f4'", False, "(4,)", bytes(4)),
    "bad_magic": b"\x93NUMPX\x01\x00",
    "long_header": b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
}

EXPRESSION = {str(at): text.encode() for at, text in enumerate([
    "tile_m * tile_n <= 4096 and k % tile_k == 0", "ceil_div(m, tile) == 1 or layout == 'row'", "-x / 0.5 > abs(y - 3)",
    "not (a < b) and max(a, b, 3) >= floor_div(7, c)", "((1))", "x == 9223372036854775807 + 1", "a % b % c != 0"])}

SASS_DATA = pathlib.Path(__file__).parent.parent / "data" / "sass"


def fatbin(kind, payload):
    return (struct.pack("<IHHQ", 0xba55ed50, 1, 16, 64 + len(payload)) +
            struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(payload), 0, 0, 0, 9, 90, 0, 0, 0x11, 0, 0) + payload)


def sass():
    cubin, cubin12, text, ptx, every, ranges = ((SASS_DATA / name).read_bytes() for name in (
        "tiny.sm_90a.cubin", "tiny.cuda12.sm_90a.cubin", "tiny.nvdisasm.txt", "tiny.ptx", "tiny.all.txt", "tiny.plr.txt"))
    header = struct.pack("<H", 2) + struct.pack("<I", 35) + bytes([1, 1, 251, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1]) + b"src\0\0k.cu\0\1\0\0a.h\0\0\0\0\0"
    lines = header + bytes([0, 9, 2]) + bytes(8) + bytes([3, 9, 1, 30, 0, 3, 0x90, 1, 2, 4, 2, 2, 16, 1, 0, 1, 1])
    return {"lines": struct.pack("<I", len(lines)) + lines, "cubin": cubin, "cubin_cuda12": cubin12, "text": text, "ptx": ptx, "fatbin_cubin": fatbin(2, cubin), "fatbin_ptx": fatbin(1, ptx),
            "text_every": every, "text_ranges": ranges, "text_marked": b"\xef\xbb\xbf" + text,
            "cubin_cut": cubin[:2000], "text_cut": text[:1500], "text_crlf": text.replace(b"\n", b"\r\n"),
            "fatbin_compressed": fatbin(1, ptx).replace(struct.pack("<Q", 0x11), struct.pack("<Q", 0x8011), 1)}


def trace_file(tracks, bits=64, hz=10**9, roles=("producer", "consumer"), level=1, extra=b""):
    """tracks: (group, emitted, [(first, [(ticks, value, name, kind)])])"""
    def name(text, start=-1, flags=0):
        return struct.pack("<48siIQ", text.encode(), start, flags, 0)

    out = struct.pack("<8s10IQQ48s", b"PINCHTRC", 1, level, len(roles), 2, 1, len(tracks), 1, 0, bits, 0, hz, 0, b"seed")
    out += b"".join(name(role, flags=at % 2) for at, role in enumerate(roles)) + name("slot", 1) + name("P", 0) + name("load")
    out += struct.pack("<Q", 5000)
    for group, emitted, _ in tracks:
        out += struct.pack("<4I7Q", group, 0, 0, 0, 100, 100, 10100, 10100, emitted, 0, 0)
    for at, (_, _, blocks) in enumerate(tracks):
        for first, events in blocks:
            out += struct.pack("<IIQQ", 0x4b434c42, at, first, len(events))
            out += b"".join(struct.pack("<QIHBB", *event, 0) for event in events)
    return out + extra


def trace():
    steps = [event for i in range(20) for event in ((100 + 100 * i, i, 0, 1), (160 + 100 * i, 40, 0, 2))] + [(2100, 0, 0, 4)]
    other = [event for i in range(20) for event in ((100 + 100 * i, i, 1, 1), (130 + 100 * i, 0, 0, 3), (150 + 100 * i, 50, 1, 2))]
    whole = trace_file([(0, 41, [(0, steps)]), (0, 60, [(0, other)])])
    return {"whole": whole, "out_of_order": trace_file([(0, 41, [(21, steps[21:]), (0, steps[:21])])]), "cut": whole[:700],
            "lost": trace_file([(0, 500, [(30, steps[:20]), (400, steps[20:])])]), "empty": trace_file([]), "bits": trace_file([(1, 41, [(0, steps)])], 32),
            "overlap": trace_file([(0, 41, [(0, steps), (5, steps[:3])])]), "long": trace_file([(0, 2, [(0, [(0, 0, 0, 1), (2**63, 2**32 - 1, 0, 2)])])])}


def main(folder):
    for target, seeds in (("safetensors", SAFETENSORS), ("npy", NPY), ("planted", SAFETENSORS), ("sass", sass()), ("expression", EXPRESSION),
                          ("trace", trace())):
        place = pathlib.Path(folder) / target
        place.mkdir(parents=True, exist_ok=True)
        for name, content in seeds.items():
            (place / name).write_bytes(content)


if __name__ == "__main__":
    main(sys.argv[1])
