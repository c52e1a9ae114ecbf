#!/bin/sh
# code_check.sh hold|planted|write PINCH [PROGRAM]: holds every word of the kernels that PROGRAM (PINCH) ships by default against
# tests/gpu/code/V*.json, which this nvcc wrote; `planted` wants a changed digest to be refused by name; `write` renews the file.
# Another schedule of ptxas is half a percent of a kernel's time that no figure shows. Exit status: 0 as it was, 1 not so, 2 usage,
# 77 no nvcc, or one that has no file.
mode=$1 pinch=$2 program=${3:-$2}
[ $# -ge 2 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
kernels='(attention|wgmma|stream)_kernel'
version=$(PATH="$PATH:/usr/local/cuda/bin" nvcc --version 2>/dev/null | sed -n 's/.*, \(V[0-9.]*\)$/\1/p')
[ -n "$version" ] || { echo "code_check: skipped, there is no nvcc"; exit 77; }
baseline=$(dirname "$0")/code/$version.json
case $mode in
  write) exec "$pinch" gate write "$baseline" --code "$program" --kernel "$kernels" ;;
  hold | planted) ;;
  *) exit 2 ;;
esac
[ -f "$baseline" ] || { echo "code_check: skipped, no file of nvcc $version; $0 write PINCH makes one"; exit 77; }
hold() { "$pinch" gate hold "$1" --code "$program" --kernel "$kernels" --same-code; }
if [ "$mode" = hold ]; then
  hold "$baseline" && exit 0
  echo "code_check: where that is wanted, say in the commit what it brings on a device, and renew the file: make code-baseline" >&2
  exit 1
fi
copy=$(mktemp) || exit 1
trap 'rm -f "$copy"' EXIT
sed '0,/"digest": "/s/"digest": "[0-9a-f]*"/"digest": "0"/; 0,/HGMMA/s/\(HGMMA[^ ]*\) /\1 1/' "$baseline" >"$copy"
said=$(hold "$copy") && { echo "code_check: a changed digest passed"; exit 1; }
echo "$said"
[ "$(echo "$said" | grep -c FAILED)" = 1 ] && echo "$said" | grep -q 'FAILED.*_kernel.*: other instructions: HGMMA[^ ]* 1[0-9]* -> [0-9]*$'
