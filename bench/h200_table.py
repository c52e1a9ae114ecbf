#!/usr/bin/env python3
"""Prints the README's table of the Hopper kernels from data/h200/gemm_bf16_fp4/sm90_time.csv, which sm90_time wrote: for each
problem the tactic that was fastest in a first round, timed again in a second ("us": the capture that no choice looked at),
beside cuBLAS bf16 (on the unquantised weights) and one read of the prepared weights, all in the same run.

    h200_table.py [nvfp4|mxfp4] [FILE]
"""
import csv
import pathlib
import sys

FILE = pathlib.Path(__file__).resolve().parent.parent / "data/h200/gemm_bf16_fp4/sm90_time.csv"
YARDSTICKS = {"null", "read", "cublas"}


def main(file_format="nvfp4", path=FILE):
    with open(path, newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["format"] == file_format]
    if not rows:
        sys.exit(f"h200_table: no rows for {file_format!r} in {path}; formats are nvfp4 and mxfp4")
    problems = {}
    for row in rows:
        problems.setdefault(tuple(int(row[c]) for c in "nkm"), []).append(row)
    print("| n × k | m | µs | fastest of a round | of | cuBLAS bf16 µs | read µs | speed-up | tactic |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (n, k, m), found in sorted(problems.items()):
        yardstick = {r["family"]: float(r["median_us"]) for r in found if r["family"] in YARDSTICKS and r["round"] == "final"}
        first = [r for r in found if r["family"] not in YARDSTICKS and r["round"] == "all"]
        best = min(first, key=lambda r: float(r["median_us"]))
        # The pick is captured twice in the second round; the later capture is the one that nothing was chosen by.
        again = [float(r["median_us"]) for r in found if r["round"] == "final" and r["tactic"] == best["tactic"]][-1]
        print(f"| {n}×{k} | {m} | {again:.1f} | {float(best['median_us']):.1f} | {len(first)} | {yardstick['cublas']:.1f} | "
              f"{yardstick['read']:.1f} | {yardstick['cublas'] / again:.2f} | `{best['tactic']}` |")


if __name__ == "__main__":
    main(*sys.argv[1:3])
