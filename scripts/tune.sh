#!/usr/bin/env bash
# The main job: tune the bf16 x FP4 GEMM on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
build/bin/pinch version
