"""What confluent-kafka-python (librdkafka) must be able to do with a broker.   usage: check.py HOST:PORT

Prints one line a check: its name, a comma, PASS or FAIL. Reasons go to standard error.
"""

import sys
import time
import traceback
import uuid

from confluent_kafka import Consumer, Producer, TopicPartition, TIMESTAMP_CREATE_TIME
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

BROKER = sys.argv[1]
PREFIX = "python-" + uuid.uuid4().hex[:8] + "-"
TIMEOUT = 20  # seconds, for any single call
BASE = 1_600_000_000_000  # timestamp of the first record, in ms
CHECKS = []
ADMIN = AdminClient({"bootstrap.servers": BROKER})


def check(name):
    def add(function):
        CHECKS.append((name, function))
        return function

    return add


def create(topic, partitions=1, config=None):
    ADMIN.create_topics([NewTopic(topic, partitions, 1, config=config or {})])[topic].result(TIMEOUT)


def produce(topic, records, **config):
    """Writes (key, value, headers) records, the nth with the timestamp BASE + 10 n, and returns their offsets."""
    offsets, errors = [], []

    def delivered(error, message):
        errors.append(error) if error else offsets.append(message.offset())

    config = {"bootstrap.servers": BROKER, **{k.replace("_", "."): v for k, v in config.items()}}
    producer = Producer(config)
    for n, (key, value, headers) in enumerate(records):
        producer.produce(topic, value, key, 0, on_delivery=delivered, timestamp=BASE + 10 * n, headers=headers)
    assert producer.flush(TIMEOUT) == 0, "records are still in the queue"
    assert not errors, errors
    return offsets


def consumer(topic, offset, partition=0):
    c = Consumer({"bootstrap.servers": BROKER, "group.id": "unused", "enable.auto.commit": False})
    c.assign([TopicPartition(topic, partition, offset)])
    return c


def read(c, count):
    """Reads (offset, key, value, headers) of the next records."""
    records = []
    deadline = time.monotonic() + TIMEOUT
    while len(records) < count:
        assert time.monotonic() < deadline, "%d of %d records came" % (len(records), count)
        m = c.poll(0.1)
        if m is None:
            continue
        assert m.error() is None, m.error()
        records.append((m.offset(), m.key(), m.value(), m.headers()))
    return records


def numbered(n):
    return [(b"key-%d" % i, b"value-%d" % i, [("n", b"%d" % i)]) for i in range(n)]


def same(got, want):
    assert got == want, "got %.300r, want %.300r" % (got, want)


def round_trip(topic, **config):
    create(topic)
    records = numbered(300)
    offsets = produce(topic, records, **config)
    if config.get("acks") != "0":
        same(offsets, list(range(300)))
    c = consumer(topic, 0)
    same(read(c, 300), [(i, *r) for i, r in enumerate(records)])
    c.close()


for codec in ["none", "gzip", "snappy", "lz4", "zstd"]:
    for acks in ["0", "1", "all"]:
        check("produce %s acks=%s" % (codec, acks))(lambda t, z=codec, a=acks: round_trip(t, compression_type=z, acks=a))
    check("produce %s idempotent" % codec)(lambda t, z=codec: round_trip(t, compression_type=z, enable_idempotence=True))


@check("produce nulls and headers")
def nulls(topic):
    create(topic)
    records = [(None, b"v", None), (b"k", None, None), (b"", b"", [("a", b"1"), ("a", None), ("b", b"")])]
    produce(topic, records)
    c = consumer(topic, 0)
    same(read(c, 3), [(i, *r) for i, r in enumerate(records)])
    c.close()


@check("read by timestamp")
def by_timestamp(topic):
    create(topic)
    produce(topic, numbered(100))
    c = consumer(topic, 0)
    for delta, want in [(-5, 0), (0, 0), (1, 1), (495, 50), (990, 99)]:
        found = c.offsets_for_times([TopicPartition(topic, 0, BASE + delta)], timeout=TIMEOUT)
        same(found[0].offset, want)
    same(c.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT), (0, 100))
    c.close()


@check("read shows timestamps")
def timestamps(topic):
    create(topic)
    produce(topic, numbered(2))
    c = consumer(topic, 1)
    deadline = time.monotonic() + TIMEOUT
    message = None
    while message is None and time.monotonic() < deadline:
        message = c.poll(0.1)
    same(message.timestamp(), (TIMESTAMP_CREATE_TIME, BASE + 10))
    c.close()


@check("read seeks back and forth")
def seek(topic):
    create(topic)
    produce(topic, numbered(50))
    c = consumer(topic, 0)
    read(c, 1)
    for offset in [40, 7, 49, 0]:
        c.seek(TopicPartition(topic, 0, offset))
        same(read(c, 1)[0][0], offset)
    c.close()


@check("read waits for records")
def waits(topic):
    create(topic)
    c = consumer(topic, 0)
    for n in range(3):
        assert c.poll(0.1) is None
        produce(topic, numbered(1))
        same(read(c, 1)[0][0], n)
    c.close()


@check("topic create, describe, alter, delete")
def lifecycle(topic):
    create(topic, 2, {"retention.ms": "3600000"})
    ADMIN.create_partitions([NewPartitions(topic, 5)])[topic].result(TIMEOUT)
    same(len(ADMIN.list_topics(topic, TIMEOUT).topics[topic].partitions), 5)
    resource = ConfigResource("topic", topic)
    same(list(ADMIN.describe_configs([resource]).values())[0].result(TIMEOUT)["retention.ms"].value, "3600000")
    changed = ConfigResource("topic", topic, {"retention.ms": "7200000"})
    list(ADMIN.alter_configs([changed]).values())[0].result(TIMEOUT)
    same(list(ADMIN.describe_configs([resource]).values())[0].result(TIMEOUT)["retention.ms"].value, "7200000")
    ADMIN.delete_topics([topic])[topic].result(TIMEOUT)
    assert topic not in ADMIN.list_topics(timeout=TIMEOUT).topics


def main():
    for number, (name, function) in enumerate(CHECKS):
        try:
            function(PREFIX + str(number))
            print(name + ",PASS", flush=True)
        except Exception:
            print("confluent-kafka-python %s: %s" % (name, traceback.format_exc(limit=-2)), file=sys.stderr)
            print(name + ",FAIL", flush=True)


main()
