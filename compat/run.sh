#!/usr/bin/env bash
# Runs other people's clients against ../bin/sluice.   usage: run.sh [flags] [RUNNER ...]; run.sh -h lists the flags.
# The last line is "N passed, N failed, N skipped"; the exit code is 1 when a check of an allow list does not pass.
set -euo pipefail
cd "$(dirname "$0")"
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${GO:-go}" test ./groups ./harness ./kafka-dump-log ./kill9 ./realinput
"${GO:-go}" build -o "$tools/" . ./groups ./kafka-dump-log ./kafka-import ./kill9 ./realinput ./throttle
"$tools/compat" -tools "$tools" "$@"
