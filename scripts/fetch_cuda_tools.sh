#!/usr/bin/env bash
# Installs those of NVIDIA's nvdisasm and ptxas that this machine lacks (PyPI wheels, NVIDIA's licence) into the build folder, where
# `pinch sass` and `pinch probe` find them. Without nvdisasm opcodes are named by our own map; without ptxas no CUDA probe is proved.
#
#     scripts/fetch_cuda_tools.sh [BUILD_FOLDER]
set -euo pipefail
build=${1:-$(cd "$(dirname "$0")/.." && pwd)/build}
export PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin:/usr/local/cuda/bin"

# fetch TOOL WHEEL: proofs count what one release of ptxas makes, so its wheel is of that release.
fetch() {
  command -v "$1" >/dev/null && return
  local folder="$build/cuda_tools/$1" tool
  mkdir -p "$folder"
  tool=$(find "$folder" -type f -path "*/bin/$1" | head -n 1)
  if [ -z "$tool" ]; then
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target "$folder" "$2"
    tool=$(find "$folder" -type f -path "*/bin/$1" | head -n 1)
  fi
  [ -n "$tool" ] || { echo "fetch_cuda_tools: $2 holds no bin/$1; install the CUDA toolkit instead" >&2; exit 3; }
  chmod +x "$tool"
  "$tool" --version | tail -n 2
}

fetch nvdisasm "nvidia-cuda-nvdisasm>=13.0,<14"
fetch ptxas "nvidia-cuda-nvcc>=13.0,<13.1"
