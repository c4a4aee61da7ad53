"""A reader with confluent-kafka-python (librdkafka); see ../reader/reader.go.

usage: reader.py HOST:PORT GROUP TOPIC PROTOCOL [key=value ...]
"""

import queue
import sys
import threading

from confluent_kafka import Consumer, KafkaException, TopicPartition

ADDRESS, GROUP, TOPIC, _ = sys.argv[1:5]
commands = queue.SimpleQueue()


def say(*words):
    print(*words, flush=True)


def listen():
    for line in sys.stdin:
        commands.put(line.split())
    commands.put(["close"])


def obey(consumer, name, topic, partition, offset=-1):
    where = TopicPartition(topic, int(partition), int(offset))
    match name:
        case "pause":
            consumer.pause([where])
        case "resume":
            consumer.resume([where])
        case "seek":
            consumer.seek(where)


def commit(consumer, message):
    try:
        for p in consumer.commit(message=message, asynchronous=False):
            if p.error is None:
                say("committed", p.topic, p.partition, p.offset)
    except KafkaException as e:
        print("commit:", e, file=sys.stderr)  # a rebalance; whoever gets the partition reads the record again


def said(what):
    def say_all(_, partitions):
        for p in partitions:
            say(what, p.topic, p.partition)

    return say_all


settings = {
    "bootstrap.servers": ADDRESS,
    "group.id": GROUP,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "topic.metadata.refresh.interval.ms": 1000,
}
settings.update(s.split("=", 1) for s in sys.argv[5:])
if "fetch.max.wait.ms" in settings:
    settings["fetch.wait.max.ms"] = settings.pop("fetch.max.wait.ms")
threading.Thread(target=listen, daemon=True).start()
consumer = Consumer(settings)
consumer.subscribe([TOPIC], on_assign=said("assigned"), on_revoke=said("revoked"))
running = True
while running:
    while not commands.empty():
        command = commands.get()
        if command[0] == "close":
            running = False
        else:
            obey(consumer, *command)
    message = consumer.poll(0.05)
    if message is None:
        continue
    if message.error() is not None:
        print("poll:", message.error(), file=sys.stderr)
        continue
    say("read", message.topic(), message.partition(), message.offset(), len(message.value() or b""))
    commit(consumer, message)
consumer.close()
