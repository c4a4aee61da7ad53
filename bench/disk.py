"""What the disk itself gives for appends that are synced one by one: by fio where there is one, else by a probe here."""

import json
import os
import shutil
import subprocess
import tempfile
import time

BLOCK = 1 << 20  # bytes of an append
LIMIT = 2 << 30  # bytes that a run may leave on the disk until it ends


def measure(scratch, seconds):
    """MB/s of 1 MiB appends with fdatasync after each, and the 99th percentile of a sync in ms."""
    directory = tempfile.mkdtemp(prefix="compare-disk-", dir=scratch)
    try:
        return fio(directory, seconds) if shutil.which("fio") else probe(directory, seconds)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def fio(directory, seconds):
    done = subprocess.run(["fio", "--name=disk", f"--directory={directory}", "--rw=write", "--bs=1M", "--fdatasync=1",
                           f"--size={LIMIT}", "--file_append=1", f"--runtime={seconds}", "--output-format=json"],
                          check=True, capture_output=True, text=True)
    job = json.loads(done.stdout)["jobs"][0]
    return {"mode": "fio", "mb_per_s": job["write"]["bw_bytes"] / 1e6,
            "sync_p99_ms": job["sync"]["lat_ns"]["percentile"]["99.000000"] / 1e6}


def probe(directory, seconds):
    block = os.urandom(BLOCK)
    file = os.open(os.path.join(directory, "probe"), os.O_WRONLY | os.O_CREAT)
    syncs = []
    start = now = time.monotonic()
    while now < start + seconds and len(syncs) * BLOCK < LIMIT:
        os.write(file, block)
        written = time.monotonic()
        os.fdatasync(file)
        now = time.monotonic()
        syncs.append(now - written)
    os.close(file)
    syncs.sort()
    return {"mode": "fdatasync probe", "mb_per_s": len(syncs) * BLOCK / 1e6 / (now - start),
            "sync_p99_ms": 1000 * syncs[len(syncs) * 99 // 100]}
