// A member of a consumer group with kafkajs; see ../member/member.go.
// usage: node member.js HOST:PORT GROUP TOPIC PROTOCOL
const { Kafka, logLevel } = require('kafkajs')

const [address, groupId, topic] = process.argv.slice(2)
const kafka = new Kafka({
  brokers: [address],
  // Its logger writes warnings and errors to standard error.
  logLevel: logLevel.WARN,
  retry: { initialRetryTime: 100, retries: 20 },
})
const consumer = kafka.consumer({
  groupId,
  sessionTimeout: 6000,
  heartbeatInterval: 500,
  maxWaitTimeInMs: 100,
})

async function eachMessage({ partition, message }) {
  process.stdout.write(`read ${partition} ${message.offset} ${message.value}\n`)
  const offset = String(BigInt(message.offset) + 1n)
  try {
    await consumer.commitOffsets([{ topic, partition, offset }])
    process.stdout.write(`committed ${partition} ${offset}\n`)
  } catch (e) {
    console.error('commit:', e.message) // a rebalance; whoever gets the partition reads the record again
  }
}

async function main() {
  await consumer.connect()
  process.once('SIGTERM', async () => {
    await consumer.disconnect() // leaves
    process.exit(0)
  })
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ autoCommit: false, partitionsConsumedConcurrently: 3, eachMessage })
}

main().catch((e) => {
  console.error(e)
  process.exit(1)
})
