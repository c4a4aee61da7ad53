"""The rows of docs/performance.md: what is run for each, what is read off, and the goals."""

from dataclasses import dataclass, field
from typing import Callable

PRELOAD = 3_000_000_000  # bytes that a consumer finds (C1); fan-out 5 reads a third of it five times


@dataclass
class Goal:
    """A bound on sluice's figure, or on its ratio to another contestant's."""

    op: str
    bound: float
    against: str = ""

    def __str__(self):
        sign = {"<=": "≤", ">=": "≥"}[self.op]
        return f"{sign} {self.bound:g} x {self.against}" if self.against else f"{sign} {self.bound:,g}"

    def met(self, value):
        return value <= self.bound if self.op == "<=" else value >= self.bound


@dataclass
class Measure:
    """One line of the table."""

    what: str
    value: Callable[[dict], float]  # from the load generator's JSON
    goals: list[Goal]
    digits: int = 2


@dataclass
class Contestant:
    """A server, how it is set, and what the load generator does to it."""

    server: str  # sluice, before, reference, Kafka or disk
    load: list[str] = field(default_factory=list)
    fsync: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    startup: bool = False  # the load generator starts it and watches it being idle


@dataclass
class Row:
    name: str
    contestants: dict[str, Contestant]  # "sluice" is judged
    measures: list[Measure]


def number(*path):
    def value(result):
        for key in path:
            result = result[key]
        return float(result)
    return value


def cpu(result):
    return result.get("server_user_s", 0) + result.get("server_sys_s", 0)


def wire_cost(result):
    """CPU seconds per GB as received: the load generator counts bytes before compression."""
    batches = result["records"] / result["extra"]["records_per_batch"]
    gigabytes = batches * result["extra"]["wire_batch_bytes"] / 1e9
    return cpu(result) / gigabytes


def ack_or_sync(result):
    return result["sync_p99_ms"] if "sync_p99_ms" in result else result["ack_ms"]["p99"]


cpu_per_gb = number("server_cpu_s_per_gb")
cpu_per_request = number("server_cpu_s_per_mrec")  # with one record a request, seconds per million are us each
mb_per_s = number("mb_per_s")
requests_per_s = number("rec_per_s")


def same(load, *servers, **how):
    return {server: Contestant(server, load, **how) for server in servers}


def all_rows(seconds):
    timed = ["-warmup", "1s", "-duration", f"{seconds}s"]
    bounded = ["-duration", f"{4 * seconds}s"]  # ends when all is read
    go = ("sluice", "before", "reference")
    return [
        Row("P1", same(["-mode", "raw-produce", "-batch-bytes", "100000"] + timed, *go, "Kafka"), [
            Measure("100 KB batches: CPU-s/GB", cpu_per_gb, [Goal("<=", 0.9), Goal("<=", 0.5, "Kafka")]),
            Measure("MB/s", mb_per_s, [Goal(">=", 0.75, "reference")], 0),
        ]),
        Row("P2", same(["-mode", "raw-produce", "-batch-bytes", "1300"] + timed, *go), [
            Measure("one-record 1 KiB batches: requests/s", requests_per_s, [Goal(">=", 0.7, "reference")], 0),
            Measure("us CPU a request", cpu_per_request, [Goal("<=", 20)], 1),
        ]),
        Row("C1", same(["-mode", "raw-consume", "-bytes", str(PRELOAD)] + bounded, *go), [
            Measure("catch-up from the page cache: MB/s", mb_per_s, [Goal(">=", 0.8, "reference")], 0),
            Measure("CPU-s/GB", cpu_per_gb, [Goal("<=", 0.4)]),
        ]),
        Row("C2", same(["-mode", "raw-consume", "-groups", "5", "-bytes", str(PRELOAD // 3)] + bounded, *go), [
            Measure("fan-out 5: MB/s delivered", mb_per_s, [Goal(">=", 0.8, "reference")], 0),
            Measure("CPU-s/GB", cpu_per_gb, [Goal("<=", 0.35)]),
        ]),
        Row("L1", same(["-mode", "e2e", "-rate", "20000", "-direct"] + timed, *go, "Kafka"), [
            Measure("end to end, 20,000 x 1 KiB a second: p50 ms", number("e2e_ms", "p50"), [Goal("<=", 0.5)]),
            Measure("p99 ms", number("e2e_ms", "p99"), [Goal("<=", 5), Goal("<=", 1.5, "reference")]),
            Measure("p99.9 ms", number("e2e_ms", "p99_9"), [Goal("<=", 15)]),
        ]),
        Row("D1", same(["-mode", "raw-produce", "-batch-bytes", "100000", "-producers", "16"] + timed, *go, fsync=True)
            | {"disk": Contestant("disk")}, [
            Measure("fsync before ack, 16 producers: MB/s", mb_per_s, [Goal(">=", 0.8, "disk")], 0),
        ]),
        Row("D1", same(["-mode", "e2e", "-rate", "1000", "-record-size", "100000", "-direct"] + timed, *go, fsync=True)
            | {"disk": Contestant("disk")}, [
            Measure("ack at 1,000 x 100 KB a second: p99 ms; disk: p99 of fdatasync", ack_or_sync, [Goal("<=", 2, "disk")]),
        ]),
        Row("S1", startups(1, *go, "Kafka"), [
            Measure("start to first Metadata: ms", number("extra", "metadata_ms"), [Goal("<=", 50)], 0),
        ]),
        Row("S2", startups(seconds, *go, "Kafka"), [
            Measure("idle: RSS MB", number("extra", "idle_rss_mb"), [Goal("<=", 20)], 1),
            Measure("CPU %", number("extra", "idle_cpu_percent"), [Goal("<=", 0.5)]),
        ]),
        Row("S3", same(["-mode", "conns", "-conns", "10000", "-rate", "2000", "-duration", f"{seconds}s"], *go, "Kafka"), [
            Measure("10,000 connections: bytes each", number("extra", "server_bytes_per_conn"), [Goal("<=", 12_000)], 0),
            Measure("accepts/s", number("extra", "opens_per_s"), [Goal(">=", 8_000)], 0),
            Measure("round trips at 2,000/s: p99 ms", number("ack_ms", "p99"), [Goal("<=", 5)]),
        ]),
        compressed("relaxed", timed),
        compressed("strict", timed),
        groups("G1", 100, "classic", [Goal("<=", 150)], 3_100),
        groups("G1", 1000, "classic", [], 3_100),
        groups("G2", 100, "consumer", [], 500),
        groups("G2", 1000, "consumer", [], 500),
    ]


def groups(name, members, protocol, forms, changes):
    """A group of so many members over as many partitions forms; then one leaves, then one joins: in ms until every partition has its one
    owner. A classic member hears of a change with its next heartbeat, every 3 s with this client."""
    load = ["-mode", "group", "-members", str(members), "-partitions", str(members), "-protocol", protocol, "-duration", "60s"]
    return Row(name, same(load, "sluice", "before", "Kafka"), [
        Measure(f"{members:,} members, {protocol}: form ms", number("extra", "form_ms"), forms, 0),
        Measure("one leaves: ms", number("extra", "leave_one_ms"), [Goal("<=", changes)], 0),
        Measure("one joins: ms", number("extra", "join_one_ms"), [Goal("<=", changes)], 0),
        Measure("CPU-s of all that", cpu, []),
    ])


def startups(seconds, *servers):
    return same(["-mode", "startup", "-duration", f"{seconds}s"], *servers, startup=True)


def compressed(validation, timed):
    """One record of text a batch, about 100 KB on the wire in both runs: 4 to 1 by zstd, and as it is."""
    settings = {"sluice.batch.validation": validation}
    load = ["-mode", "raw-produce", "-payload", "text"] + timed
    return Row("Z1", {
        "sluice": Contestant("sluice", load + ["-compression", "zstd", "-record-size", "400000", "-batch-bytes", "400200"], settings=settings),
        "plain": Contestant("sluice", load + ["-record-size", "100000", "-batch-bytes", "100200"], settings=settings),
    }, [Measure(f"zstd, {validation} validation: CPU-s/GB on the wire", wire_cost, [Goal("<=", 1.1, "plain")])])
