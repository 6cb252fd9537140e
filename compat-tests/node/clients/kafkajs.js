// kafkajs, and @confluentinc/kafka-javascript, whose promise API is kafkajs's on librdkafka.
'use strict'

const zlib = require('node:zlib')
const { Collector, sleep } = require('./index')

const IS_CONFLUENT = process.env.CLIENT === 'confluent-js'
const library = IS_CONFLUENT
  ? require('@confluentinc/kafka-javascript').KafkaJS
  : require('kafkajs')
const { CompressionTypes, Kafka, logLevel } = library

if (!IS_CONFLUENT) {
  const { CompressionCodecs } = library
  const lz4 = require('lz4-napi')
  CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: encoder => lz4.compressFrame(encoder.buffer),
    decompress: buffer => lz4.decompressFrame(buffer)
  })
  // Node has zstd itself; kafkajs's own package for it does not build any more.
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async encoder => zlib.zstdCompressSync(encoder.buffer),
    decompress: async buffer => zlib.zstdDecompressSync(buffer)
  })
}

/** Options under kafkaJS, where confluent wants them, plus what only librdkafka knows. */
const options = (common, librdkafka = {}) =>
  IS_CONFLUENT ? { kafkaJS: common, ...librdkafka } : common

const toMessage = r => ({
  partition: r.partition,
  key: r.key,
  value: r.value,
  timestamp: r.timestamp === undefined ? undefined : String(r.timestamp),
  headers: r.headers && collectHeaders(r.headers)
})

/** An object; a name that comes twice has a list there. */
function collectHeaders (pairs) {
  const headers = {}
  for (const [name, value] of pairs) {
    headers[name] = name in headers ? [headers[name], value].flat() : value
  }
  return headers
}

function fromMessage (partition, message) {
  const headers = Object.entries(message.headers ?? {})
    .flatMap(([name, values]) => [values].flat().map(value => [name, value]))
  return {
    partition,
    offset: Number(message.offset),
    key: message.key ?? null,
    value: message.value,
    timestamp: Number(message.timestamp),
    headers
  }
}

class Client {
  constructor (bootstrap) {
    this.bootstrap = bootstrap
    this.takesRepeatedHeaders = true
    this.open = new Set()
    this.groups = 0
  }

  kafka (retries = 8) {
    return new Kafka(options({
      clientId: 'compat',
      brokers: [this.bootstrap],
      logLevel: logLevel.ERROR,
      retry: { retries, initialRetryTime: 100, maxRetryTime: 1000 }
    }))
  }

  async admin (work) {
    const admin = this.kafka().admin()
    await admin.connect()
    try {
      return await work(admin)
    } finally {
      await admin.disconnect()
    }
  }

  /** kafkajs's own waiting for leaders gives up when the topic is not known yet. */
  async createTopic (topic, partitions) {
    const topics = [{ topic, numPartitions: partitions, replicationFactor: 1 }]
    await this.admin(admin => admin.createTopics({ topics, waitForLeaders: false }))
    const count = () => this.partitions(topic).then(found => found.length, () => 0)
    for (let i = 0; i < 100 && await count() < partitions; i++) await sleep(100)
  }

  deleteTopic (topic) {
    return this.admin(admin => admin.deleteTopics({ topics: [topic] }))
  }

  async partitions (topic) {
    return this.admin(async admin => {
      if (!(await admin.listTopics()).includes(topic)) return []
      const metadata = await admin.fetchTopicMetadata({ topics: [topic] })
      const [found] = metadata.topics ?? metadata
      return found.partitions.filter(p => p.leader >= 0 || p.leader?.id >= 0)
        .map(p => p.partitionId).sort()
    })
  }

  async produce (topic, records, { codec = 'none', maxBytes } = {}) {
    const compression = CompressionTypes[
      { none: 'None', gzip: 'GZIP', snappy: IS_CONFLUENT ? 'SNAPPY' : 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' }[codec]
    ]
    const librdkafka = maxBytes ? { 'message.max.bytes': maxBytes } : {}
    const settings = IS_CONFLUENT ? { compression } : { allowAutoTopicCreation: true }
    const producer = this.kafka().producer(options(settings, librdkafka))
    await producer.connect()
    try {
      const messages = records.map(toMessage)
      const how = IS_CONFLUENT ? {} : { compression }
      const answers = await producer.send({ topic, messages, ...how })
      return offsetsOf(answers, records)
    } finally {
      await producer.disconnect()
    }
  }

  async idempotent (topic) {
    const settings = IS_CONFLUENT
      ? { idempotent: true }
      : { idempotent: true, maxInFlightRequests: 1 }
    const producer = this.kafka(100).producer(options(settings))
    await producer.connect()
    let count = 0
    let last = Promise.resolve()
    return {
      // One after the other, as kafkajs's idempotent producer asks for; confluent's queues itself.
      send: value => {
        const send = () => producer.send({ topic, messages: [{ partition: 0, value }] })
          .then(() => count++)
        last = IS_CONFLUENT ? Promise.all([last, send()]) : last.then(send)
        last.catch(() => {})
      },
      finish: async () => {
        await last
        await producer.disconnect()
        return count
      }
    }
  }

  /** A consumer with a group of its own: neither library consumes without one. */
  async consumer (group, fromBeginning, more = {}, librdkafka = {}) {
    const settings = { groupId: group, ...more }
    if (IS_CONFLUENT) Object.assign(settings, { fromBeginning, autoCommit: false })
    const quick = IS_CONFLUENT ? {} : { maxWaitTimeInMs: 200 }
    const consumer = this.kafka().consumer(options({ ...settings, ...quick }, librdkafka))
    await consumer.connect()
    return consumer
  }

  async run (consumer, topic, fromBeginning, eachMessage) {
    await consumer.subscribe(IS_CONFLUENT ? { topic } : { topic, fromBeginning })
    await consumer.run(IS_CONFLUENT ? { eachMessage } : { autoCommit: false, eachMessage })
  }

  async consume (topic, start, count) {
    const consumer = await this.consumer(`consume-${topic}-${this.groups++}`, true)
    const collector = new Collector()
    const from = start === 'earliest' ? 0 : start
    await this.run(consumer, topic, true, async ({ partition, message }) => {
      if (Number(message.offset) >= from) collector.add(fromMessage(partition, message))
    })
    if (from > 0) consumer.seek({ topic, partition: 0, offset: String(from) })
    try {
      return await collector.until(count)
    } finally {
      await consumer.disconnect()
    }
  }

  async tail (topic) {
    const consumer = await this.consumer(`tail-${topic}`, false)
    const collector = new Collector()
    await this.run(consumer, topic, false, async ({ partition, message }) => {
      collector.add(fromMessage(partition, message))
    })
    return async () => {
      if (collector.records.length) await consumer.disconnect()
      return collector.records
    }
  }

  async offsetFor (topic, timestamp) {
    const [found] = await this.admin(admin => admin.fetchTopicOffsetsByTimestamp(topic, timestamp))
    return Number(found.offset)
  }

  async groupTake (group, topic, count) {
    const consumer = await this.consumer(group, true)
    const collector = new Collector()
    await this.run(consumer, topic, true, async ({ partition, message }) => {
      collector.add(fromMessage(partition, message))
    })
    const records = await collector.until(count)
    const last = records[count - 1]
    await consumer.commitOffsets([{ topic, partition: 0, offset: String(last.offset + 1) }])
    await consumer.disconnect()
    return records
  }

  async committed (group, topic, partitions) {
    const [found] = await this.admin(admin => admin.fetchOffsets({ groupId: group, topics: [topic] }))
    const offsets = Array(partitions).fill(-1)
    for (const { partition, offset } of found.partitions) {
      offsets[partition] = Math.max(Number(offset), -1)
    }
    return offsets
  }

  async endOffsets (topic, partitions) {
    const found = await this.admin(admin => admin.fetchTopicOffsets(topic))
    const offsets = Array(partitions).fill(-1)
    for (const { partition, high } of found) offsets[partition] = Number(high)
    return offsets
  }

  async member (group, topic, sessionMs, onRecord) {
    const more = { sessionTimeout: sessionMs, heartbeatInterval: 500 }
    const consumer = await this.consumer(group, true, more)
    await this.run(consumer, topic, true, async ({ partition, message }) => {
      onRecord(partition, message.value)
      const offset = String(Number(message.offset) + 1)
      // An error means that a rebalance came between: who has the partition now commits.
      await consumer.commitOffsets([{ topic, partition, offset }]).catch(() => sleep(10))
    })
    return () => consumer.disconnect()
  }

  errorName (error) {
    const inner = error.errors?.[0] ?? error
    const type = inner.type ?? inner.cause?.type ?? String(inner.message)
    return { ERR_MSG_SIZE_TOO_LARGE: 'MESSAGE_TOO_LARGE', ERR_TOPIC_EXCEPTION: 'INVALID_TOPIC_EXCEPTION' }[type] ?? type
  }
}

/** kafkajs tells each batch's first offset, confluent's the same: the others follow from it. */
function offsetsOf (answers, records) {
  const next = new Map(answers.map(a => [a.partition, Number(a.baseOffset ?? a.offset)]))
  if (answers.length !== new Set(records.map(r => r.partition)).size) return records.map(() => null)
  return records.map(({ partition }) => {
    const offset = next.get(partition)
    next.set(partition, offset + 1)
    return offset
  })
}

exports.open = bootstrap => new Client(bootstrap)
