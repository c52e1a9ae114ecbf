#!/usr/bin/env python3
"""Prints the README's table of the Hopper kernels from data/h200/gemm_bf16_fp4: the fastest measured tactic of each problem
beside cuBLAS bf16 (on the unquantised weights) and the pure read of the same run."""
import csv
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "data/h200/gemm_bf16_fp4"
NOT_TACTICS = {"null", "read", "cublas"}


def rows(file_format):
    for path in sorted(FOLDER.glob(f"*_{file_format}.csv")):
        with open(path, newline="") as file:
            found = list(csv.DictReader(file))
        cublas = {(r["n"], r["k"], r["m"]): float(r["median_us"]) for r in found if r["tactic"] == "cublas"}
        for row in found:
            if row["tactic"] not in NOT_TACTICS:
                problem = (row["n"], row["k"], row["m"])
                yield tuple(map(int, problem)), row, cublas.get(problem) or float(row["cublas_us"])


def main(file_format="nvfp4"):
    best = {}
    for problem, row, cublas in rows(file_format):
        if problem not in best or float(row["median_us"]) < float(best[problem][0]["median_us"]):
            best[problem] = (row, cublas)
    if not best:
        sys.exit(f"h200_table: no rows for {file_format!r}; formats are nvfp4 and mxfp4")
    print("| n × k | m | µs | cuBLAS bf16 µs | speed-up | tactic |\n|---|---|---|---|---|---|")
    for (n, k, m), (row, cublas) in sorted(best.items()):
        time = float(row["median_us"])
        print(f"| {n}×{k} | {m} | {time:.1f} | {cublas:.1f} | {cublas / time:.2f} | `{row['tactic']}` |")


if __name__ == "__main__":
    main(*sys.argv[1:2])
