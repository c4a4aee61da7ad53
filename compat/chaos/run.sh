#!/usr/bin/env bash
# Kills the built binary at its system calls and has them fail.   usage: run.sh [-short | flags of syscalls]
# Without flags it is the full run: every call of the scenario, and errors at many of each kind; about ten minutes.
# The last line of each part is "N passed, N failed, N skipped"; the exit code is 1 when something failed.
set -euo pipefail
cd "$(dirname "$0")/.."
tool=$(mktemp -d)
trap 'rm -rf "$tool"' EXIT
"${GO:-go}" build -o "$tool/" ./chaos/syscalls
run() { "$tool/syscalls" -bin ../bin/sluice "$@"; }
if [ $# -gt 0 ]; then
  run "$@"
  exit
fi
failed=0
run -stride 1 || failed=1
run -inject EIO,ENOSPC -points 40 || failed=1
exit $failed
