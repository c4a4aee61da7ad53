"""A member of a consumer group with confluent-kafka-python (librdkafka); see ../member/member.go.

usage: member.py HOST:PORT GROUP TOPIC PROTOCOL
"""

import signal
import sys

from confluent_kafka import Consumer, KafkaException

ADDRESS, GROUP, TOPIC, PROTOCOL = sys.argv[1:]
running = True


def stop(*_):
    global running
    running = False


def commit(consumer, message):
    try:
        for p in consumer.commit(message=message, asynchronous=False):
            if p.error is None:
                print("committed", p.partition, p.offset, flush=True)
    except KafkaException as e:
        print("commit:", e, file=sys.stderr)  # a rebalance; whoever gets the partition reads the record again


signal.signal(signal.SIGTERM, stop)
consumer = Consumer({
    "bootstrap.servers": ADDRESS,
    "group.id": GROUP,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 500,
})
consumer.subscribe([TOPIC])
while running:
    message = consumer.poll(0.1)
    if message is None:
        continue
    if message.error() is not None:
        print("poll:", message.error(), file=sys.stderr)
        continue
    print("read", message.partition(), message.offset(), message.value().decode(), flush=True)
    commit(consumer, message)
consumer.close()
