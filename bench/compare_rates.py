#!/usr/bin/env python3
"""Rates that `pinch probe` measured beside those that are stated for a device.

    pinch probe --out here.json && bench/compare_rates.py here.json data/machines/zen4.json
    pinch probe --device cuda --arch 90a --out gpu.json && bench/compare_rates.py gpu.json data/machines/h200-stated.json

A model of the same device, or one that says in `applies_to` that it speaks of it, decides: at least SHARE of what it states
must be measured, unmarked, and agree, else exit code 1, as where it states nothing that decides; what the stated model marks is of another loop and decides
nothing. On another device the table is printed all the same, and it says that this
decides nothing.
Pairs are compared by how much of the most that is possible they overlap.
"""

import argparse
import json
import re
import sys


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            model = json.load(file)
    except (OSError, ValueError) as error:
        sys.exit(f"compare_rates: {path}: {error}; give two files that `pinch probe --out` wrote or data/machines holds")
    if not isinstance(model, dict) or model.get("schema") != "pinch-probe/1":
        sys.exit(f"compare_rates: {path}: the schema is not pinch-probe/1")
    try:
        for name, (value, spread, unit, _) in figures(model).items():
            if not (value is None or value > 0) or not spread >= 0 or not isinstance(unit, str):
                raise TypeError(f"{name}: value must be above 0 or null, spread 0 or more, unit a text")
        model["device"], model["name"]
        re.compile(model.get("applies_to", ""))
    except (KeyError, TypeError, AttributeError, ZeroDivisionError, re.error) as error:
        sys.exit(f"compare_rates: {path}: no machine model: {type(error).__name__} {error}")
    return model


def figures(model):
    """Name -> (value, spread, unit, mark) of every entry and pair; the value is None where there is none."""
    found = {e["name"]: (e["value"], e["spread"], e["unit"], e.get("mark", "")) for e in model["entries"]}
    for pair in model.get("pairs", []):
        share = None if pair["overlap"] is None else pair["overlap"] / pair["most"]
        found[f"{pair['first']} + {pair['second']}"] = (share, pair["spread"], "of the most overlap", pair.get("mark", ""))
    return found


def off(measured, stated, spread):
    """How far a value lies outside what is stated: value x (1 +- spread / 2)."""
    least, most = stated * (1 - spread / 2), stated * (1 + spread / 2)
    return min(measured / least - 1, 0) + max(measured / most - 1, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured")
    parser.add_argument("stated")
    parser.add_argument("--within", type=float, default=3, metavar="PERCENT")
    parser.add_argument("--share", type=float, default=0.9)
    options = parser.parse_args()
    measured, stated = read(options.measured), read(options.stated)
    mine, theirs = figures(measured), figures(stated)
    agree, deciding = 0, sum(value is not None and not mark for value, *_, mark in theirs.values())
    for name, (value, spread, unit, other) in theirs.items():
        mark = other or (mine[name][3] if name in mine else "")
        note = f"  [{mark}]" if mark else ""
        if value is None:
            print(f"{name:<28} stated      none{note}")
            continue
        if name not in mine or mine[name][0] is None:
            print(f"{name:<28} stated {value:9.3f}  not measured{note}")
            continue
        if mine[name][2] != unit:
            print(f"{name:<28} stated {value:9.3f} {unit}  measured in {mine[name][2]}  <- outside{note}")
            continue
        distance = off(mine[name][0], value, spread)
        within = abs(distance) <= options.within / 100
        agree += within and not mark
        print(f"{name:<28} stated {value:9.3f}  measured {mine[name][0]:9.3f} {unit:<24} {100 * distance:+6.1f}% "
              f"{'' if within or other else '<- outside'}{note}")
    applies = measured["device"] == stated["device"] or re.search(stated.get("applies_to", "$^"), measured["device"]) is not None
    if not deciding:
        sys.exit(f"compare_rates: {options.stated}: states nothing that decides: no value without a mark")
    verdict = "" if applies else f"; {stated['name']} is not of this device, so this decides nothing"
    print(f"{measured['device']}: {agree} of {deciding} within {options.within:g}%{verdict}")
    return 1 if applies and agree < options.share * deciding else 0


if __name__ == "__main__":
    sys.exit(main())
