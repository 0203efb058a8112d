import { describe, expect, test } from 'vitest'
import { playDecisions } from '../support/decisions.ts'
import { type MixedCall, mixedCalls, SHOP_BOUNDS, SHOP_TOOLS } from '../support/mixed-calls.ts'
import { steps } from '../support/model-server-script.ts'
import type { Read } from '../support/stage.ts'
import { until } from '../support/until.ts'

const PROPOSE = `mutation ($input: ProposeStandingGrantInput!) {
  proposeStandingGrant(input: $input) { __typename ... on Error { message }
    ... on ProposeStandingGrantPayload { standingGrant { id state } } } }`
const DECIDE_ALL = `mutation ($input: DecideToolCallsInput!) {
  decideToolCalls(input: $input) { __typename ... on Error { message } ... on DecideToolCallsPayload { results { __typename } } } }`
const CALLS = `query ($id: ID!) { node(id: $id) { ... on Run { status toolCalls {
  id toolName input status approval { state } grant { id } } } } }`
const GRANTS = `{ standingGrants { toolName maxCalls usedCalls maxAmount usedAmount } }`

const CALLS_OF_A_RUN = 10
const MOST_DECISIONS = 10

describe('100 mixed calls that all need approval', () => {
  const play = playDecisions('embedded')

  test('need at most 10 decisions, through grants and bulk decisions; no unapproved call is executed', async () => {
    const mixed = mixedCalls()
    expect(mixed).toHaveLength(100)
    const batches = Array.from({ length: mixed.length / CALLS_OF_A_RUN }, (_, at) =>
      mixed.slice(at * CALLS_OF_A_RUN, (at + 1) * CALLS_OF_A_RUN),
    )
    const [first = [], ...others] = batches.map((batch) =>
      batch.map(({ toolName, input }) => ({ toolCall: toolName, input })),
    )
    const { alice, space, runId } = await play.room(SHOP_TOOLS, first, { maxConcurrentRuns: 20 })
    const isWelcome = ({ toolName, input }: Read) => find(mixed, toolName, input).isWelcome
    const runIds = [runId ?? '']
    const callsOf = async (id: string): Promise<Read[]> =>
      (await play.stage.ask(play.stage.admin, CALLS, { id })).toolCalls
    const shopCallsOf = async (id: string) =>
      (await callsOf(id)).filter(({ toolName }) => SHOP_TOOLS.some(({ name }) => name === toolName))
    /** Waits until each call of a run has ended or waits for people. */
    const reached = (id: string) =>
      until('each call is over or waits', async () => {
        const calls = await shopCallsOf(id)
        const isThere = ({ status }: Read) => ['DONE', 'FAILED', 'WAITING'].includes(status)
        return calls.length === CALLS_OF_A_RUN && calls.every(isThere) && calls
      })

    let decisions = 0
    const propose = async (toolCallId: string, bounds: object) => {
      decisions += 1
      const input = { toolCallId, expiresInSeconds: 86_400, ...bounds }
      expect(await play.stage.ask(alice.client, PROPOSE, { input })).toMatchObject({
        standingGrant: { state: 'ACTIVE' },
      })
    }
    const decideAll = async (calls: Read[], approve: boolean) => {
      const toolCallIds = calls.filter((call) => isWelcome(call) === approve).map(({ id }) => id)
      if (toolCallIds.length === 0) return
      decisions += 1
      const { results } = await play.stage.ask(alice.client, DECIDE_ALL, { input: { toolCallIds, approve } })
      for (const { __typename } of results) expect(__typename).toBe('DecideToolCallPayload')
    }
    const waitingOf = (calls: Read[]) => calls.filter(({ status }) => status === 'WAITING')

    const begun = await reached(runIds[0] ?? '')
    expect(waitingOf(begun)).toHaveLength(CALLS_OF_A_RUN)
    for (const [toolName, bounds] of Object.entries(SHOP_BOUNDS)) {
      const call = begun.find((one) => one.toolName === toolName && isWelcome(one))
      await propose(call?.id, bounds)
    }
    for (const actions of others) {
      play.parley.models.reset()
      play.parley.models.script(steps(actions, [{ text: 'Done.' }]))
      const { runs } = await play.stage.say(alice, space, 'More')
      runIds.push(runs[0].id)
      await reached(runs[0].id)
    }
    const left = waitingOf((await Promise.all(runIds.map(reached))).flat())
    await decideAll(left, true)
    await decideAll(left, false)
    for (const id of runIds) await play.parley.runWhen(id)

    const all = (await Promise.all(runIds.map(shopCallsOf))).flat()
    expect(all).toHaveLength(100)
    for (const call of all) {
      const expected = isWelcome(call) ? 'DONE' : 'FAILED'
      expect([call.toolName, call.input, call.status]).toEqual([call.toolName, call.input, expected])
    }
    const through = all.filter(({ grant }) => grant !== null)
    expect(through.length).toBeGreaterThan(60)
    expect(through.map(({ toolName }) => toolName)).not.toContain('close_account')
    for (const grant of await play.stage.ask(alice.client, GRANTS)) {
      const used = through.filter(({ toolName }) => toolName === grant.toolName)
      expect([grant.toolName, grant.usedCalls]).toEqual([grant.toolName, used.length])
      expect(grant.usedCalls).toBeLessThanOrEqual(grant.maxCalls)
      if (grant.maxAmount !== null) expect(grant.usedAmount).toBeLessThanOrEqual(grant.maxAmount)
    }
    expect(decisions).toBeLessThanOrEqual(MOST_DECISIONS)
  }, 120_000)
})

function find(calls: MixedCall[], toolName: string, input: Read): MixedCall {
  const found = calls.find(
    (call) => call.toolName === toolName && Object.entries(call.input).every(([name, value]) => input[name] === value),
  )
  if (found === undefined) throw new Error(`no call of ${toolName} has the input ${JSON.stringify(input)}`)
  return found
}
