import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { playDecisions, refund, refundTool } from '../support/decisions.ts'
import { forAgent, type ModelRequest, steps } from '../support/model-server-script.ts'
import { gate } from '../support/space-tools.ts'
import type { Named, Person, Read } from '../support/stage.ts'
import { enter, mentions, say } from '../support/turns.ts'
import { until } from '../support/until.ts'

const SECRET = 'The merger is on Friday.'
const LOG = `query ($action: String, $actorId: ID) { auditLog(action: $action, actorId: $actorId) { edges { node { actor { id } targetId refused detail } } } }`
const NEWS = `subscription { viewerEvents { __typename ... on ViewerToolCallWaiting { toolCall { id } } } }`
const CHAIN = `query ($id: ID!) { run(id: $id) { chain { replyStack { agent { id } reason } } } }`
const DELETE = `mutation ($id: ID!) { deleteSpace(input: { id: $id }) { __typename } }`
const CONFIDE = `mutation ($id: ID!) { updateSpace(input: { id: $id, confidential: true }) { ... on UpdateSpacePayload { space { confidential } } } }`
const ALONE = { routing: 'BROADCAST', confidential: true }
const TOGETHER = { routing: 'BROADCAST' }

describe.each(RULE_STACKS)('confidential knowledge, on the %s stack', (stack) => {
  const play = playDecisions(stack)

  const people = () => Promise.all([play.stage.person('Alice'), play.stage.person('Bob')])
  const bot = (more: object = {}) => play.stage.bot('Ada', { toolset: 'ACTIVE_SPACE', ...more })
  const scriptFor = (...turns: Parameters<typeof steps>) =>
    play.parley.models.script(forAgent('Ada', steps(...turns, [{ text: 'Done.' }])))
  const sayAndEnd = async (person: Person, space: Named, text: string): Promise<Read> => {
    const { runs } = await play.stage.say(person, space, text)
    return play.parley.runWhen(runs[0].id)
  }

  test('the audit log records a refused tool call: agent, tool and target, without content', async () => {
    const [alice, bob] = await people()
    const agent = await bot()
    const confided = await play.stage.space('Diary', [alice, agent], ALONE)
    const team = await play.stage.space('Team', [alice, bob, agent], TOGETHER)
    scriptFor([enter(team)], [say(SECRET)])
    const run = await sayAndEnd(alice, confided, SECRET)
    const log = await play.stage.ask(play.stage.admin, LOG, { actorId: agent.id })
    expect(log.edges.map(({ node }: Read) => node)).toEqual([
      {
        actor: { id: agent.id },
        targetId: team.id,
        refused: true,
        detail: { runId: run.id, toolCallId: expect.any(String) },
      },
    ])
    expect(await play.stage.ask(play.stage.admin, LOG, { action: 'tool:send_message', actorId: agent.id })).toEqual(log)
  })

  async function asks(approval: (alice: Person, bob: Person) => object) {
    play.service.calls.length = 0
    const [alice, bob] = await people()
    const agent = await bot({
      tools: [refundTool(play.service, approval(alice, bob), { mayReceiveConfidential: true })],
    })
    const confided = await play.stage.space('Diary', [alice, agent], ALONE)
    const toldBob: string[] = []
    const events = bob.client.subscribe<{ viewerEvents: Read }, object>(NEWS, {}, ({ viewerEvents }) =>
      toldBob.push(viewerEvents.__typename),
    )
    await events.first(({ viewerEvents }) => viewerEvents.__typename === 'ViewerSnapshot')
    scriptFor([refund(20)])
    const { runs } = await play.stage.say(alice, confided, SECRET)
    /** Returns Bob's events up to a marker that is posted later. */
    const toldUntilNow = async () => {
      await play.stage.space('Later', [alice, bob], TOGETHER)
      await events.first(({ viewerEvents }) => viewerEvents.__typename === 'ViewerSpaceAdded')
      return toldBob
    }
    return { alice, bob, runId: runs[0].id as string, toldUntilNow }
  }

  test('a named approver without access to the content is not notified', async () => {
    const { alice, bob, runId, toldUntilNow } = await asks((a, b) => ({ approverIds: [a.id, b.id] }))
    const call = await play.deciders.asked(alice)
    expect(await play.deciders.pendingOf(bob)).toEqual([])
    expect(await toldUntilNow()).toEqual(['ViewerSnapshot', 'ViewerSpaceAdded'])
    await play.deciders.decide(alice, call.id, true)
    await play.parley.runWhen(runId)
    expect(await toldUntilNow()).not.toContain('ViewerToolCallSettled')
  })

  test('with fewer eligible approvers than the quorum, the model gets the reason at once', async () => {
    const { runId } = await asks((a, b) => ({ approverIds: [a.id, b.id], quorum: 2 }))
    await play.parley.runWhen(runId)
    const [result] = await play.lastResults()
    expect(result.error).toMatchObject({ code: 'CONFIDENTIAL' })
    expect(result.error.message).toContain('2 must agree, and only 1 may decide')
    const [call] = (await play.parley.app.domain.toolCalls.ofRuns([runId])).get(runId) ?? []
    expect(call).toMatchObject({ approvalState: 'EXPIRED', status: 'FAILED' })
    expect(play.service.calls).toEqual([])
  })

  test('a reason that waits in a chain is hidden from those who may not read what its chain now contains', async () => {
    const [alice, bob] = await people()
    const [agent, other] = [await bot(), await play.stage.bot('Ben', { toolset: 'ACTIVE_SPACE' })]
    const aside = await play.stage.space('Aside', [alice, agent], TOGETHER)
    const team = await play.stage.space('Team', [alice, bob, agent, other], { routing: 'MENTION_CHAIN' })
    scriptFor([enter(aside)], [enter(team), mentions(other, SECRET, true)])
    const held = gate()
    play.parley.models.script(forAgent('Ben', () => [{ gate: held.promise }, { text: 'Done.' }]))
    await play.stage.say(alice, team, 'Who knows?', { mentionedAgentId: agent.id })
    const run = await until('Ben is woken', async () => (await play.stage.runsOf(other))[0])
    const reasonFor = async ({ client }: { client: Person['client'] }) =>
      (await play.stage.ask(client, CHAIN, { id: run.id })).chain.replyStack.map(({ reason }: Read) => reason)
    expect(await reasonFor(bob)).toEqual([SECRET])
    expect(await play.stage.ask(alice.client, CONFIDE, { id: aside.id })).toEqual({ space: { confidential: true } })
    expect(await reasonFor(bob)).toEqual([null])
    expect(await reasonFor(alice)).toEqual([SECRET])
    expect(await reasonFor({ client: play.stage.admin })).toEqual([SECRET])
    held.open()
    await play.parley.runWhen(run.id)
  })

  test('content from a deleted space stays hidden from everyone', async () => {
    const [alice, bob] = await people()
    const agent = await bot()
    const confided = await play.stage.space('Diary', [alice, agent], ALONE)
    const desk = await play.stage.space('Desk', [alice, agent], TOGETHER)
    const team = await play.stage.space('Team', [alice, bob, agent], TOGETHER)
    scriptFor([enter(desk)], [say(SECRET)])
    await sayAndEnd(alice, confided, SECRET)
    scriptFor([{ toolCall: 'set_memories', input: { memories: [{ key: 'plan', value: SECRET }] } }])
    await sayAndEnd(alice, desk, 'Note that.')
    expect(await play.stage.ask(alice.client, DELETE, { id: confided.id })).toEqual({
      __typename: 'DeleteSpacePayload',
    })
    const { prisma } = play.parley.app.platform.db
    expect(await prisma.space.findUnique({ where: { id: confided.id } })).toMatchObject({ name: '', creatorId: null })
    expect(await prisma.memory.count({ where: { agentId: agent.id } })).toBe(1)
    scriptFor([say('Nothing.')])
    await sayAndEnd(bob, team, 'What do you know?')
    const sent = play.parley.models.requests.filter(({ messages }: ModelRequest) =>
      messages.some(({ text }) => text.includes('What do you know?')),
    )
    expect(sent.length).toBeGreaterThan(0)
    expect(JSON.stringify(sent)).not.toContain(SECRET)
    expect(await play.stage.ask(play.stage.admin, `{ space(id: "${confided.id}") { id } }`)).toBe(null)
  })
})
