import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { type Named, playScenarios, type Read, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const RERUN = `mutation ($input: RerunStepInput!) { rerunStep(input: $input) { __typename
  ... on RerunStepPayload { run { id status agent { id name } triggerSpace { id name } triggerMessage { id text } } }
  ... on Error { message } } }`
const RUN = `query ($id: ID!) { run(id: $id) { status error toolCalls { toolName status input output }
  internals { steps { edges { node { index model instructions messages response } } } } } }`
const MESSAGES =
  'query ($id: ID!) { space(id: $id) { messages { edges { node { text sender { name } run { id } } } } } }'

describe.each(RULE_STACKS)('a step that is run again, on the %s stack', (stack) => {
  let parley: TestServer
  let stage: Stage
  playScenarios(stack, (opened) => {
    parley = opened.parley
    stage = opened.stage
  })

  const rerun = (input: object, client = stage.admin) => stage.ask(client, RERUN, { input })
  const prisma = () => parley.app.platform.db.prisma
  const rowsOf = async ({ id: spaceId }: Named, { id: agentId }: Named) =>
    JSON.stringify([
      await prisma().message.findMany({ where: { spaceId }, orderBy: { id: 'asc' } }),
      await prisma().run.findMany({ where: { agentId }, orderBy: { id: 'asc' } }),
      await prisma().step.findMany({ where: { run: { agentId } }, orderBy: { id: 'asc' } }),
      await prisma().toolCall.findMany({ where: { agentId }, orderBy: { id: 'asc' } }),
      await prisma().agent.findMany({ where: { id: agentId } }),
    ])
  const textsIn = async (id: string) =>
    (await stage.ask(stage.admin, MESSAGES, { id })).messages.edges.map(({ node }: Read) => node.text)
  const ended = (id: string): Promise<Read> =>
    until('the new run has ended', async () => {
      const run = await stage.ask(stage.admin, RUN, { id })
      return run.status === 'COMPLETED' || run.status === 'FAILED' ? run : null
    })

  test('continues from the journal before it, with other instructions, and does not change the original', async () => {
    const ann = await stage.person('Ann')
    const bot = await stage.bot('Iris', { instructions: 'Be kind.' })
    const space = await stage.space('Desk', [ann, bot])
    const say = (text: string) => [{ toolCall: 'sendSpaceMessage', input: { spaceId: space.id, text } }]
    parley.models.script(forAgent('Iris', steps(say('First'), say('Second'))))
    await stage.say(ann, space, 'Two messages, please')
    const [original] = await stage.endedRuns(bot, 1)
    await stage.say(ann, space, 'Later').then(() => stage.endedRuns(bot, 2))
    const before = await rowsOf(space, bot)

    parley.models.reset()
    let copy = ''
    parley.models.script(({ messages, instructions }) => {
      copy = /\(id: (spc_[0-9a-f]{32})\)/.exec(instructions)?.[1] ?? ''
      return messages.filter(({ role }) => role === 'tool').length === 1
        ? [{ toolCall: 'sendSpaceMessage', input: { spaceId: copy, text: 'Another second' } }]
        : [{ text: 'Done.' }]
    })
    const { message, run } = await rerun({ runId: original.id, step: 1, instructions: 'Be terse.' })
    expect(message).toBeUndefined()
    expect(run).toMatchObject({
      agent: { name: 'Iris' },
      triggerSpace: { name: 'Desk (rerun)' },
      triggerMessage: { text: 'Two messages, please' },
    })
    const { status, toolCalls, internals } = await ended(run.id)
    expect(status).toBe('COMPLETED')
    expect(toolCalls.map(({ input }: Read) => input.text)).toEqual(['First', 'Another second'])
    const nodes = internals.steps.edges.map(({ node }: Read) => node)
    expect(nodes.map(({ index }: Read) => index)).toEqual([0, 1, 2])
    expect([nodes[0].instructions.includes('Be kind.'), nodes[1].instructions.includes('Be terse.')]).toEqual([
      true,
      true,
    ])
    expect(JSON.stringify(nodes)).not.toContain(space.id)
    expect(JSON.stringify(nodes)).not.toContain(bot.id)
    expect(await textsIn(run.triggerSpace.id)).toEqual(['Two messages, please', 'First', 'Another second'])
    expect(await textsIn(space.id)).not.toContain('Another second')
    expect(await rowsOf(space, bot)).toBe(before)
  })

  test('a run can start again from the first step, with another model: tools with external effects wait for approval', async () => {
    const ann = await stage.person('Ann')
    const act = { name: 'act', description: 'Acts.', inputSchema: { type: 'object' }, execution: 'EXTERNAL' }
    const bot = await stage.bot('Otto', { tools: [act] })
    const space = await stage.space('Desk', [ann, bot])
    await stage.say(ann, space, 'Act')
    const [original] = await stage.endedRuns(bot, 1)
    parley.models.script(forAgent('Otto', steps([{ toolCall: 'act', input: {} }])))
    const { run } = await rerun({ runId: original.id, step: 0, model: 'openai.chat:other' })
    const call = await until('the call', () =>
      prisma()
        .toolCall.findFirst({ where: { runId: run.id, settledAt: { not: null } } })
        .then((row) => row ?? prisma().toolCall.findFirst({ where: { runId: run.id, approvalState: 'PENDING' } })),
    )
    // Only the operator belongs to the copy, so nobody can approve.
    expect(['PENDING', 'EXPIRED']).toContain(call.approvalState)
    expect(parley.models.requests.at(-1)?.model).toBe('other')
  })

  test('rerunning a step of a run in a thread continues in the copy of the thread', async () => {
    const ann = await stage.person('Ann')
    const bot = await stage.bot('Tess', { toolset: 'ACTIVE_SPACE' })
    const space = await stage.space('Desk', [ann, bot], { routing: 'ADMIN', adminAgentId: bot.id })
    const { sentMessage: root } = await stage.say(ann, space, 'root')
    await stage.endedRuns(bot, 1)
    const answer = steps([{ toolCall: 'send_message', input: { text: 'In the thread' } }])
    parley.models.script(forAgent('Tess', answer))
    await stage.say(ann, space, 'Go', { replyToId: root.id })
    await stage.endedRuns(bot, 2)
    const original = await prisma().run.findFirstOrThrow({ where: { agentId: bot.id, threadRootId: root.id } })
    const { run } = await rerun({ runId: original.id, step: 0, instructions: 'Be brief.' })
    await ended(run.id)
    const row = await prisma().run.findUniqueOrThrow({ where: { id: run.id } })
    const copies = await prisma().message.findMany({
      where: { spaceId: row.triggerSpaceId ?? '' },
      orderBy: { seq: 'asc' },
    })
    const [copiedRoot, ...replies] = copies
    expect(row.triggerSpaceId).not.toBe(space.id)
    expect(row.threadRootId).toBe(copiedRoot?.id)
    expect(replies.length).toBe(2)
    expect(replies.map(({ threadRootId }) => threadRootId)).toEqual([copiedRoot?.id, copiedRoot?.id])
    expect(replies.at(-1)?.runId).toBe(run.id)
  })

  test('is for admins, and for ended runs that have the step', async () => {
    const [ann, bob] = [await stage.person('Ann'), await stage.person('Bob')]
    const [bot, thinker] = [await stage.bot('Iris'), await stage.bot('Thea', { mind: 'PERSISTENT' })]
    const space = await stage.space('Desk', [ann, bot])
    await stage.say(ann, space, 'Hello')
    const [{ id: runId }] = (await stage.endedRuns(bot, 1)) as [Read]
    expect(await rerun({ runId, step: 0 }, ann.client)).toMatchObject({ __typename: 'ForbiddenError' })
    expect(await rerun({ runId, step: 0 }, bob.client)).toMatchObject({ __typename: 'NotFoundError' })
    for (const step of [-1, 1]) expect(await rerun({ runId, step })).toMatchObject({ __typename: 'BadInputError' })
    expect(await rerun({ runId, step: 0, model: 'nobody:knows' })).toMatchObject({ __typename: 'BadInputError' })
    await prisma().step.deleteMany({ where: { runId } })
    expect(await rerun({ runId, step: 0 })).toMatchObject({ __typename: 'ConflictError' })
    const other = await stage.space('Thinking', [ann, thinker])
    await stage.say(ann, other, 'Think')
    const [cycle] = await stage.endedRuns(thinker, 1)
    expect(await rerun({ runId: cycle.id, step: 0 })).toMatchObject({ __typename: 'ConflictError' })
  })
})
