#!/usr/bin/env bash
# Builds the cubins and disassembly texts of this folder from kernels.cu with nvcc, ptxas and nvdisasm of CUDA 13.0 on PATH.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for arch in 80 90a 100a 103a; do
  nvcc -ptx -lineinfo -O3 -arch=compute_$arch -o "$work/$arch.ptx" kernels.cu
  sed -i -E 's#^(\t\.file\t[0-9]+) ".*/([^/]+)"#\1 "\2"#' "$work/$arch.ptx"  # names of this machine's folders stay out
  ptxas -lineinfo -O3 -arch=sm_$arch -o kernels.sm_$arch.cubin "$work/$arch.ptx"
done
nvdisasm -c -hex -gi kernels.sm_90a.cubin | sed 's/\r$//' >kernels.sm_90a.nvdisasm.txt
for arch in 100a 103a; do
  nvdisasm -c -hex -gi kernels.sm_$arch.cubin | sed -E 's/\r$//; s/[ \t]+/ /g' >kernels.sm_$arch.nvdisasm.txt
done
nvdisasm -c kernels.sm_100a.cubin >kernels.sm_100a.nohex.txt
cuobjdump --dump-sass kernels.sm_80.cubin >kernels.sm_80.cuobjdump.txt
for name in groups findings; do
  nvcc -cubin -O3 -arch=sm_90a -o $name.sm_90a.cubin $name.cu
  nvdisasm -c -hex $name.sm_90a.cubin | sed -E 's/[ \t]+/ /g' >$name.sm_90a.nvdisasm.txt
done
nvcc -cubin -O3 -arch=sm_90a -o branches.sm_90a.cubin branches.cu
# The seeds of the fuzz target: one small kernel, its text with runs of blanks squeezed.
ptxas -O3 -arch=sm_90a -o tiny.sm_90a.cubin tiny.ptx
nvdisasm -c -hex tiny.sm_90a.cubin | sed -E 's/[ \t]+/ /g' >tiny.nvdisasm.txt
nvdisasm tiny.sm_90a.cubin | sed -E 's/[ \t]+/ /g' >tiny.all.txt  # every section
nvdisasm -hex -plr -lrm narrow tiny.sm_90a.cubin | sed -E 's/[ \t]+/ /g' >tiny.plr.txt
# The same kernel as CUDA 12.8 stores it: PTXAS12=PATH of ptxas 12.8 (in the PyPI wheel nvidia-cuda-nvcc-cu12).
if [ -n "${PTXAS12:-}" ]; then
  for arch in 80 90 90a; do
    sed "s/^\.version.*/.version 8.4/; s/sm_90a/sm_$arch/" tiny.ptx >"$work/tiny.ptx"
    "$PTXAS12" -O3 -arch=sm_$arch -o tiny.cuda12.sm_$arch.cubin "$work/tiny.ptx"
  done
fi
# One kernel and its PTX in each container that nvcc makes: fatbins by compression, and a host object.
for mode in none speed size; do
  nvcc -gencode arch=compute_90a,code=[sm_90a,compute_90a] -Xfatbin -compress-mode=$mode -fatbin -o scale.$mode.fatbin scale.cu
done
nvcc -gencode arch=compute_90a,code=[sm_90a,compute_90a] -c -o scale.host scale.cu
# Code of the project itself that data/sass/opcodes.json is not derived from, and its names.
for arch in 80 90a 100a 103a; do
  nvcc -cubin -std=c++20 --expt-relaxed-constexpr -O3 -I../../.. -I../../../include -arch=sm_$arch -o heldout.sm_$arch.cubin ../../../workbench/cuda/operands.cu
  nvdisasm -c heldout.sm_$arch.cubin | sed -E 's/[ \t]+/ /g' >heldout.sm_$arch.nohex.txt
done
