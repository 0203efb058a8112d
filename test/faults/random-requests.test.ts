import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runsOf } from '../support/effort.ts'
import { createParleyClient } from '../support/parley-client.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import { type RandomWorld, sendRandomDocuments, sendRandomFrames, type Target } from '../support/random-requests.ts'

const COUNT = runsOf({ usual: 500, nightly: 100_000 })
/** RANDOM_SEED repeats a run. */
const SEED = Number(process.env.RANDOM_SEED ?? Date.now() % 1_000_000)
const TIMEOUT_MS = 30 * 60_000

const WORLD = `mutation { createHuman(input: { name: "Ada" }) { ... on CreateHumanPayload { human { id } } }
  createAgent(input: { name: "Echo", instructions: "Answer.", model: "demo" }) { ... on CreateAgentPayload { agent { id } } } }`
const TOKEN = `mutation ($humanId: ID!) { createAccessToken(input: { grant: { humanId: $humanId } }) {
  ... on CreateAccessTokenPayload { secret } } }`
const SPACE = `mutation ($agentId: ID!) { createSpace(input: { name: "Room", memberIds: [$agentId] }) {
  ... on CreateSpacePayload { space { id } } } }`
const SEND = `mutation ($spaceId: ID!) { sendMessage(input: { spaceId: $spaceId, text: "Hello" }) {
  ... on SendMessagePayload { sentMessage { id } runs { id } } } }`

/** Returns the first id, or secret, in a response under each of the keys. */
function found(answer: unknown, key: string): string {
  return new RegExp(`"${key}":[^}]*?"(?:id|secret)?"?:?"?((?:[a-z]{3})_[^"]+)"`).exec(JSON.stringify(answer))?.[1] ?? ''
}

describe(`random requests from the schema, with seed ${SEED}`, () => {
  let parley: ParleyProcess
  let target: Target

  beforeAll(async () => {
    const rates = { PARLEY_RATE_REQUESTS: '0', PARLEY_RATE_MESSAGES: '0', PARLEY_RATE_TRIGGERS: '0' }
    parley = await startParley({ settings: { ...rates, PARLEY_LOG_LEVEL: 'error' } })
    target = { origin: parley.origin, createWorld }
  })
  afterAll(() => parley?.kill())

  async function createWorld(): Promise<RandomWorld> {
    const { origin, adminToken } = parley
    const admin = createParleyClient({ origin, token: adminToken })
    const world = await admin.ask(WORLD)
    const [humanId, agentId] = [found(world, 'human'), found(world, 'agent')]
    const { secret } = ((await admin.ask(TOKEN, { humanId })).data as { createAccessToken: { secret: string } })
      .createAccessToken
    const human = createParleyClient({ origin, token: secret })
    const spaceId = found(await human.ask(SPACE, { agentId }), 'space')
    const sent = JSON.stringify(await human.ask(SEND, { spaceId }))
    const ids = [humanId, agentId, spaceId, ...(sent.match(/(?:msg|run)_\w+/g) ?? [])]
    if (ids.includes('')) throw new Error(`a world could not be made: ${JSON.stringify(world)} ${sent}`)
    return { tokens: [secret, adminToken], ids }
  }

  /** The log lines of the process, which logs only faults. */
  const complaints = () =>
    parley
      .output()
      .split('\n')
      .filter((line) =>
        /unhandled|uncaught|"msg":"an operation failed with an unexpected error"|a request failed/.test(line),
      )
      .slice(0, 10)

  test(`${COUNT} documents cause no internal error, and end no process`, { timeout: TIMEOUT_MS }, async () => {
    expect(await sendRandomDocuments(target, COUNT, SEED)).toEqual([])
    expect(complaints()).toEqual([])
    expect((await fetch(`${parley.origin}/health/ready`)).status).toBe(200)
  })

  test(`${COUNT} frames cause no internal error, and end no process`, { timeout: TIMEOUT_MS }, async () => {
    expect(await sendRandomFrames(target, COUNT, SEED)).toEqual([])
    expect(complaints()).toEqual([])
    expect((await fetch(`${parley.origin}/health/ready`)).status).toBe(200)
  })
})
