// @platformatic/kafka.
'use strict'

const { Admin, Consumer, Producer } = require('@platformatic/kafka')
const { Collector } = require('./index')

const NAMES = { 10: 'MESSAGE_TOO_LARGE', 17: 'INVALID_TOPIC_EXCEPTION' }

function fromMessage (message) {
  return {
    partition: message.partition,
    offset: Number(message.offset),
    key: message.key ?? null,
    value: message.value ?? null,
    timestamp: Number(message.timestamp),
    headers: [...message.headers].map(([name, value]) => [String(name), value])
  }
}

class Client {
  constructor (bootstrap) {
    this.base = { clientId: 'compat', bootstrapBrokers: [bootstrap], timeout: 30_000 }
    this.takesRepeatedHeaders = false
    this.groups = 0
  }

  async admin (work) {
    const admin = new Admin(this.base)
    try {
      return await work(admin)
    } finally {
      await admin.close()
    }
  }

  createTopic (topic, partitions) {
    return this.admin(admin => admin.createTopics({ topics: [topic], partitions, replicas: 1 }))
  }

  deleteTopic (topic) {
    return this.admin(admin => admin.deleteTopics({ topics: [topic] }))
  }

  async partitions (topic) {
    return this.admin(async admin => {
      if (!(await admin.listTopics()).includes(topic)) return []
      const metadata = await admin.metadata({ topics: [topic] })
      return metadata.topics.get(topic).partitions.map((_, i) => i)
    })
  }

  async produce (topic, records, { codec = 'none' } = {}) {
    const producer = new Producer({ ...this.base, autocreateTopics: true })
    try {
      const messages = records.map(r => ({
        topic,
        partition: r.partition,
        ...(r.key && { key: r.key }),
        ...(r.value && { value: r.value }),
        ...(r.timestamp && { timestamp: BigInt(r.timestamp) }),
        ...(r.headers && { headers: new Map(r.headers.map(([n, v]) => [Buffer.from(n), v])) })
      }))
      const { offsets } = await producer.send({ messages, compression: codec, acks: -1 })
      return offsetsOf(offsets, records)
    } finally {
      await producer.close()
    }
  }

  async idempotent (topic) {
    const producer = new Producer({
      ...this.base, idempotent: true, retries: 200, retryDelay: 100, strict: true
    })
    let count = 0
    let last = Promise.resolve()
    return {
      send: value => {
        last = last.then(() => producer.send({ messages: [{ topic, partition: 0, value }] }))
          .then(() => count++)
        last.catch(() => {})
      },
      finish: async () => {
        await last
        await producer.close()
        return count
      }
    }
  }

  /** A stream of one consumer, and what ends both. */
  async stream (group, topic, how, onMessage, more = {}) {
    const consumer = new Consumer({ ...this.base, groupId: group, autocommit: false, ...more })
    const stream = await consumer.consume({ topics: [topic], maxWaitTime: 200, autocommit: false, ...how })
    stream.on('data', onMessage)
    stream.on('error', error => console.error('stream:', error))
    return { consumer, close: () => consumer.close(true) }
  }

  async consume (topic, start, count) {
    const collector = new Collector()
    const how = start === 'earliest'
      ? { mode: 'earliest' }
      : { mode: 'manual', offsets: [{ topic, partition: 0, offset: BigInt(start) }] }
    const name = `consume-${topic}-${this.groups++}`
    const { close } = await this.stream(name, topic, how, m => collector.add(fromMessage(m)))
    try {
      return await collector.until(count)
    } finally {
      await close()
    }
  }

  async tail (topic) {
    const collector = new Collector()
    const onMessage = m => collector.add(fromMessage(m))
    const { close } = await this.stream(`tail-${topic}`, topic, { mode: 'latest' }, onMessage)
    let closed
    return async () => {
      if (collector.records.length) await (closed ??= close())
      return collector.records
    }
  }

  async offsetFor (topic, timestamp) {
    const consumer = new Consumer({ ...this.base, groupId: `offsets-${topic}` })
    try {
      const asked = { topics: [topic], partitions: { [topic]: [0] }, timestamp: BigInt(timestamp) }
      return Number((await consumer.listOffsets(asked)).get(topic)[0])
    } finally {
      await consumer.close(true)
    }
  }

  async groupTake (group, topic, count) {
    const collector = new Collector()
    const how = { mode: 'committed', fallbackMode: 'earliest' }
    const onMessage = m => collector.add(fromMessage(m))
    const { consumer, close } = await this.stream(group, topic, how, onMessage)
    const records = await collector.until(count)
    const offset = BigInt(records[count - 1].offset + 1)
    await consumer.commit({ offsets: [{ topic, partition: 0, offset, leaderEpoch: -1 }] })
    await close()
    return records
  }

  async committed (group, topic, partitions) {
    const consumer = new Consumer({ ...this.base, groupId: group })
    try {
      const topics = [{ topic, partitions: [...Array(partitions).keys()] }]
      const found = await consumer.listCommittedOffsets({ topics })
      return found.get(topic).map(Number)
    } finally {
      await consumer.close(true)
    }
  }

  async member (group, topic, sessionMs, onRecord) {
    const how = { mode: 'committed', fallbackMode: 'earliest' }
    const session = modeOptions(sessionMs)
    const pending = new Set()
    const onMessage = message => {
      onRecord(message.partition, message.value)
      // An error means that a rebalance came between: who has the partition now commits.
      const commit = Promise.resolve(message.commit())
        .catch(error => console.error('commit:', error.message))
        .finally(() => pending.delete(commit))
      pending.add(commit)
    }
    const { close } = await this.stream(group, topic, how, onMessage, session)
    return async () => {
      await Promise.all(pending)
      await close()
    }
  }

  errorName (error) {
    const codes = []
    const visit = e => {
      if (e?.apiCode !== undefined) codes.push(e.apiCode)
      for (const inner of [...(e?.errors ?? []), e?.cause].filter(Boolean)) visit(inner)
    }
    visit(error)
    return codes.map(code => NAMES[code] ?? `code ${code}`)[0] ?? error.message
  }
}

/** How a process is a member: see ../member.js. */
function modeOptions (sessionTimeout) {
  const classic = { sessionTimeout, heartbeatInterval: 500, rebalanceTimeout: 20_000 }
  switch (process.env.GROUP_MODE) {
    case 'static': return { ...classic, groupInstanceId: process.env.GROUP_INSTANCE }
    case 'cooperative': return { ...classic, protocols: [{ name: 'cooperative-sticky', version: 1 }] }
    // The broker says how long a session is.
    case 'kip848': return { groupProtocol: 'consumer' }
    default: return classic
  }
}

/** It tells each partition's first offset: the others follow from it. */
function offsetsOf (answers, records) {
  const next = new Map(answers.map(a => [a.partition, Number(a.offset)]))
  return records.map(({ partition }) => {
    const offset = next.get(partition)
    next.set(partition, offset + 1)
    return offset
  })
}

exports.open = bootstrap => new Client(bootstrap)
