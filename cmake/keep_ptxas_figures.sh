#!/bin/sh
# keep_ptxas_figures.sh NVCC ARGUMENTS...: compiles; what ptxas -v says goes to OBJECT.ptxas, everything else where it went.
object=
previous=
for argument in "$@"; do
  [ "$previous" != -o ] || object=$argument
  previous=$argument
done
[ -n "$object" ] || exec "$@"

"$@" 2>"$object.messages"
status=$?
grep -E '^ptxas info|bytes stack frame|^ptxas warning' "$object.messages" >"$object.ptxas"
grep -vE '^ptxas info|bytes stack frame' "$object.messages" >&2
rm -f "$object.messages"
exit $status
