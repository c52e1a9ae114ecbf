"""What a sweep costs beside the processes it runs: python3 bench/sweep_overhead.py build/bin/pinch

Sweeps 1000 settings of /bin/true, once each, and lists the 6972 legal points of 10^9 combinations.
"""

import json
import pathlib
import resource
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
RULES = ["k0 * k1 * k2 <= 20", "k3 + k4 <= k0 + 2", "k5 == k6", "k7 % k5 == 0", "k8 * k7 <= 24 and k6 * k8 >= 18", "k3 == k4 or k2 > 2"]
BILLION = ('name = "billion"\ncommand = ["true"]\nmetric = {kind = "wall"}\n[knobs]\n' + KNOBS +
           "".join(f'[[constraint]]\nrequire = "{rule}"\nreason = "bench"\n' for rule in RULES))


def main(pinch):
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        (place / "trivial.toml").write_text(TRIVIAL)
        (place / "billion.toml").write_text(BILLION)
        start = time.perf_counter()
        # Every point ties, so --repeats 1 runs each twice, and the default's twin.
        out = subprocess.run([pinch, "sweep", "trivial.toml", "--db", "s.sqlite", "--repeats", "1", "--json", "-"], cwd=folder,
                             check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        elapsed = time.perf_counter() - start
        samples = [sample for point in json.loads(out)["points"] for sample in point["samples"]]
        print(f"{len(samples)} trials in {elapsed:.2f} s, the processes {sum(samples):.2f} s: "
              f"{1e3 * (elapsed - sum(samples)) / len(samples):.2f} ms a trial beside them")
        start = time.perf_counter()
        listed = subprocess.run([pinch, "sweep", "billion.toml", "--list"], cwd=folder, check=True, stdout=subprocess.PIPE).stdout
        elapsed = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"{listed.count(b'k0=')} legal points of 10^9 listed in {elapsed:.2f} s, {peak:.0f} MiB")


if __name__ == "__main__":
    main(str(pathlib.Path(sys.argv[1]).resolve()))
