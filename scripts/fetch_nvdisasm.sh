#!/usr/bin/env bash
# Installs NVIDIA's nvdisasm (PyPI wheel nvidia-cuda-nvdisasm, NVIDIA's licence) into the build folder, where `pinch sass`
# finds it. Without it `pinch sass` names opcodes by its own map.
#
#     scripts/fetch_nvdisasm.sh [BUILD_FOLDER]
set -euo pipefail
build=${1:-$(cd "$(dirname "$0")/.." && pwd)/build}
python3 -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target "$build/nvdisasm" "nvidia-cuda-nvdisasm>=13.0,<14"
tool=$(find "$build/nvdisasm" -type f -path '*/bin/nvdisasm' | head -n 1)
[ -n "$tool" ] || { echo "fetch_nvdisasm: the wheel holds no bin/nvdisasm; install the CUDA toolkit instead" >&2; exit 3; }
chmod +x "$tool"
"$tool" --version | tail -n 2
