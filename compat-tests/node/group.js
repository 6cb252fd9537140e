// Two member processes on six partitions; records come in rounds, one to each partition.
'use strict'

const assert = require('node:assert/strict')
const { execFileSync, spawn } = require('node:child_process')
const path = require('node:path')
const readline = require('node:readline')
const { sleep } = require('./clients')

const PARTITIONS = 6
const SESSION_MS = 6000

class Member {
  /** `seen` is what the process printed before it was killed. */
  constructor (topic, t, mode, number, seen = []) {
    this.seen = new Set(seen)
    this.lines = [...seen]
    const env = { ...process.env, GROUP_MODE: mode, GROUP_INSTANCE: `member-${number}` }
    this.process = spawn(process.execPath, [path.join(__dirname, 'member.js'), topic, topic], {
      env,
      stdio: ['ignore', 'pipe', 'inherit']
    })
    t.after(() => this.process.kill('SIGKILL'))
    readline.createInterface({ input: this.process.stdout }).on('line', line => {
      this.lines.push(line)
      this.seen.add(line)
    })
    // 'close' comes when all that it printed was read.
    this.ended = new Promise(resolve => this.process.on('close', code => resolve(code)))
  }

  /** The partitions whose record of the round it has processed. */
  partitionsOf (round) {
    const has = partition => this.seen.has(`${partition} ${round}`)
    return new Set([...Array(PARTITIONS).keys()].filter(has))
  }

  async leave () {
    this.process.kill('SIGTERM')
    assert.equal(await this.ended, 0)
  }

  async die () {
    this.process.kill('SIGKILL')
    await this.ended
  }
}

class Group {
  static async start (client, topic, t, mode = '') {
    await client.createTopic(topic, PARTITIONS)
    const group = new Group()
    const members = [0, 1].map(number => new Member(topic, t, mode, number))
    return Object.assign(group, { client, topic, t, rounds: 0, members })
  }

  /** Kills the first member and starts it anew under its name. */
  async restartStatic () {
    await this.members[0].die()
    this.members[0] = new Member(this.topic, this.t, 'static', 0, this.members[0].seen)
  }

  /** Sends a record to each partition and waits until all six are processed. */
  async round () {
    const value = Buffer.from(String(this.rounds))
    const records = [...Array(PARTITIONS).keys()].map(partition => ({ partition, key: null, value }))
    await this.client.produce(this.topic, records)
    const round = this.rounds++
    const end = Date.now() + 20_000
    for (;;) {
      const got = this.members.map(member => member.partitionsOf(round))
      if (got[0].union(got[1]).size === PARTITIONS || Date.now() > end) return got
      await sleep(20)
    }
  }

  /** Until each of the two processes three partitions. */
  async untilShared () {
    const end = Date.now() + 90_000
    for (;;) {
      const got = await this.round()
      if (got.every(partitions => partitions.size === 3)) return got
      assert.ok(Date.now() < end, `they do not share: ${got.map(p => [...p])}`)
    }
  }

  /** How often each record was processed. */
  counts () {
    const counts = new Map()
    for (const line of this.members.flatMap(member => member.lines)) {
      counts.set(line, (counts.get(line) ?? 0) + 1)
    }
    return counts
  }

  async untilCommitted () {
    const end = Date.now() + 20_000
    for (;;) {
      const committed = await this.client.committed(this.topic, this.topic, PARTITIONS)
      if (committed.every(offset => offset === this.rounds)) return
      assert.ok(Date.now() < end, `they do not commit: ${committed} of ${this.rounds}`)
      await sleep(20)
    }
  }

  /** Rewinds the group; what is processed again then is the round `from` and all behind it. */
  async rewind (how, from) {
    const before = this.counts()
    const command = `${process.env.REWIND} ${this.topic} ${how}`
    process.stdout.write(execFileSync('sh', ['-c', command]))
    const partitions = [...Array(PARTITIONS).keys()]
    const again = round => {
      const now = this.counts()
      const isAgain = partition => {
        const line = `${partition} ${round}`
        return (now.get(line) ?? 0) > (before.get(line) ?? 0)
      }
      return partitions.filter(isAgain).length
    }
    const rounds = [...Array(this.rounds).keys()]
    const end = Date.now() + 40_000
    while (!rounds.slice(from).every(round => again(round) === PARTITIONS)) {
      assert.ok(Date.now() < end, `read again of each round: ${rounds.map(again)}`)
      await sleep(20)
    }
    for (const round of rounds.slice(0, from)) assert.equal(again(round), 0, `round ${round}`)
  }

  async checkAllProcessed () {
    for (let round = 0; round < this.rounds; round++) {
      const [first, second] = this.members.map(member => member.partitionsOf(round))
      assert.equal(first.union(second).size, PARTITIONS, `round ${round} was not processed`)
    }
    const committed = await this.client.committed(this.topic, this.topic, PARTITIONS)
    // A producer that is not idempotent may have sent twice: the end is what the broker says.
    const ends = await this.client.endOffsets?.(this.topic, PARTITIONS)
    assert.deepEqual(committed, ends ?? Array(PARTITIONS).fill(this.rounds))
  }
}

module.exports = { Group, PARTITIONS, SESSION_MS }
