#!/usr/bin/env bash
# What the built binary does when it is killed at a system call, when a call fails, and when the disk is full.
#   usage: run.sh [-short]   in full: every call of the scenario, errors at many of each kind, 100 full disks; a quarter of an hour
# Each part ends with "N passed, N failed, N skipped"; the exit code is 1 when something failed.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${GO:-go}" build -o "$tools/" ./chaos/...
failed=0
run() { echo "== $*"; "$tools/$1" -bin ../bin/sluice "${@:2}" || failed=1; }
if [ "${1:-}" = -short ]; then
  run syscalls -short
  run fulldisk -cycles 5
else
  run syscalls
  run syscalls # another seed: other records, other sizes, other calls
  run syscalls -inject EIO,ENOSPC -points 40
  run fulldisk
fi
exit $failed
