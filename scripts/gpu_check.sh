#!/usr/bin/env bash
# gpu_check.sh [--quick] FOLDER: builds, checks, sanitises and times the sm_90a kernels on a CUDA machine in at most ten
# minutes, and writes everything into FOLDER. Needs nvcc, CMake and ninja; no network, no git, no other dependency. Where the
# project's other dependencies are there too, the front door and the program are built and tested as well. cuBLAS is timed
# beside the kernels where it is found (PINCH_CUBLAS=/path/to/libcublas.so.13 names it).
#   --quick  the core kernels, the reduced check under memcheck and a few timings: about a minute and a half on 16 cores
# Exit status: 0 all passed, 1 something failed or ran out of time, 2 usage, 3 no compiler, 77 no device (only built).
set -u -o pipefail

usage() { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
quick=
[ "${1:-}" != --quick ] || { quick=1; shift; }
[ $# -eq 1 ] && [ "${1#-}" = "$1" ] || usage
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
command_line="scripts/gpu_check.sh${quick:+ --quick} FOLDER"
cd "$(dirname "$0")/.." || exit 2
export PATH="$PATH:/usr/local/cuda/bin"
for tool in nvcc cmake ninja; do
  command -v $tool >/dev/null || { echo "gpu_check: no $tool in PATH or /usr/local/cuda/bin" >&2; exit 3; }
done

steps=() failed=0
# step NAME SECONDS COMMAND...: output to NAME.txt; a result line for the table. Never past the tenth minute.
step() {
  local name=$1 limit=$2 begin=$SECONDS status left
  shift 2
  left=$((590 - SECONDS))
  [ "$left" -lt "$limit" ] && limit=$left
  if [ "$limit" -lt 5 ]; then
    status=124
  else
    timeout "$limit" "$@" >"$out/$name.txt" 2>&1
    status=$?
  fi
  local result=passed
  case $status in
    0) ;;
    77) result=skipped ;;
    124) result='out of time' failed=1 ;;
    *) result="failed ($status)" failed=1 ;;
  esac
  steps+=("$(printf '%-14s %-12s %4ds  %s' "$name" "$result" $((SECONDS - begin)) "$(grep -v '^ *$' "$out/$name.txt" 2>/dev/null | tail -1 | cut -c1-110)")")
  echo "${steps[-1]}"
  return $status
}

table() {
  {
    echo "pinch sm_90a check, $(date -u +%Y-%m-%dT%H:%MZ), ${quick:+quick, }$SECONDS s in all"
    printf '%s\n' "${steps[@]}"
    if [ -s "$out/time.txt" ]; then echo; cat "$out/time.txt"; fi
  } >"$out/summary.txt"
  echo
  cat "$out/summary.txt"
}

find_cublas() {
  [ -z "${PINCH_CUBLAS:-}" ] || return 0
  PINCH_CUBLAS=$(python3 - 2>/dev/null <<'PYTHON'
import glob, sys
for folder in sys.path:
    found = sorted(glob.glob(folder + "/nvidia/**/libcublas.so.1[23]", recursive=True))
    if found:
        print(found[-1])
        break
PYTHON
  )
  if [ -n "$PINCH_CUBLAS" ]; then
    export PINCH_CUBLAS LD_LIBRARY_PATH="$(dirname "$PINCH_CUBLAS")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  else
    unset PINCH_CUBLAS
  fi
}

# Where the CSV files come from.
provenance() {
  local device driver sm_clock sm_clock_max memory_clock
  IFS=, read -r device driver sm_clock sm_clock_max memory_clock < <(nvidia-smi -i 0 --format=csv,noheader,nounits \
    --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,clocks.mem 2>/dev/null || echo 'unknown,unknown,0,0,0')
  printf '{\n  "device": "%s",\n  "driver": "%s",\n  "clocks": {"sm_mhz_before": %d, "sm_mhz_max": %d, "memory_mhz": %d, "locked": false},\n' \
    "$device" "${driver# }" "$sm_clock" "$sm_clock_max" "$memory_clock"
  printf '  "toolkit": "%s",\n  "git_sha": "%s",\n  "sources_sha256": "%s",\n  "command": "%s",\n  "date": "%s",\n' \
    "$(nvcc --version | sed -n 's/.*release [^,]*, V//p')" "$(git rev-parse HEAD 2>/dev/null || echo 'not a git checkout')" \
    "$(find kernels tests/gpu -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d' ' -f1)" "$command_line" "$(date -u +%Y-%m-%d)"
  printf '  "samples": "every sample of a row in its samples_us column",\n'
  printf '  "protocol": "graph replay between events, 256 MiB read before each sample, candidates interleaved, median"\n}\n'
}

provenance >"$out/provenance.json"
tactics=full
[ -z "$quick" ] || tactics=core
# One tree: the whole project where it can be configured, else the kernels and their tests alone.
preset=cuda build=build-cuda targets='--target gpu_tests pinch_app'
if ! cmake --preset cuda -DPINCH_TACTICS=$tactics >"$out/configure.txt" 2>&1; then
  preset=gpu-check build=build-gpu targets=
fi
step build 240 bash -c "cmake --preset $preset -DPINCH_TACTICS=$tactics && cmake --build --preset $preset -j $(nproc) $targets" || { table; exit 1; }
find $build -name '*.ptxas' | LC_ALL=C sort | xargs grep -HE 'Used|spill' | sed 's|.*/||' >"$out/ptxas_figures.txt"
step spills 20 tests/gpu/spill_check.sh $build/kernels

check=$build/tests/bin/sm90_check
step planted 30 $check planted
if [ $? -eq 77 ]; then
  table
  [ $failed -eq 0 ] && exit 77 || exit 1
fi
if [ -n "$quick" ]; then
  step check 60 $check reduced "$out/check.csv"
  tools=memcheck
else
  step check 200 $check full "$out/check.csv"
  tools='memcheck racecheck initcheck synccheck'  # the last for the named barriers of attention
fi
step attention 60 $build/tests/bin/attention_check $([ -n "$quick" ] && echo reduced || echo full) "$out/attention.csv"
find_cublas
if [ $preset = cuda ]; then
  # The tests that are not run here by themselves.
  step front_door 200 ctest --preset cuda -L gpu -E 'Gpu.(CheckerFindsPlantedFaults|EveryTacticMatchesTheReference|EveryAttentionKernelMatchesTheReference)$'
else
  steps+=("$(printf '%-14s skipped       %s' front_door "$(grep -m1 -A2 'CMake Error' "$out/configure.txt" | tail -1)")")
fi
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)
# checked TOOL PROGRAM: racecheck takes a build of its own, of the core tactics (kArrivingLanes in
# kernels/gemm_bf16_fp4/sm90/kernel.cuh says why).
checked() { [ $1 = racecheck ] && echo build-race/tests/bin/$2 || echo $build/tests/bin/$2; }
for tool in $tools; do
  if [ -z "$sanitizer" ]; then
    steps+=("$(printf '%-14s skipped       no compute-sanitizer' $tool)")
    continue
  fi
  if [ $tool = racecheck ]; then
    step race_build 100 bash -c "cmake --preset gpu-check -B build-race -DPINCH_TACTICS=core -DCMAKE_CUDA_FLAGS=-DPINCH_EVERY_LANE_ARRIVES &&
      cmake --build build-race -j $(nproc) --target sm90_check attention_check" || continue
  fi
  [ $tool = synccheck ] || step $tool 180 "$sanitizer" --tool $tool --error-exitcode 1 "$(checked $tool sm90_check)" reduced
  step att_$tool 90 "$sanitizer" --tool $tool --error-exitcode 1 "$(checked $tool attention_check)" sanitized
done
if [ -n "$quick" ]; then
  step time 40 $build/tests/bin/sm90_time "$out/time.csv" --samples 5 --formats nvfp4 1 16 128
else
  step time 200 $build/tests/bin/sm90_time "$out/time.csv"
fi
table
exit $failed
