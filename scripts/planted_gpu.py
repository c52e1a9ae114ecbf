#!/usr/bin/env python3
"""planted_gpu.py [--code] FOLDER: does each rung of the ladder find what is its own, on a device?

Builds tests/gpu/planted/product.cu (what FOLDER has already is not built again) as it is and with about a fifth of its time wasted:
divisions that need not exist (algebra), spilled registers (schedule), a producer that is late (pipeline), a bad chunk (handoff), a bad tile
(tactic). How strong each is follows from plain runs of this device; then `pinch trace` and `pinch tune` climb the ladder of each, and
FOLDER/planted.json says what was wasted, measured with no tool, and what every rung said. --code needs no device: two wastes that stand in
the machine code, and what the rungs that read it say. PINCH names the program (build-cuda/bin/pinch). Exit status: 0 each was found by its
own rung and no other claims more than it does of the clean program, 1 not so, 2 usage, 77 no compiler, or no device (only built).
"""

import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCE = ROOT / "tests" / "gpu" / "planted" / "product.cu"
PINCH = pathlib.Path(os.environ.get("PINCH", ROOT / "build-cuda" / "bin" / "pinch")).resolve()
WANTED = 1.25  # times the clean program's time: 20% is wasted
CHUNKS, TILES = (16, 4, 2, 1), (88, 84, 44)
STRENGTHS = {"divide": (2, 3, 4), "spill": (88, 86, 84)}
OWN = {"divide": "algebra", "spill": "schedule", "stall": "pipeline", "split": "handoff", "tile": "tactic"}
WAVES, ROWS = 4, 2048  # product.cu: 528 CTAs of the default tile on 132 SMs
OUTPUTS = -(-3072 * 2816 // 37)
CALIBRATING, ROUNDS, TRACED_ROUNDS, REPEATS = 1, 3, 4, 3  # each a process, whose time is the median of ten launches

begin = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - begin:5.1f} s] {text}", flush=True)


def build(folder, nvcc, strengths, levels, more=()):
    """Every program, several at a time: NAME_off and NAME_coarse, so that pinch trace finds them by ${level}."""
    programs = {"clean": []}
    for kind, of_kind in strengths.items():
        programs.update({f"{kind}{strength}": [f"-DPLANT_{kind.upper()}={strength}"] for strength in of_kind})
    jobs = [(name, level, defines) for name, defines in programs.items() for level in levels]

    def compile_one(job):
        name, level, defines = job
        if (folder / f"{name}_{level}").exists():
            return
        command = [nvcc, "-O3", "-std=c++20", "-lineinfo", "-gencode", "arch=compute_90a,code=[sm_90a,compute_90a]", f"-I{ROOT}",
                   f"-I{ROOT / 'include'}", f"-DPINCH_TRACE_LEVEL={int(level == 'coarse')}", *defines, *more, str(SOURCE), "-o", str(folder / f"{name}_{level}")]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, jobs))
    return list(programs)


def ms_of(folder, name, chunk=16, tile=88, delay=0):
    done = subprocess.run([folder / f"{name}_off", str(chunk), str(tile), str(delay)], capture_output=True, text=True, timeout=20)
    if done.returncode != 0:
        raise RuntimeError(f"{name} {chunk} {tile} {delay}: exit {done.returncode}: {done.stderr}")
    return statistics.median(json.loads(done.stdout)["ms"])


def ratios(folder, cases, rounds):
    """Of each case {key: arguments of ms_of}: the median over interleaved rounds of its time over the clean program's."""
    times = {key: [] for key in cases}
    clean = []
    for _ in range(rounds):
        clean.append(ms_of(folder, "clean"))
        for key, arguments in cases.items():
            times[key].append(ms_of(folder, *arguments))
    return {key: statistics.median(t / c for t, c in zip(of_case, clean)) for key, of_case in times.items()}, times | {"clean": clean}


def calibrate(folder, programs):
    """The strength of each kind whose waste is nearest to what is wanted."""
    cases = {name: (name,) for name in programs if name != "clean"}
    cases |= {f"split{chunk}": ("clean", chunk) for chunk in CHUNKS[1:]} | {f"tile{tile}": ("clean", 16, tile) for tile in TILES[1:]}
    found, times = ratios(folder, cases, CALIBRATING)
    # A delay that binds is the period of a chunk, which gives the clock.
    slow = 20000
    cycles_of_ms = WAVES * ROWS // 16 * slow / ms_of(folder, "clean", 16, 88, slow)
    delay = round(WANTED * statistics.median(times["clean"]) * cycles_of_ms / (WAVES * ROWS // 16))
    nearest = {kind: min((key for key in found if re.fullmatch(kind + r"\d+", key)), key=lambda key: abs(found[key] - WANTED))
               for kind in ("spill", "divide", "split", "tile")}
    chosen = {"clean": ("clean", 16, 88, 0), "stall": ("clean", 16, 88, delay)}
    chosen |= {kind: (*cases[key], *("clean", 16, 88, 0)[len(cases[key]):]) for kind, key in nearest.items()}
    say("ratios: " + ", ".join(f"{key} {ratio:.3f}" for key, ratio in found.items()) + f"; stall: {delay} cycles a chunk")
    return chosen, found


SUBJECT = """# The ladder's subject of the case {case}.
name = "planted_{case}"
command = ["./{name}_off", "${{chunk}}", "${{tile}}", "{delay}"]
folder = "{folder}"

[knobs.chunk]
values = [{chunks}]
default = {chunk}

[knobs.tile]
values = [{tiles}]
default = {tile}

[[contract]]
require = "{rows} % chunk == 0"
reason = "the last chunk would be read beyond its panel"

[[constraint]]
require = "chunk == 16 or tile == 88"
reason = "one knob at a time is bad"

[outputs.c]
file = "c.bin"
dtype = "f32"
shape = [{outputs}]

[metric]
kind = "json"
name = "ms"
unit = "ms"
"""


def kernel_of(chunk, tile):
    return f"productILi{chunk}ELi{tile // 10}ELi{tile % 10}E"


def pinch(folder, log, *arguments):
    done = subprocess.run([PINCH, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=40)
    with open(folder / log, "a") as out:
        out.write(f"$ pinch {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    if done.returncode != 0:
        raise RuntimeError(f"pinch {' '.join(map(str, arguments))}: exit {done.returncode}; see {log}: {done.stderr[-300:]}")


def read(folder, name):
    """What the rungs that read machine code say of a program: {rung: bound of its headroom, or 0}."""
    path = folder / f"{name}.toml"
    path.write_text(SUBJECT.format(case=name, name=name, delay=0, folder=folder, rows=ROWS, outputs=OUTPUTS, chunk=16, tile=88, chunks=16, tiles=88))
    pinch(folder, f"{name}.txt", "tune", path, "--db", "planted.sqlite", "--code", f"{name}_off", "--kernel", kernel_of(16, 88), "--warps", 2,
          "--only", "schedule,algebra", "--json", f"{name}.json")
    findings = json.loads((folder / f"{name}.json").read_text())["findings"]
    return {finding["rung"]: finding["bound_percent"] for finding in findings if finding["verdict"] in ("headroom", "ruled_out")}


def check_code(folder, nvcc):
    build(folder, nvcc, {"divide": (2,), "spill": (82,)}, ("off",), ("-DDEFAULT_ALONE",))
    clean, divided, spilled = (read(folder, name) for name in ("clean", "divide2", "spill82"))
    say(f"clean {clean}, divide2 {divided}, spill82 {spilled}")
    right = clean["algebra"] == 0 and clean["schedule"] < 5 and divided["algebra"] > 10
    right = right and spilled["schedule"] > clean["schedule"] + 20 and spilled["algebra"] == 0
    return 0 if right else 1


def climb(folder, case, program, others):
    """The findings of one case; `others`: the chunk and the tile that the knobs have beside the best. Code and trace are of the fastest
    setting, as the ladder wants them: what other knobs bring comes first."""
    name, chunk, tile, delay = program
    text = SUBJECT.format(case=case, name=name, delay=delay, folder=folder, rows=ROWS, outputs=OUTPUTS, chunk=chunk, tile=tile,
                          chunks=", ".join(map(str, sorted({16, others[0]}))), tiles=", ".join(map(str, sorted({88, others[1]}))))
    (folder / f"{case}.toml").write_text(text)
    traced = f"{name}_{delay}"
    if not (folder / f"{traced}.json").exists():
        pinch(folder, f"{case}.txt", "trace", "--rounds", TRACED_ROUNDS, "--keep", f"{traced}.trace", "--json", f"{traced}.json", "--",
              f"./{name}_${{level}}", 16, 88, delay)
    ns = json.loads((folder / f"{traced}.json").read_text())["cost"]["ns"]
    slows = round(100 * max(0.0, *(traced / off - 1 for traced, off in zip(ns["coarse"], ns["off"]))), 3)  # of so few rounds the upper end
    pinch(folder, f"{case}.txt", "tune", f"{case}.toml", "--db", "planted.sqlite", "--repeats", REPEATS, "--code", f"{name}_off", "--kernel",
          kernel_of(16, 88), "--warps", 2, "--trace", f"{traced}.trace", "--trace-slows", slows, "--json", f"{case}.json")
    return json.loads((folder / f"{case}.json").read_text())["findings"], slows


def verdict_of(case, wasted, findings, clean):
    """Whether the case's own rung found it, by a bound that is one, and no other rung claims more than of the clean program."""
    claims = {finding["rung"]: finding["bound_percent"] for finding in findings if finding["verdict"] == "headroom"}
    before = {finding["rung"]: finding["bound_percent"] for finding in clean if finding["verdict"] == "headroom"}
    own = OWN.get(case)
    others = {rung: round(bound, 1) for rung, bound in claims.items() if rung != own and bound > before.get(rung, 0) + 2}
    return {"case": case, "own_rung": own, "wasted_percent": round(wasted, 2), "claims": {rung: round(bound, 2) for rung, bound in claims.items()},
            "found": own is None or own in claims, "is_bound": own is None or claims.get(own, 0) >= wasted - 1, "claimed_by_others": others,
            "all": [{key: finding[key] for key in ("rung", "verdict", "bound_percent", "why")} for finding in findings]}


def main():
    arguments = sys.argv[1:]
    code_alone = "--code" in arguments
    if len(arguments) != 1 + code_alone or arguments[-1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(arguments[-1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc is None:
        say("skipped: no nvcc in PATH or /usr/local/cuda/bin")
        return 77
    if code_alone:
        return check_code(folder, nvcc)
    programs = build(folder, nvcc, STRENGTHS, ("off", "coarse"))
    say(f"{len(programs)} programs built, each untraced and coarse")
    if shutil.which("nvidia-smi") is None or subprocess.run(["nvidia-smi"], capture_output=True).returncode != 0:
        say("built; skipped the rest: no device")
        return 77
    chosen, calibrated = calibrate(folder, programs)
    others = (chosen["split"][1], chosen["tile"][2])
    wasted, times = ratios(folder, {case: program for case, program in chosen.items() if case != "clean"}, ROUNDS)
    say("planted: " + ", ".join(f"{case} {ratio:.3f} {chosen[case]}" for case, ratio in wasted.items()))
    results, clean = [], []
    document = {"schema": "pinch-planted/1", "calibration": calibrated, "times_ms": times, "results": results}
    for case, program in chosen.items():
        try:
            findings, slows = climb(folder, case, program, others)
        except (RuntimeError, subprocess.TimeoutExpired, KeyError) as error:
            say(f"{case}: {error}")
            results.append({"case": case, "failed": str(error)})
            continue
        clean = clean or findings
        result = verdict_of(case, 100 * (1 - 1 / wasted.get(case, 1)), findings, clean)
        results.append(result | {"program": program, "marks_slow_by_percent": slows})
        say(f"{case}: wasted {result['wasted_percent']:.1f}%, claims {result['claims']}, " +
            ("its own rung" if result["found"] and result["is_bound"] else "NOT FOUND" if not result["found"] else "TOO LOW A BOUND") +
            (f", ALSO CLAIMED BY {result['claimed_by_others']}" if result["claimed_by_others"] else ""))
        (folder / "planted.json").write_text(json.dumps(document, indent=1) + "\n")
    bad = [result for result in results if "failed" in result or not result["found"] or not result["is_bound"] or result["claimed_by_others"]]
    say(f"{len(results) - len(bad)} of {len(results)} as they should be")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
