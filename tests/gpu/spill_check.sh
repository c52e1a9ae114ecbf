#!/bin/sh
# spill_check.sh FOLDER: fails if a kernel compiled under FOLDER spills registers, or if no figures are there.
figures=$(find "$1" -name '*.ptxas' -size +0)
if [ -z "$figures" ]; then
  echo "no ptxas figures under $1: build the kernels first" >&2
  exit 1
fi
spilling=$(grep -lE '[1-9][0-9]* bytes spill' $figures)
if [ -n "$spilling" ]; then
  echo "these spill:" >&2
  grep -HE '[1-9][0-9]* bytes spill' $spilling >&2
  exit 1
fi
echo "$(echo "$figures" | wc -l) objects, no spills; most registers: $(grep -hoE 'Used [0-9]+ registers' $figures | grep -oE '[0-9]+' | sort -n | tail -1)"
