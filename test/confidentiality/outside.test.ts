import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { playDecisions, refund, refundTool } from '../support/decisions.ts'
import { type McpServer, startMcpServer } from '../support/mcp-server.ts'
import type { Read } from '../support/stage.ts'
import { takesTurns } from '../support/turns.ts'

const SECRET = 'The merger is on Friday.'
const CONFIDE = `mutation ($id: ID!) { updateSpace(input: { id: $id, confidential: true }) { __typename } }`
const REFUSED = { status: 'FAILED', output: { error: { code: 'CONFIDENTIAL' } } }
const ALONE = { routing: 'BROADCAST', confidential: true }

describe.each(RULE_STACKS)('external tools, on the %s stack', (stack) => {
  const play = playDecisions(stack)
  let mcp: McpServer
  beforeAll(async () => {
    const tool = (name: string) => ({
      name,
      description: 'Posts.',
      inputSchema: { type: 'object' },
      answer: () => ({ ok: true }),
    })
    mcp = await startMcpServer([tool('plain'), tool('marked')])
  })
  afterAll(() => mcp?.close())

  const given = () => mcp.received.filter(({ method }) => method === 'tools/call').map(({ params }) => params['name'])

  test.each([
    ['none of it', {}, [] as string[]],
    ['all of it', { mayReceiveConfidential: true }, ['plain', 'marked']],
    ['some of it', { mayReceiveConfidential: true, confidentialTools: ['marked'] }, ['marked']],
  ])('an MCP server gets confidential content according to its marks: %s', async (_, marked, expected) => {
    mcp.received.length = 0
    const alice = await play.stage.person('Alice')
    const mcpServers = [{ name: 'desk', url: mcp.url, ...marked }]
    const agent = await play.stage.bot('Ada', { toolset: 'ACTIVE_SPACE', mcpServers })
    const diary = await play.stage.space('Diary', [alice, agent], ALONE)
    const call = (name: string) => ({ toolCall: `desk__${name}`, input: { said: SECRET } })
    takesTurns(play.parley.models, agent.name, [[call('plain'), call('marked')]])
    const { runs } = await play.stage.say(alice, diary, SECRET)
    await play.parley.runWhen(runs[0].id)
    expect(given()).toEqual(expected)
    const [run] = await play.stage.endedRuns(agent, 1)
    const refused = run.toolCalls.filter(({ toolName }: Read) => !expected.includes(toolName.replace('desk__', '')))
    for (const one of refused) expect(one).toMatchObject(REFUSED)
  })

  test('get no input that became confidential while an approval was pending', async () => {
    play.service.calls.length = 0
    const alice = await play.stage.person('Alice')
    const agent = await play.stage.bot('Ada', {
      toolset: 'ACTIVE_SPACE',
      tools: [refundTool(play.service, { approverIds: [alice.id] })],
    })
    const aside = await play.stage.space('Aside', [alice, agent], { routing: 'BROADCAST' })
    takesTurns(play.parley.models, agent.name, [[refund(20)]])
    const { runs } = await play.stage.say(alice, aside, SECRET)
    const asked = await play.deciders.asked(alice)
    await play.stage.ask(alice.client, CONFIDE, { id: aside.id })
    await play.deciders.decide(alice, asked.id, true)
    await play.parley.runWhen(runs[0].id)
    expect((await play.stage.endedRuns(agent, 1))[0].toolCalls[0]).toMatchObject(REFUSED)
    expect(play.service.calls).toEqual([])
  })
})
