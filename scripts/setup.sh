#!/usr/bin/env bash
# setup.sh [LIST]: installs the Debian packages in packages.apt, or another list beside it, that are missing. Not root: prints the one line to run and stops.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

missing=()
while read -r package; do
  case "$package" in ''|'#'*) continue ;; esac
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done <"$here/${1:-packages.apt}"
[ ${#missing[@]} -gt 0 ] || exit 0

line="apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" != 0 ]; then
  printf 'setup: %d Debian packages are missing. Run this once, then repeat your command:\n\n    sudo %s\n\n' "${#missing[@]}" "$line" >&2
  exit 3
fi
printf 'setup: installing %s\n' "${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
$line -qq >/dev/null
