// One module a client: what the scenarios ask for, in the client's own words.
//
//   createTopic(topic, partitions), deleteTopic(topic), partitions(topic) -> numbers
//   produce(topic, records, {codec, maxBytes}) -> offsets in order (null where not told)
//   idempotent(topic) -> {send(value), finish() -> count}
//   consume(topic, start, count) -> records; start is 'earliest' or an offset
//   tail(topic) -> async function that says what came so far
//   offsetFor(topic, timestampMs) -> number
//   groupTake(group, topic, count) -> records: takes them as a member, commits and leaves
//   committed(group, topic, partitions) -> numbers, -1 where nothing is
//   endOffsets(topic, partitions) -> numbers; only where the producer may send twice
//   member(group, topic, sessionMs, onRecord) -> async function that leaves
//   errorName(error) -> Kafka's name of what the broker refused with
//
// A record is {partition, key, value, timestamp, headers: [[name, value]...]}, with Buffers or
// null; those that come back have an offset as well.
'use strict'

const MODULES = {
  kafkajs: './kafkajs',
  'confluent-js': './kafkajs',
  platformatic: './platformatic'
}

exports.open = async (name, bootstrap) => require(MODULES[name]).open(bootstrap)

/** Collects records until there are enough; `whenFull` is asked after each. */
exports.Collector = class {
  constructor () {
    this.records = []
    this.waiting = []
  }

  add (record) {
    this.records.push(record)
    this.waiting = this.waiting.filter(({ count, resolve }) => {
      if (this.records.length >= count) resolve()
      return this.records.length < count
    })
  }

  async until (count, milliseconds = 30_000) {
    if (this.records.length < count) {
      await new Promise((resolve, reject) => {
        const late = () => reject(new Error(`${this.records.length} of ${count} records came`))
        const timer = setTimeout(late, milliseconds)
        this.waiting.push({ count, resolve: () => { clearTimeout(timer); resolve() } })
      })
    }
    return this.records.slice(0, count)
  }
}

exports.sleep = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))
