// The scenarios of ../matrix/scenarios.toml, for whichever client the environment names.
'use strict'

const assert = require('node:assert/strict')
const { execFile } = require('node:child_process')
const { randomBytes, randomUUID } = require('node:crypto')
const fs = require('node:fs')
const test = require('node:test')
const { open, sleep } = require('./clients')
const { Group, PARTITIONS, SESSION_MS } = require('./group')

// An hour ago: no record is old enough for retention.
const START = Date.now() - 3_600_000
const bytes = text => Buffer.from(text)
const record = (value, more = {}) => ({ partition: 0, key: null, value: bytes(value), ...more })
const numbered = (count, prefix = '') =>
  Array.from({ length: count }, (_, i) => record(`${prefix}${i}`))
const upTo = count => Array.from({ length: count }, (_, i) => i)

/** Offsets as far as the client tells them: some tell only a batch's first. */
function assertOffsets (got, want) {
  assert.equal(got.length, want.length)
  got.forEach((offset, i) => { if (offset !== null) assert.equal(offset, want[i]) })
}

function assertNumbered (records, first) {
  assert.deepEqual(
    records.map(r => [r.offset, String(r.value)]),
    records.map((_, i) => [first + i, String(first + i)])
  )
}

async function restartBroker () {
  const done = { is: false }
  const ended = new Promise((resolve, reject) => {
    execFile('sh', ['-c', process.env.RESTART_BROKER], error => {
      done.is = true
      error ? reject(error) : resolve()
    })
  })
  return { done, ended }
}

const roundTrip = codec => async (client, topic) => {
  await client.createTopic(topic, 1)
  const sent = upTo(1000).map(i => record(`value ${i} ${'x'.repeat(100)}`, {
    key: bytes(`key ${i}`), timestamp: START + i
  }))
  assertOffsets(await client.produce(topic, sent, { codec }), upTo(1000))
  const back = await client.consume(topic, 'earliest', 1000)
  const plain = r => [String(r.key), String(r.value), r.timestamp]
  assert.deepEqual(back.map(plain), sent.map(plain))
  assert.deepEqual(back.map(r => r.offset), upTo(1000))
}

const scenarios = {
  'create-topic': async (client, topic) => {
    await client.createTopic(topic, 3)
    assert.deepEqual(await client.partitions(topic), [0, 1, 2])
  },
  'codec-none': roundTrip('none'),
  'codec-gzip': roundTrip('gzip'),
  'codec-snappy': roundTrip('snappy'),
  'codec-lz4': roundTrip('lz4'),
  'codec-zstd': roundTrip('zstd'),
  headers: async (client, topic) => {
    await client.createTopic(topic, 1)
    const headers = [['a', bytes('1')], ['b', bytes('2')], ['empty', bytes('')]]
    // Its headers are an object or a map: one name twice is a list there, or nothing at all.
    if (client.takesRepeatedHeaders) headers.push(['a', bytes('3')])
    await client.produce(topic, [record('v', { headers })])
    const [back] = await client.consume(topic, 'earliest', 1)
    const plain = list => list.map(([name, value]) => `${name}=${value}`).sort()
    assert.deepEqual(plain(back.headers), plain(headers))
  },
  'null-key': async (client, topic) => {
    await client.createTopic(topic, 1)
    await client.produce(topic, [record('v')])
    const [back] = await client.consume(topic, 'earliest', 1)
    assert.deepEqual([back.key, String(back.value)], [null, 'v'])
  },
  'null-value': async (client, topic) => {
    await client.createTopic(topic, 1)
    await client.produce(topic, [{ partition: 0, key: bytes('k'), value: null }])
    const [back] = await client.consume(topic, 'earliest', 1)
    assert.deepEqual([String(back.key), back.value], ['k', null])
  },
  'record-1mb': async (client, topic) => {
    await client.createTopic(topic, 1)
    const value = randomBytes(1_000_000)
    await client.produce(topic, [{ partition: 0, key: null, value }], { maxBytes: 1_048_576 })
    const [back] = await client.consume(topic, 'earliest', 1)
    assert.ok(value.equals(back.value))
  },
  'small-10000': async (client, topic) => {
    await client.createTopic(topic, 1)
    await client.produce(topic, numbered(10_000))
    assertNumbered(await client.consume(topic, 'earliest', 10_000), 0)
  },
  'from-earliest': async (client, topic) => {
    await client.createTopic(topic, 1)
    await client.produce(topic, numbered(10))
    assertNumbered(await client.consume(topic, 'earliest', 10), 0)
  },
  'from-latest': async (client, topic) => {
    await client.createTopic(topic, 1)
    await client.produce(topic, numbered(10))
    const came = await client.tail(topic)
    for (const end = Date.now() + 30_000; Date.now() < end && !(await came()).length;) {
      await client.produce(topic, [record('after')])
      await sleep(200)
    }
    const seen = await came()
    assert.ok(seen.length > 0)
    for (const r of seen) assert.ok(String(r.value) === 'after' && r.offset >= 10)
  },
  'from-timestamp': async (client, topic) => {
    await client.createTopic(topic, 1)
    const sent = numbered(100).map((r, i) => ({ ...r, timestamp: START + 10 * i }))
    await client.produce(topic, sent)
    assert.equal(await client.offsetFor(topic, START + 411), 42)
    assertNumbered(await client.consume(topic, 42, 1), 42)
  },
  'from-offset': async (client, topic) => {
    await client.createTopic(topic, 1)
    await client.produce(topic, numbered(10))
    assertNumbered(await client.consume(topic, 5, 5), 5)
  },
  'idempotent-restart': async (client, topic) => {
    await client.createTopic(topic, 1)
    const producer = await client.idempotent(topic)
    let count = 0
    const send = () => producer.send(bytes(String(count++)))
    for (let i = 0; i < 200; i++) send()
    const restart = await restartBroker()
    while (!restart.done.is) {
      send()
      await sleep(10)
    }
    await restart.ended
    for (let i = 0; i < 200; i++) send()
    assert.equal(await producer.finish(), count)
    assertNumbered(await client.consume(topic, 'earliest', count), 0)
    assertOffsets(await client.produce(topic, [record('end')]), [count])
  },
  'auto-create': async (client, topic) => {
    assertOffsets(await client.produce(topic, numbered(1)), [0])
    assertNumbered(await client.consume(topic, 'earliest', 1), 0)
  },
  'too-large': async (client, topic) => {
    await client.createTopic(topic, 1)
    const large = { partition: 0, key: null, value: randomBytes(2_000_000) }
    await assert.rejects(client.produce(topic, [large], { maxBytes: 10_000_000 }), error => {
      assert.equal(client.errorName(error), 'MESSAGE_TOO_LARGE')
      return true
    })
    assertOffsets(await client.produce(topic, numbered(1)), [0])
  },
  'invalid-name': async client => {
    await assert.rejects(client.createTopic('no blanks', 1), error => {
      assert.equal(client.errorName(error), 'INVALID_TOPIC_EXCEPTION')
      return true
    })
  },
  recreate: async (client, topic) => {
    await client.createTopic(topic, 1)
    await client.produce(topic, numbered(3, 'old '))
    await client.deleteTopic(topic)
    const end = Date.now() + 30_000
    while ((await client.partitions(topic)).length) {
      assert.ok(Date.now() < end, 'the topic does not go')
      await sleep(50)
    }
    await client.createTopic(topic, 2)
    assertOffsets(await client.produce(topic, numbered(1)), [0])
    assertNumbered(await client.consume(topic, 'earliest', 1), 0)
    assert.deepEqual(await client.partitions(topic), [0, 1])
  },
  'group-commit': async (client, topic) => {
    await client.createTopic(topic, 1)
    await client.produce(topic, numbered(100))
    for (const first of [0, 50]) {
      assertNumbered(await client.groupTake(topic, topic, 50), first)
      assert.deepEqual(await client.committed(topic, topic, 1), [first + 50])
    }
  },
  'group-share': async (client, topic, t) => {
    const group = await Group.start(client, topic, t)
    await group.untilShared()
    for (const member of group.members) await member.leave()
    await group.checkAllProcessed()
  },
  'group-takeover': (client, topic, t) => takeover(client, topic, t, ''),
  'group-static': async (client, topic, t) => {
    const group = await Group.start(client, topic, t, 'static')
    const before = await group.untilShared()
    await group.restartStatic()
    // Whoever rejoined would have been given other partitions, or none for a while.
    let got = await group.round()
    while (got[0].symmetricDifference(before[0]).size) {
      assert.deepEqual(got[1], before[1])
      got = await group.round()
    }
    assert.deepEqual(got, before)
    for (const member of group.members) await member.leave()
    await group.checkAllProcessed()
  },
  'group-rewind': async (client, topic, t) => {
    const group = await Group.start(client, topic, t)
    await group.untilShared()
    for (let i = 0; i < 4; i++) await group.round()
    await group.untilCommitted()
    const before = group.rounds
    await group.rewind(`--to-offset ${before - 3}`, before - 3)
    await group.round()
    await group.rewind('--undo', before)
    await group.untilCommitted()
    for (const member of group.members) await member.leave()
    await group.checkAllProcessed()
  },
  'group-cooperative': (client, topic, t) => takeover(client, topic, t, 'cooperative'),
  'group-kip848': (client, topic, t) => takeover(client, topic, t, 'kip848')
}

async function takeover (client, topic, t, mode) {
  const group = await Group.start(client, topic, t, mode)
  await group.untilShared()
  await group.members[0].die()
  const begun = Date.now()
  while ((await group.round())[1].size !== PARTITIONS) {
    assert.ok(Date.now() - begun < 30_000, 'nobody takes over')
  }
  // The session timeout, a heartbeat for the news, and a rebalance.
  const took = Date.now() - begun
  assert.ok(took < SESSION_MS + 6000, `it took ${took} ms`)
  await group.members[1].leave()
  await group.checkAllProcessed()
}

async function main () {
  const client = await open(process.env.CLIENT, process.env.BOOTSTRAP)
  for (const name of process.env.SCENARIOS.split(' ').filter(name => scenarios[name])) {
    await test(name, { timeout: 120_000 }, async t => {
      let result = 'fail'
      try {
        await scenarios[name](client, `node-${randomUUID()}`, t)
        result = 'pass'
      } finally {
        fs.appendFileSync(process.env.RESULTS, `${result} ${name}\n`)
      }
    })
  }
  setTimeout(() => process.exit(), 500)
}

main()
