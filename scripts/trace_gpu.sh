#!/usr/bin/env bash
# trace_gpu.sh FOLDER: what the CUDA marks do on a device, with nvcc and nothing else. Builds examples/trace_your_kernel/kernel.cu
# untraced, coarse and detailed, as it is and with a delay planted in the loader and in the math warp; runs each in ROUNDS (20)
# interleaved rounds; leaves times.csv (plant,level,round,ms) and one coarse and one detailed trace of each plant. Where PINCH names the
# program, it must blame the loader and the math warp of those, and count what a room of 100 events does not hold; it traces the GEMM
# kernels and attention too, as they are and with a delay planted in the wgmma kernel's producer and consumers and in attention's producer
# and softmax (PLANTED_ROUNDS, 7, each), and must blame them.
# Exit status: 0 all ran right and was blamed right, 1 something failed, 2 usage, 3 no compiler, 77 no device (only built).
set -u -o pipefail
[ $# -eq 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.." || exit 2
export PATH="$PATH:/usr/local/cuda/bin"
command -v nvcc >/dev/null || { echo "trace_gpu: no nvcc in PATH or /usr/local/cuda/bin" >&2; exit 3; }

source=examples/trace_your_kernel/kernel.cu delay='__nanosleep(4000);'
cp $source "$out/none.cu"
sed "s|float4 part\[|$delay\n    &|" $source >"$out/loader.cu"
sed "s|for (int i = lane;|$delay\n    &|" $source >"$out/math.cu"
for plant in none loader math; do
  grep -q nanosleep "$out/$plant.cu" || [ $plant = none ] || { echo "trace_gpu: no place for the $plant delay" >&2; exit 1; }
  level=0
  for name in off coarse detailed; do
    nvcc -O3 -std=c++20 -gencode arch=compute_90a,code=sm_90a -I include -DPINCH_TRACE_LEVEL=$level -o "$out/${plant}_$name" "$out/$plant.cu" &
    level=$((level + 1))
  done
done
wait
sed 's|.warps_of_cta = 2|&, .events_of_warp = 100|' $source >"$out/full.cu"
grep -q events_of_warp "$out/full.cu" || { echo "trace_gpu: no place for a small room" >&2; exit 1; }
nvcc -O3 -std=c++20 -gencode arch=compute_90a,code=sm_90a -I include -DPINCH_TRACE_LEVEL=1 -o "$out/full_coarse" "$out/full.cu" || exit 1
for built in {none,loader,math}_{off,coarse,detailed}; do [ -x "$out/$built" ] || exit 1; done
nvidia-smi >/dev/null 2>&1 || { echo "trace_gpu: built; skipped, no device"; exit 77; }

echo plant,level,round,ms >"$out/times.csv"
for round in $(seq "${ROUNDS:-20}"); do
  for plant in none loader math; do
    for name in off coarse detailed; do
      printed=$(PINCH_TRACE_FILE="$out/$plant.$name.trace" "$out/${plant}_$name") || { echo "trace_gpu: $plant $name: $printed" >&2; exit 1; }
      echo "$plant,$name,$round,${printed%% *}" >>"$out/times.csv"
    done
  done
done
python3 - "$out/times.csv" <<'PYTHON'
import csv, statistics, sys
rows = list(csv.DictReader(open(sys.argv[1])))
for plant in ("none", "loader", "math"):
    times = {level: [float(r["ms"]) for r in rows if r["plant"] == plant and r["level"] == level] for level in ("off", "coarse", "detailed")}
    ratios = {level: statistics.median(t / off for t, off in zip(times[level], times["off"])) for level in ("coarse", "detailed")}
    print(f"{plant}: off {statistics.median(times['off']):.3f} ms, coarse {ratios['coarse'] - 1:+.1%}, detailed {ratios['detailed'] - 1:+.1%}")
PYTHON

[ -n "${PINCH:-}" ] || exit 0
status=0
# Of 132 CTAs' two warps, 256 steps each, more waits, and an end.
PINCH_TRACE_FILE="$out/full.trace" "$out/full_coarse" >"$out/full.printed" || { cat "$out/full.printed" >&2; exit 1; }
for plant in loader math; do cp "$out/$plant.coarse.trace" "$out/example_$plant.trace"; done
for name in full example_loader example_math; do "$PINCH" trace read "$out/$name.trace" --json "$out/$name.json" >"$out/$name.txt" || exit 1; done
python3 - "$out" <<'PYTHON' || status=1
import json, sys
read = lambda name: json.load(open(f"{sys.argv[1]}/{name}.json"))
full, planted = read("full"), {role: read(f"example_{role}") for role in ("loader", "math")}
blamed = {role: (trace["critical_role"], trace["critical_margin"]) for role, trace in planted.items()}
print(f"a room of 100 events: {full['events']} kept, {full['lost_events']} lost; planted: " +
      ", ".join(f"in {role}: critical {by} by {margin:+.3f}" for role, (by, margin) in blamed.items()))
sys.exit(full["events"] != 264 * 100 or full["lost_events"] < 264 * 400 or
         any(by != role or margin < 0.02 for role, (by, margin) in blamed.items()))
PYTHON
# trace NAME ROLE FILE SED ARGUMENT...: `pinch trace ARGUMENT...` of the sources with SED done to FILE. Unless ROLE is -, it must be
# critical by 2% of its time (a tie is no verdict), and its busy time must be what grew most since the trace without the delay.
trace() {
  local name=$1 role=$2 file=$out/sources/$3 edit=$4
  shift 4
  rm -rf "$out/sources" && mkdir "$out/sources" && cp -r kernels include "$out/sources" || exit 1
  sed -i "$edit" "$file"
  grep -q nanosleep "$file" || [ "$role" = - ] || { echo "trace_gpu: no place for the delay of $name" >&2; exit 1; }
  local rounds=7
  [ "$role" = - ] || rounds=${PLANTED_ROUNDS:-7}
  PINCH_SOURCE=$out/sources "$PINCH" trace "$@" --device cuda --rounds "$rounds" --json "$out/$name.json" >"$out/$name.txt" 2>&1 || { cat "$out/$name.txt" >&2; exit 1; }
  python3 - "$out/$name.json" "$name" "$role" <<'PYTHON' || status=1
import json, re, sys
file, name, role = sys.argv[1:]
trace = json.load(open(file))
print(f"{name}: critical {trace['critical_role']} by {trace['critical_margin']:+.3f}, "
      f"coarse {trace['inflation']['coarse']:+.1%}, detailed {trace['inflation']['detailed']:+.1%}")
if role == "-": sys.exit(0)
busy = lambda trace: {r["name"]: r["busy"] * r["period_median"] for r in trace["roles"]}
before, after = busy(json.load(open(re.sub("_planted.*", "_none.json", file)))), busy(trace)
grown = {r: after[r] - before[r] for r in after if r in before}
print(f"    cycles of a step busy since then: " + ", ".join(f"{r} {by:+.0f}" for r, by in grown.items()))
sys.exit(trace["critical_role"] != role or trace["critical_margin"] < 0.02 or max(grown, key=grown.get) != role)
PYTHON
}
gemm=(gemm --m 2048 --n 4096 --k 4096) wgmma=kernels/gemm_bf16_fp4/sm90/kernel.cuh
trace gemm_none - $wgmma '' "${gemm[@]}"
trace gemm_planted_producer producer $wgmma 's|if (!elected) continue;|__nanosleep(1500);\n      &|' "${gemm[@]}"
trace gemm_planted_consumer consumer $wgmma 's|ptx::wgmma_commit_group();|&\n      __nanosleep(1500);|' "${gemm[@]}"
trace gemm_stream_none - $wgmma '' gemm --m 16 --n 4096 --k 4096
attention=(attention --batch 4 --heads 16 --seq 4096) sm90=kernels/attention/sm90
for pv in bf16 fp8 fp4; do trace attention_${pv}_none - $sm90/kernel.cuh '' "${attention[@]}" --pv $pv; done
trace attention_fp8qk_none - $sm90/kernel.cuh '' "${attention[@]}" --pv fp8 --qk fp8
trace attention_planted_softmax softmax $sm90/kernel.cuh 's|^      Softmax<T>::write(s, p);|      __nanosleep(1500);\n&|' "${attention[@]}"
trace attention_planted_producer producer $sm90/producer.cuh 's|ptx::mbarrier_arrive_expect_tx(full, sizeof(shared.k\[0\]));|__nanosleep(3000);\n    &|' "${attention[@]}"
rm -rf "$out/sources"
exit $status
