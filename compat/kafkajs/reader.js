// A reader with kafkajs; see ../reader/reader.go.
// usage: node reader.js HOST:PORT GROUP TOPIC PROTOCOL [key=value ...]
const readline = require('node:readline')
const { Kafka, logLevel } = require('kafkajs')

const [address, groupId, topic, , ...pairs] = process.argv.slice(2)
const settings = Object.fromEntries(pairs.map((s) => s.split('=', 2)))

// What the settings of Kafka's own consumer are called here.
const names = {
  'session.timeout.ms': 'sessionTimeout',
  'heartbeat.interval.ms': 'heartbeatInterval',
  'fetch.max.wait.ms': 'maxWaitTimeInMs',
  'fetch.min.bytes': 'minBytes',
  'max.partition.fetch.bytes': 'maxBytesPerPartition',
}
const options = { groupId, maxWaitTimeInMs: 500, metadataMaxAge: 1000 }
for (const [key, value] of Object.entries(settings)) {
  if (names[key]) options[names[key]] = Number(value)
}
options.readUncommitted = settings['isolation.level'] === 'read_uncommitted'

const kafka = new Kafka({
  brokers: [address],
  clientId: settings['client.id'] ?? 'kafkajs',
  logLevel: logLevel.WARN,
  retry: { initialRetryTime: 100, retries: 50 },
})
const consumer = kafka.consumer(options)
const say = (...words) => process.stdout.write(words.join(' ') + '\n')

async function eachMessage({ topic, partition, message }) {
  say('read', topic, partition, message.offset, message.value?.length ?? 0)
  const offset = String(BigInt(message.offset) + 1n)
  try {
    await consumer.commitOffsets([{ topic, partition, offset }])
    say('committed', topic, partition, offset)
  } catch (e) {
    console.error('commit:', e.message) // a rebalance; whoever gets the partition reads the record again
  }
}

async function obey(line) {
  const [name, topic, partition, offset] = line.split(' ')
  const where = [{ topic, partitions: [Number(partition)] }]
  switch (name) {
    case 'pause': return consumer.pause(where)
    case 'resume': return consumer.resume(where)
    case 'seek': return consumer.seek({ topic, partition: Number(partition), offset })
    case 'close':
      await consumer.disconnect()
      process.exit(0)
  }
}

async function main() {
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    for (const [topic, partitions] of Object.entries(payload.memberAssignment)) {
      for (const p of partitions) say('assigned', topic, p)
    }
  })
  await consumer.connect()
  const what = topic.startsWith('^') ? new RegExp(topic) : topic
  await consumer.subscribe({ topics: [what], fromBeginning: true })
  await consumer.run({ autoCommit: false, partitionsConsumedConcurrently: 3, eachMessage })
  const lines = readline.createInterface({ input: process.stdin })
  lines.on('line', obey)
  lines.on('close', () => obey('close'))
}

main().catch((e) => {
  console.error(e)
  process.exit(1)
})
