// Runs hostile members in a process of their own. The arguments are the world, the seed and the seconds, as JSON. Each member
// performs random campaigns of the grammar: one action, repeated, with some concurrency. After the given time, the process
// sends its report as a message and exits.
import { readFileSync } from 'node:fs'
import { setPriority } from 'node:os'
import path from 'node:path'
import { buildSchema } from 'graphql'
import { oneOf, type Random, randomDocuments, randomOf } from '../random-documents.ts'
import { ACTIONS, type Attacker } from './grammar.ts'
import { nastyText } from './texts.ts'
import { createWire, type WireReport } from './wire.ts'
import type { AttackWorld, Person } from './world.ts'

const MOST_CAMPAIGN_MS = 6000
const MOST_KNOWN = 300
/** The number of steps of one hostile member, so that an attack of any duration is also limited in steps. */
const MOST_STEPS_A_SECOND = 200
const BUSY_PAUSE_MS = 20
/** The number of concurrent operations of one hostile member. */
const CAMPAIGNS = 3
const PRELUDE_TEXTS = 12
/** The maximum share of the time in which hostile members may post. */
const PRELUDE_SHARE = 0.2

const { world, seed, seconds, only } = JSON.parse(process.argv[2] ?? '') as {
  world: AttackWorld
  seed: number
  seconds: number
  only?: string[]
}
// The attackers run with low priority, so that the server comes first if there are few cores.
setPriority(10)

const schema = buildSchema(readFileSync(path.resolve(import.meta.dirname, '../../../schema.graphql'), 'utf8'))
const endsAt = performance.now() + seconds * 1000
const isOver = () => performance.now() >= endsAt
const report: WireReport = { counts: {}, findings: [], largestResponse: 0 }
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

function createAttacker(me: Person, random: Random): Attacker {
  const wire = createWire(world.origin, me.token, report, isOver)
  const known: Record<string, string[]> = {}
  const learn = (kind: string, id: string) => {
    known[kind] ??= []
    const ids = known[kind]
    if (!ids.includes(id)) ids.push(id)
    if (ids.length > MOST_KNOWN) ids.shift()
  }
  // Leaves out other members' people and spaces, because a random mutation may remove a member.
  const lawful = () => [world.spaces.pit, ...Object.values(known).flat().slice(-50), ...Object.values(world.agents)]

  async function ask(action: string, query: string, variables?: object, token?: string): Promise<string> {
    const { status, text } = await wire.post(JSON.stringify({ query, variables }), { token })
    for (const [id, kind] of text.matchAll(/\b(msg|run|tcl)_\w{10,40}/g)) learn(kind ?? '', id)
    for (const [, id] of text.matchAll(/"space":\{"id":"(spc_\w+)"/g)) if (id !== undefined) learn('spc', id)
    for (const [, digest] of text.matchAll(/"inputDigest":"([^"]+)"/g)) learn('digest', digest ?? '')
    const outcome = /"__typename":"(\w+)"/.exec(text)?.[1] ?? /"code":"(\w+)"/.exec(text)?.[1] ?? String(status)
    wire.count(action, outcome)
    return text
  }
  return {
    me,
    world,
    random,
    wire,
    known,
    documents: randomDocuments(schema, random, lawful),
    ask,
    isOver,
    mutate(action, field, input, selection = '__typename', token = undefined) {
      const type = field.charAt(0).toUpperCase() + field.slice(1)
      const query = `mutation ($input: ${type}Input!) { ${field}(input: $input) { __typename ... on ${type}Payload { ${selection} } ... on Error { code message } } }`
      return ask(action, query, { input }, token)
    },
  }
}

/** Fills the shared spaces with long texts, and makes calls wait for people, so that every random action has a target. */
async function prepare({ random, mutate }: Attacker): Promise<void> {
  const { hall, pit } = world.spaces
  const ids = 'sentMessage { id } runs { id }'
  for (const text of ['pay please', 'ask please']) await mutate('post', 'sendMessage', { spaceId: pit, text }, ids)
  const until = performance.now() + seconds * 1000 * PRELUDE_SHARE
  for (let n = 0; n < PRELUDE_TEXTS && performance.now() < until; n++) {
    for (const spaceId of [hall, pit]) await mutate('post', 'sendMessage', { spaceId, text: nastyText(random) }, ids)
  }
}

/** Runs one campaign after the other until the time is over. */
async function attack(attacker: Attacker, isSparing: boolean): Promise<void> {
  const { random, wire } = attacker
  const drawn = Object.entries(ACTIONS)
    .filter(([name, { isHeavy }]) => (only === undefined ? !(isSparing && isHeavy) : only.includes(name)))
    .flatMap(([name, { weight }]) => Array<string>(weight).fill(name))
  while (!isOver()) {
    const name = oneOf(random, drawn)
    const { most, atATime, act } = ACTIONS[name]!
    let left = 1 + Math.floor(random() * most)
    const campaignEndsAt = performance.now() + MOST_CAMPAIGN_MS
    const lane = async () => {
      while (left > 0 && !isOver() && performance.now() < campaignEndsAt) {
        left -= 1
        const startedAt = performance.now()
        await act(attacker).catch((error) => wire.finding(`the attack itself failed at "${name}": ${error?.stack}`))
        const tooSoonMs = (1000 * atATime) / MOST_STEPS_A_SECOND - (performance.now() - startedAt)
        if (tooSoonMs > 0) await sleep(tooSoonMs)
      }
    }
    await Promise.race([Promise.all(Array.from({ length: atATime }, lane)), sleep(2 * MOST_CAMPAIGN_MS)])
    await sleep(BUSY_PAUSE_MS)
  }
}

async function work(me: Person, index: number): Promise<void> {
  const random = randomOf(seed * 1000 + index)
  const attacker = createAttacker(me, random)
  await prepare(attacker)
  await Promise.all(Array.from({ length: CAMPAIGNS }, () => attack(attacker, index % 2 === 1)))
  attacker.wire.close()
}

await Promise.race([Promise.all(world.hostile.map(work)), sleep(seconds * 1000 + 5000)])
process.send?.(report)
