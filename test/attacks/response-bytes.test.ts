import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { forAgent, steps } from '../support/model-server-script.ts'
import { auditSchema } from '../support/response-audit.ts'
import { findProbes, type Probe } from '../support/response-probes.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

/** A small limit, so that small requests can exceed it. */
const MOST_RESPONSE_BYTES = 256 * 1024
/** Room for the braces and names around the counted content, and for the text of an error. */
const ENVELOPE_BYTES = 16 * 1024
const LONG = 30_000

describe('responses that repeat long content', () => {
  let parley: TestServer
  let probes: Probe[]
  let clients: Record<string, Awaited<ReturnType<TestServer['clientOf']>>>

  beforeAll(async () => {
    parley = await startTestServer({
      settings: {
        PARLEY_MAX_RESPONSE_BYTES: String(MOST_RESPONSE_BYTES),
        PARLEY_RATE_REQUESTS: '0',
        PARLEY_RATE_MESSAGES: '0',
        PARLEY_RATE_TRIGGERS: '0',
      },
    })
    const { human, agent, space } = await parley.room('Asker', {
      description: 'd'.repeat(4000),
      instructions: 'i'.repeat(LONG),
      tools: [
        {
          name: 'ask',
          description: 't'.repeat(4000),
          inputSchema: { type: 'object', description: 's'.repeat(20_000) },
          resultSchema: { type: 'object' },
          execution: 'SPACE' as const,
        },
      ],
    })
    const input = { text: 'q'.repeat(LONG) }
    parley.models.script(
      forAgent(
        agent.name,
        steps([{ toolCall: 'ask', input, chunks: LONG }], [{ text: 'e'.repeat(LONG), chunks: LONG }]),
      ),
    )
    const admin = await parley.clientOf(parley.admin)
    await fill(admin, agent.id, space.id)
    clients = { human: await parley.clientOf(human), admin }
    for (let n = 0; n < 10; n++) {
      await parley.send(human, (await parley.space(human, [], { name: 'n'.repeat(200) })).id, 'm'.repeat(LONG))
    }
    const { message, runs } = await parley.send(human, space.id, 'm'.repeat(LONG))
    const run = runs[0]?.id ?? ''
    const call = await until('its call waits', async () => {
      const { data } = await admin.ask<{ run: { pendingToolCalls: { id: string }[] } }>(
        `{ run(id: "${run}") { pendingToolCalls { id } } }`,
      )
      return data?.run.pendingToolCalls[0]?.id
    })
    const ids = { Space: space.id, Agent: agent.id, Run: run, Message: message.id, ToolCall: call, Human: human.id }
    probes = await findProbes(auditSchema().schema, ids, clients)
  })
  afterAll(() => parley?.close())

  async function fill(admin: (typeof clients)[string], agentId: string, spaceId: string): Promise<void> {
    const memories = Array.from({ length: 5 }, (_, n) => ({ key: `key ${n}`, value: 'v'.repeat(10_000) }))
    await admin.ask('mutation ($i: SetMemoriesInput!) { setMemories(input: $i) { __typename } }', {
      i: { agentId, memories },
    })
    const goals = [{ description: 'g'.repeat(4000) }]
    await admin.ask('mutation ($i: SetGoalsInput!) { setGoals(input: $i) { __typename } }', { i: { agentId, goals } })
    const plan = { agentId, name: 'later', instruction: 'p'.repeat(LONG), schedule: { afterSeconds: 86_400 } }
    await admin.ask('mutation ($i: CreatePlanInput!) { createPlan(input: $i) { __typename } }', { i: plan })
    const described = { id: spaceId, description: 'd'.repeat(4000) }
    await admin.ask('mutation ($i: UpdateSpaceInput!) { updateSpace(input: $i) { __typename } }', { i: described })
  }

  test('cover everything that members, agents and admins can write, by walking the schema', () => {
    const names = probes.map(({ name }) => name)
    const expected = [
      'Message.text',
      'TextPart.text',
      'ToolCall.input',
      'Space.description',
      'Agent.description',
      'AgentInternals.instructions',
      'AgentInternals.memories',
      'Memory.value',
      'Goal.description',
      'Plan.instruction',
      'StepRecord.instructions',
      'StepRecord.messages',
      'Tool.description',
      'Tool.inputSchema',
      'Space.messages',
      'Query.spaces',
      'Query.agents',
      'Message.parts',
      'Run.toolCalls',
      'Viewer.pendingToolCalls',
    ]
    expect(expected.filter((name) => !names.includes(name))).toEqual([])
  })

  test('stay within the limit, or get QUERY_TOO_COMPLEX, for each long field and list', async () => {
    const findings: string[] = []
    let past = 0
    for (const { name, document, bytes, mostTimes, viewer } of probes) {
      const times = Math.min(mostTimes, Math.ceil((3 * MOST_RESPONSE_BYTES) / bytes))
      if (times * bytes < 2 * MOST_RESPONSE_BYTES) continue
      past += 1
      const answer = await clients[viewer]!.ask(document(times))
      const length = Buffer.byteLength(JSON.stringify(answer))
      const codes = answer.errors?.map(({ extensions }) => extensions?.['code']) ?? []
      if (length > MOST_RESPONSE_BYTES + ENVELOPE_BYTES) findings.push(`${name}: ${length} bytes for ${times} names`)
      if (codes.some((code) => code !== 'QUERY_TOO_COMPLEX'))
        findings.push(`${name}: ${JSON.stringify(answer).slice(0, 300)}`)
    }
    expect(past).toBeGreaterThan(20)
    expect(findings).toEqual([])
  })
})
