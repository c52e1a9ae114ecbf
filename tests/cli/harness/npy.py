"""Writes .npy files without NumPy."""

import array
import struct


def write_npy(path, values, shape, kind="<f4"):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (117 - len(header)) + b"\n"
    code = {"<f4": "f", "<f8": "d"}[kind]
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + array.array(code, values).tobytes())
