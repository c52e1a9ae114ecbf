"""Segmented sieve of Eratosthenes: writes one byte a number, 1 for primes."""

import argparse
import os
import time


def sieve(limit, segment):
    flags = bytearray(b"\x01") * limit
    flags[0:2] = b"\x00\x00"
    base = []
    for begin in range(0, limit, segment):
        end = min(begin + segment, limit)
        if begin == 0:
            for number in range(2, end):
                if flags[number]:
                    base.append(number)
                    flags[number * number:end:number] = bytes(len(range(number * number, end, number)))
            continue
        for prime in base:
            if prime * prime >= end:
                break
            first = max(prime * prime, -(-begin // prime) * prime)
            flags[first:end:prime] = bytes(len(range(first, end, prime)))
    return flags


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int, required=True)
    parser.add_argument("--segment", type=int, required=True)
    options = parser.parse_args()
    start = time.perf_counter()
    flags = sieve(options.limit, options.segment)
    elapsed = time.perf_counter() - start
    with open(os.path.join(os.environ["PINCH_OUTPUTS"], "primes.bin"), "wb") as file:
        file.write(flags)
    print(f"time: {1e3 * elapsed:.4f} ms")


if __name__ == "__main__":
    main()
