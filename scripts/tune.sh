#!/usr/bin/env bash
# The main job: tunes the bf16 x FP4 GEMM on this machine, on the layers of a real model (scripts/fetch_model.sh; generated
# weights where it cannot be had, and it says which). Arguments go to `pinch tune gemm`.
# PINCH_TUNE_M: rows to tune, as in 1,8,32. PINCH_TUNE_BUDGET: seconds a problem.
set -euo pipefail
cd "$(dirname "$0")/.."
rows=${PINCH_TUNE_M:-1,8,32,128}
budget=${PINCH_TUNE_BUDGET:-3}

model=$(scripts/fetch_model.sh)
# One layer of each shape: the others of that shape have the same answer. Largest first, four at most.
layers=$(python3 -B - "$model" <<'PY'
import json, struct, sys
with open(sys.argv[1], "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
layers = {}
for name, tensor in header.items():
    shape = tensor.get("shape", ())
    if len(shape) == 2 and shape[1] % 16 == 0 and min(shape) >= 128 and "embedding" not in name:
        layers.setdefault(tuple(shape), name)
for shape in sorted(layers, key=lambda s: -s[0] * s[1])[:4]:
    print(layers[shape])
PY
)
[ -n "$layers" ] || { echo "tune: $model has no layer to tune" >&2; exit 1; }
# Every layer is tuned even where one fails; the worst exit code is the script's.
status=0
while read -r layer; do
  build/bin/pinch tune gemm --weights "$model" --tensor "$layer" --m "$rows" --budget "$budget" "$@" || {
    code=$?
    [ "$code" = 130 ] && exit 130
    [ "$code" -gt "$status" ] && status=$code
  }
done <<<"$layers"
exit "$status"
