"""The servers that are compared: each is started fresh, on a free port, with a data directory of its own."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

START_LIMIT = 60  # seconds until a server answers
STOP_LIMIT = 10  # seconds between SIGTERM and SIGKILL


class Failed(Exception):
    """A server did not start, or a run did not end well."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for_port(port, process):
    end = time.monotonic() + START_LIMIT
    while time.monotonic() < end:
        if process.poll() is not None:
            raise Failed(f"the server ended with {process.returncode} instead of listening")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.005)
    raise Failed(f"nothing listens on port {port} after {START_LIMIT} s")


class Process:
    """A server that is one binary. As a context manager it runs, and its data are removed afterwards."""

    def __init__(self, scratch):
        self.scratch = scratch

    def command(self, directory):
        raise NotImplementedError

    def prepare(self):
        """Chooses port and directory, for a caller that starts the command itself."""
        self.port = free_port()
        self.dir = tempfile.mkdtemp(prefix="compare-", dir=self.scratch)
        return self.command(os.path.join(self.dir, "data"))

    def remove(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        command = self.prepare()
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for_port(self.port, self.process)
        except Failed:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.remove()

    @property
    def pid(self):
        return self.process.pid


class Sluice(Process):
    def __init__(self, scratch, binary, settings):
        super().__init__(scratch)
        self.binary, self.settings = binary, settings

    def command(self, directory):
        command = [self.binary, "serve", "--data-dir", directory, "--listen", f"127.0.0.1:{self.port}"]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        return command


class Reference(Process):
    """The least program that answers Produce and Fetch: an upper bound on what a server can do."""

    def __init__(self, scratch, binary, fsync):
        super().__init__(scratch)
        self.binary, self.fsync = binary, fsync

    def command(self, directory):
        command = [self.binary, "-port", str(self.port), "-dir", directory]
        return command + ["-fsync"] if self.fsync else command


class Kafka:
    """Apache Kafka under a folder with run.sh (start, stop), which takes PORT, CPORT and DATA."""

    def __init__(self, scratch, folder):
        self.scratch, self.folder = scratch, folder

    def run(self, verb):
        done = subprocess.run(["bash", "run.sh", verb], cwd=self.folder, env=self.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              timeout=2 * START_LIMIT)
        if done.returncode:
            raise Failed(f"run.sh {verb}: {done.stdout[-2000:]}")
        return done.stdout

    def __enter__(self):
        self.port = free_port()
        self.dir = tempfile.mkdtemp(prefix="compare-kafka-", dir=self.scratch)
        self.env = dict(os.environ, PORT=str(self.port), CPORT=str(free_port()), DATA=os.path.join(self.dir, "data"))
        try:
            words = self.run("start").split()  # ends with: pid N up in N ms
            self.pid, self.started_ms = int(words[words.index("pid") + 1]), float(words[-2])
        except Exception:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.run("stop")
        shutil.rmtree(self.dir, ignore_errors=True)
