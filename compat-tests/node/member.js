// A member of a group as a process: member.js GROUP TOPIC. It prints `PARTITION VALUE` for each
// record before it commits, leaves the group on SIGTERM, and dies without a word on SIGKILL.
// GROUP_MODE says how it is a member: static (as GROUP_INSTANCE), cooperative, or kip848.
'use strict'

const fs = require('node:fs')
const { open } = require('./clients')

const SESSION_MS = 6000

async function main () {
  const [group, topic] = process.argv.slice(2)
  const client = await open(process.env.CLIENT, process.env.BOOTSTRAP)
  const onRecord = (partition, value) => fs.writeSync(1, `${partition} ${value}\n`)
  const leave = await client.member(group, topic, SESSION_MS, onRecord)
  process.on('SIGTERM', () => leave().then(() => process.exit(0)))
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
