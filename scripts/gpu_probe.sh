#!/usr/bin/env bash
# gpu_probe.sh FOLDER: on a machine with an NVIDIA GPU, proves every CUDA probe in its machine code, measures them and the pairs
# twice, and compares the figures with those that are stated for the device and with each other; a few minutes. Everything goes
# into FOLDER: rates.json is the machine model, summary.txt the table. Needs ptxas, python3, and the program: build/bin/pinch, or
# what PINCH names.
# Exit status: 0 all proved and measured, 1 something was not or the figures disagree, 2 usage, 3 no program, compiler or device.
set -u -o pipefail
[ $# -eq 1 ] && [ "${1#-}" = "$1" ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.." || exit 2
export PATH="$PATH:/usr/local/cuda/bin"
pinch=${PINCH:-build/bin/pinch}
"$pinch" version >/dev/null || { echo "gpu_probe: no program at $pinch; build it or set PINCH" >&2; exit 3; }
command -v ptxas >/dev/null || { echo "gpu_probe: no ptxas in PATH or /usr/local/cuda/bin" >&2; exit 3; }
IFS=, read -r device driver capability < <(nvidia-smi -i 0 --query-gpu=name,driver_version,compute_cap --format=csv,noheader) ||
  { echo "gpu_probe: nvidia-smi shows no GPU" >&2; exit 3; }
case ${capability// /} in
  8.0) arch=sm_80 ;; 9.0) arch=sm_90a ;; 10.0) arch=sm_100a ;; 10.3) arch=sm_103a ;;
  *) echo "gpu_probe: there are no probes for compute capability $capability of $device" >&2; exit 3 ;;
esac
name=$(tr 'A-Z ' 'a-z-' <<<"${device#NVIDIA }")-rates failed=0

# step NAME COMMAND...: its output to NAME.txt, its end to the summary.
step() {
  local step=$1 begin=$SECONDS status
  shift
  timeout 280 "$@" >"$out/$step.txt" 2>&1
  status=$?
  [ $status -eq 0 ] || failed=1
  printf '%-8s exit %d after %3d s: %s\n' "$step" $status $((SECONDS - begin)) "$(tail -n 1 "$out/$step.txt")" | tee -a "$out/summary.txt"
}

nvidia-smi -q -i 0 -d CLOCK,PERFORMANCE >"$out/clocks.txt" 2>&1
printf '%s,%s, %s, %s\n' "$device" "$driver" "$arch" "$(date -u +%Y-%m-%dT%H:%MZ)" >"$out/summary.txt"
step prove "$pinch" probe --prove --arch $arch --json "$out/prove.json"
step rates "$pinch" probe --device cuda --arch $arch --name "$name" --out "$out/rates.json"
step again "$pinch" probe --device cuda --arch $arch --name "$name" --out "$out/again.json"
if [ -s "$out/rates.json" ] && [ -s "$out/again.json" ]; then
  stated=data/machines/${name%-rates}-stated.json
  [ ! -e "$stated" ] || step stated bench/compare_rates.py "$out/rates.json" "$stated"
  step repeat bench/compare_rates.py "$out/again.json" "$out/rates.json"
  grep -c '"value": null' "$out/rates.json" | sed 's/$/ entries without a value/' >>"$out/summary.txt"
  grep -h -e '<- outside' -e 'not measured' "$out"/stated.txt "$out"/repeat.txt 2>/dev/null >>"$out/summary.txt"
  cat "$out/stated.txt" "$out/rates.txt" 2>/dev/null >>"$out/summary.txt"
fi
cat "$out/summary.txt"
exit $failed
