"""What a sweep costs beside the processes it runs: python3 bench/sweep_overhead.py build/bin/pinch [--loaded] [--json FILE]

Sweeps 1000 settings of /bin/true, once each, and lists the legal points of 10^9 combinations; says which bars are met. The database lies in
TMPDIR: on the disk in question, not in memory. --loaded: again beside two programs that write to that disk and flush it without end.
An fdatasync of what a trial appends is timed beside each sweep: a sweep that waited for the disk could not be faster.
"""

import argparse
import datetime
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

TRIVIAL = """name = "trivial"
command = ["true"]
metric = {kind = "wall"}
knobs = {tile = {kind = "env", values = {from = 1, to = 1000}, default = 1}}
"""
KNOBS = "".join(f'k{i} = {{kind = "env", values = {{from = 1, to = 10}}, default = {default}}}\n'
                for i, default in enumerate([1, 1, 1, 1, 1, 2, 2, 2, 9]))
RULES = ["k0 * k1 * k2 <= 24", "k3 + k4 <= k0 + 2", "k5 == k6", "k7 % k5 == 0", "k8 * k7 <= 24 and k6 * k8 >= 18", "k3 == k4 or k2 > 2"]
BILLION = ('name = "billion"\ncommand = ["true"]\nmetric = {kind = "wall"}\n[knobs]\n' + KNOBS +
           "".join(f'[[constraint]]\nrequire = "{rule}"\nreason = "bench"\n' for rule in RULES))
POINTS, APPENDED_BYTES = 1000, 20480  # what a trial adds to the write-ahead log: five pages
MOST_MS, MOST_S, MOST_MIB = 5, 1, 200
WRITER = """
import os, sys
file = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
while True:
    for mib in range(64):
        os.pwrite(file, bytes(1 << 20), mib << 20)
        if mib % 4 == 3: os.fsync(file)
    os.ftruncate(file, 0)
"""


def fdatasync_ms(folder, count=100):
    """Medians are kind to a busy disk: the mean is what a sweep would pay."""
    file = os.open(folder / "appended", os.O_CREAT | os.O_RDWR)
    times = []
    for i in range(count):
        start = time.perf_counter()
        os.pwrite(file, bytes(APPENDED_BYTES), i * APPENDED_BYTES)
        os.fdatasync(file)
        times.append(1e3 * (time.perf_counter() - start))
    os.close(file)
    os.remove(folder / "appended")
    return statistics.mean(times)


def sweep(pinch, folder):
    for old in folder.glob("s.sqlite*"):
        old.unlink()
    before = fdatasync_ms(folder)
    start = time.perf_counter()
    # Every point ties, so --repeats 1 runs some of them twice, and the default's twin.
    out = subprocess.run([pinch, "sweep", "trivial.toml", "--db", "s.sqlite", "--repeats", "1", "--json", "-"], cwd=folder, check=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    elapsed = time.perf_counter() - start
    document = json.loads(out)
    samples = [sample for point in document["points"] for sample in point["samples"]]
    return document["environment"], {"trials": len(samples), "elapsed_s": elapsed, "processes_s": sum(samples),
                                     "overhead_ms_a_point": 1e3 * (elapsed - sum(samples)) / POINTS,
                                     "fdatasync_ms": (before + fdatasync_ms(folder)) / 2}


def listing(pinch, folder):
    start = time.perf_counter()
    listed = subprocess.run([pinch, "sweep", "billion.toml", "--list"], cwd=folder, check=True, stdout=subprocess.PIPE).stdout
    elapsed = time.perf_counter() - start
    return {"points": listed.count(b"k0="), "elapsed_s": elapsed, "peak_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024}


def verdict(value, most, unit):
    return f"{value:.2f} {unit}, at most {most}: {'met' if value <= most else 'missed'}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pinch")
    parser.add_argument("--loaded", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    pinch = str(pathlib.Path(options.pinch).resolve())
    result = {"date": datetime.date.today().isoformat(), "command": "bench/sweep_overhead.py" + " --loaded" * options.loaded}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "trivial.toml").write_text(TRIVIAL)
        (folder / "billion.toml").write_text(BILLION)
        kind = subprocess.run(["stat", "-f", "-c", "%T", name], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        result["file_system"] = kind
        result["listing"] = listing(pinch, folder)
        for load in ["quiet", "loaded"] if options.loaded else ["quiet"]:
            writers = [subprocess.Popen([sys.executable, "-c", WRITER, f"{name}/load{i}"]) for i in range(2 if load == "loaded" else 0)]
            time.sleep(1 if writers else 0)
            result[load] = []
            for _ in range(3):
                result["environment"], row = sweep(pinch, folder)
                result[load].append(row)
                print(f"{load} disk ({kind}): {row['trials']} trials in {row['elapsed_s']:.2f} s, the processes {row['processes_s']:.2f} s; one fdatasync "
                      f"{row['fdatasync_ms']:.2f} ms; beside the processes " + verdict(row["overhead_ms_a_point"], MOST_MS, "ms a point"))
            for writer in writers:
                writer.kill()
                writer.wait()
    points = result["listing"]
    print(f"{points['points']} legal points of 10^9 listed: {verdict(points['elapsed_s'], MOST_S, 's')}; {verdict(points['peak_mib'], MOST_MIB, 'MiB')}")
    if options.json:
        result["environment"].pop("host")  # anyone's
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
