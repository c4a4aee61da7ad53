"""Members of consumer groups as a benchmark needs them: the requests of both protocols, in the fewest versions, over plain sockets."""

import socket
import struct

import servers

PIPELINE = 200  # requests that wait for their answers on a connection
REBALANCE_IN_PROGRESS = 27
SESSION_MS = 600_000
SESSIONS = {f"group.consumer.{bound}session.timeout.ms": str(SESSION_MS) for bound in ("", "max.")}  # settings of the broker
TOPIC = "a-topic-of-some-name"


class Connection:
    """Sends requests and reads the answers, which come in order."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.file = self.socket.makefile("rb")

    def send(self, *requests):
        self.socket.sendall(b"".join(struct.pack(">i", len(r)) + r for r in requests))

    def receive(self):
        """The next answer, behind its length."""
        (size,) = struct.unpack(">i", self.file.read(4))
        return self.file.read(size)

    def ask(self, requests):
        """Sends many, and gives the answers."""
        answers = []
        for start in range(0, len(requests), PIPELINE):
            bundle = requests[start:start + PIPELINE]
            self.send(*bundle)
            answers += [self.receive() for _ in bundle]
        return answers


def create_topic(connection, partitions):
    """CreateTopics v2."""
    topic = text(TOPIC.encode()) + struct.pack(">ihii", partitions, 1, 0, 0)
    connection.send(struct.pack(">hhi", 19, 2, 0) + text(b"bench") + struct.pack(">i", 1) + topic + struct.pack(">i?", 30_000, False))
    r = Reader(connection.receive())
    r.take(12)
    r.text()
    check(r.number("h"), "CreateTopics")


def text(s):
    return struct.pack(">h", len(s)) + s


def data(b):
    return struct.pack(">i", len(b)) + b


def compact(s):
    return bytes([len(s) + 1]) + s  # of less than 127 bytes


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        (n,) = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(form)
        return n

    def take(self, n):
        self.at += n
        return self.data[self.at - n:self.at]

    def text(self):
        return self.take(self.number("h"))

    def varint(self):
        n = shift = 0
        while (b := self.number("B")) >= 128:
            n |= (b & 127) << shift
            shift += 7
        return n | b << shift

    def compact(self):
        n = self.number("B")
        return self.take(n - 1) if n else None


def check(code, what):
    if code:
        raise servers.Failed(f"{what}: error code {code}")


class Classic:
    """JoinGroup v3, SyncGroup v1, Heartbeat v1. The member that leads assigns a partition to each."""

    def __init__(self, group):
        self.group, self.id = text(group), b""

    def request(self, key, version, body):
        return struct.pack(">hhi", key, version, 0) + text(b"bench") + self.group + body

    def join(self):
        subscription = struct.pack(">hi", 0, 1) + text(TOPIC.encode()) + data(b"")
        timeouts = struct.pack(">ii", SESSION_MS, SESSION_MS)
        return self.request(11, 3, timeouts + text(self.id) + text(b"consumer") + struct.pack(">i", 1) + text(b"range") + data(subscription))

    def joined(self, answer):
        r = Reader(answer)
        r.take(8)
        check(r.number("h"), "JoinGroup")
        self.generation = r.number("i")
        r.text()
        leader, self.id = r.text(), r.text()
        self.leads = leader == self.id
        self.members = [(r.text(), r.take(r.number("i")))[0] for _ in range(r.number("i"))]

    def sync(self):
        shares = b"".join(text(id) + data(share(i)) for i, id in enumerate(self.members))
        return self.request(14, 1, struct.pack(">i", self.generation) + text(self.id) + struct.pack(">i", len(self.members)) + shares)

    def heartbeat(self):
        return self.request(12, 1, struct.pack(">i", self.generation) + text(self.id))

    def check(self, answer):
        """Takes the answer to sync or heartbeat, and tells whether to join again."""
        code = struct.unpack_from(">h", answer, 8)[0]
        if code == REBALANCE_IN_PROGRESS:
            return True
        check(code, "SyncGroup or Heartbeat")


def share(partition):
    return struct.pack(">hi", 0, 1) + text(TOPIC.encode()) + struct.pack(">ii", 1, partition) + data(b"")


class Consumer:
    """ConsumerGroupHeartbeat v0 (KIP-848), with a single topic."""

    def __init__(self, group):
        self.group, self.id, self.epoch = compact(group), b"", 0
        self.owns, self.topic = set(), b""

    def request(self, rebalance_ms, names, topics):
        head = struct.pack(">hhi", 68, 0, 0) + text(b"bench") + b"\0" + self.group + compact(self.id)
        return head + struct.pack(">i", self.epoch) + b"\0\0" + struct.pack(">i", rebalance_ms) + names + b"\0" + topics + b"\0"

    def join(self):
        return self.request(SESSION_MS, b"\2" + compact(TOPIC.encode()), b"\1")

    def heartbeat(self):
        """Says what it owns while that is news, as clients do."""
        if not self.news:
            return self.request(-1, b"\0", b"\0")
        self.news = False
        partitions = varint(len(self.owns) + 1) + b"".join(struct.pack(">i", p) for p in sorted(self.owns))
        return self.request(-1, b"\0", b"\2" + self.topic + partitions + b"\0" if self.owns else b"\1")

    sync = heartbeat

    def joined(self, answer):
        """Takes over what it is assigned, and tells whether it had to give something up."""
        r = Reader(answer)
        r.take(9)
        check(r.number("h"), "ConsumerGroupHeartbeat")
        r.compact()
        self.id = r.compact()
        self.epoch, self.interval = r.number("i"), r.number("i") / 1000
        had = self.owns
        self.news = r.number("b") == 1
        if self.news:
            self.owns = set()
            for _ in range(r.varint() - 1):
                self.topic = r.take(16)
                self.owns = {r.number("i") for _ in range(r.varint() - 1)}
                r.take(1)
        return bool(had - self.owns)

    check = joined


def varint(n):
    out = b""
    while n >= 128:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


PROTOCOLS = {"classic": Classic, "consumer": Consumer}
