#!/usr/bin/env bash
# What the built binary does when it is killed at a system call, when a call fails, when the disk is full, and when the power goes under a real file system.
#   usage: run.sh [-short]   in full: every call of the scenario, errors at many of each kind, 100 full disks, 800 power cuts; half an hour
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
  run powercut -fs ext4 -cuts 10
else
  run syscalls
  run syscalls -times 2 # another seed: other records, other sizes, other calls; and more of them
  run syscalls -inject EIO,ENOSPC -points 40
  run fulldisk
  run powercut -fs ext4 -cuts 500
  run powercut -fs xfs -cuts 200
  run powercut -fs btrfs -cuts 100
fi
exit $failed
