"""Reads and writes .safetensors files and decodes FP4, without the program under test."""

import array
import json
import math
import struct

E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
E2M1 += [-value for value in E2M1]


def e4m3(code):
    """The value of an OCP E4M3 code."""
    sign, exponent, fraction = code >> 7, code >> 3 & 15, code & 7
    if exponent == 15 and fraction == 7:
        return math.nan
    value = math.ldexp(fraction, -9) if exponent == 0 else math.ldexp(8 + fraction, exponent - 10)
    return -value if sign else value


def write(path, tensors, metadata=None):
    """Writes {name: (dtype, shape, bytes or an iterable of bytes and its length)} in the order given."""
    header, at = ({"__metadata__": metadata} if metadata else {}), 0
    for name, (dtype, shape, data) in tensors.items():
        size = len(data) if isinstance(data, bytes) else data[1]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            for piece in [data] if isinstance(data, bytes) else data[0]:
                file.write(piece)


def read(path):
    """(metadata, {name: (dtype, shape, bytes)})"""
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    metadata = header.pop("__metadata__", {})
    data = content[8 + length:]
    return metadata, {name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
                      for name, entry in header.items()}


def f32(values):
    return array.array("f", values).tobytes()


def decode(codes, scales, columns, group, scale_of, alpha):
    """The weights of packed codes, row by row: code * scale * alpha."""
    weights = []
    for at, byte in enumerate(codes):
        for nibble, column in ((byte & 15, 2 * at), (byte >> 4, 2 * at + 1)):
            row, within = divmod(column, columns)
            weights.append(E2M1[nibble] * scale_of(scales[row * (columns // group) + within // group]) * alpha)
    return weights
