import { describe, expect, test, vi } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { STACKS } from '../support/application.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { type Named, type Person, playScenarios, type Read, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const FORK = `mutation ($input: ForkSpaceInput!) { forkSpace(input: $input) { __typename
  ... on ForkSpacePayload { space { id name members { __typename id name } } } ... on Error { message } } }`
const DELETE = 'mutation ($input: DeleteMessageInput!) { deleteMessage(input: $input) { __typename } }'
const DELETE_SPACE = 'mutation ($id: ID!) { deleteSpace(input: { id: $id }) { __typename } }'
const ADD = 'mutation ($input: AddMemberInput!) { addMember(input: $input) { __typename } }'
const RERUN = `mutation ($input: RerunStepInput!) { rerunStep(input: $input) { __typename
  ... on RerunStepPayload { run { id agent { id name } } } ... on Error { message } } }`
const OUTCOMES = 'query ($id: ID!) { message(id: $id) { outcomes { kind } } }'
const CALL = 'query ($id: ID!) { node(id: $id) { ... on ToolCall { id output } } }'
const WHY = 'query ($id: ID!) { why(id: $id) { steps { kind id text causes } } }'
const SPENT = 'query ($id: ID!) { agent(id: $id) { internals { budget { tokensSpentToday } } } }'

const SECRET = 'The CANARY sings in the old mine behind the third hill'
const show = { name: 'show', description: 'Shows.', inputSchema: { type: 'object' }, execution: 'SPACE', visible: true }

describe.each(STACKS)('copies of spaces, on the %s stack', (stack) => {
  let parley: TestServer
  let stage: Stage
  playScenarios(
    stack,
    (opened) => {
      parley = opened.parley
      stage = opened.stage
    },
    { PARLEY_MAX_NEW_SPACES_PER_DAY: '100' },
  )

  const prisma = () => parley.app.platform.db.prisma
  const copyOf = async (person: Pick<Person, 'client'>, { id: spaceId }: Named): Promise<Read> => {
    const { message, space } = await stage.ask(person.client, FORK, { input: { spaceId } })
    expect(message).toBeUndefined()
    return space
  }
  const operator = () => ({ client: stage.admin })
  const agentOf = (space: Read): Named => space.members.find(({ __typename }: Read) => __typename === 'Agent')
  const deleteSpace = ({ id }: Named) => stage.ask(stage.admin, DELETE_SPACE, { id })
  const add = (space: Named, entity: Named) =>
    stage.ask(stage.admin, ADD, { input: { spaceId: space.id, entityId: entity.id } })
  const isGone = async ({ id }: Named) => (await prisma().agent.findUnique({ where: { id } })) === null
  const spend = async ({ id: agentId }: Named, { id: spaceId }: Named, tokens: number) =>
    prisma().dailyUsage.create({
      data: { day: new Date(new Date().toISOString().slice(0, 10)), agentId, spaceId, model: 'x', inputTokens: tokens },
    })
  /** Waits until the second message of a space shows a call that waits. */
  const callIn = (space: Named): Promise<Read> =>
    until('the call waits', async () => {
      const message = (await stage.messagesIn(space))[1]
      return message?.parts[0]?.toolCall?.status === 'WAITING' ? message : null
    })
  const outcome = async (person: Person, space: Named, text: string) => {
    const { id } = (await stage.say(person, space, text)).sentMessage
    const { kind } = (await stage.ask(stage.admin, OUTCOMES, { id })).outcomes[0]
    // The run may already have ended, because its model posts nothing.
    return kind === 'SKIPPED' ? 'RUN' : kind
  }

  test('are deleted together with those of their agents that are members nowhere else', async () => {
    const ann = await stage.person('Ann')
    const [one, two] = [await stage.bot('One'), await stage.bot('Two')]
    const space = await stage.space('Desk', [ann, one, two], { routing: 'BROADCAST' })
    const other = await stage.space('Other', [ann])
    const copy = await copyOf(ann, space)
    const copies: Named[] = copy.members.filter(({ __typename }: Read) => __typename === 'Agent')
    const named = (name: string) => copies.find((copied) => copied.name === name)!
    await add(other, named('Two'))
    await deleteSpace(copy)
    expect(await Promise.all([named('One'), named('Two'), one, two].map(isGone))).toEqual([true, false, false, false])
    const entity = await prisma().entity.findUniqueOrThrow({ where: { id: named('One').id } })
    expect(entity.goneAt).not.toBeNull()
    await deleteSpace(space)
    expect(await isGone(one)).toBe(false)
  })

  test('are deleted together with those of their agents that were removed from them before', async () => {
    const ann = await stage.person('Ann')
    const space = await stage.space('Desk', [ann, await stage.bot('One')])
    const copy = await copyOf(ann, space)
    const agent = agentOf(copy)
    await stage.ask(
      ann.client,
      'mutation ($input: RemoveMemberInput!) { removeMember(input: $input) { __typename } }',
      {
        input: { spaceId: copy.id, entityId: agent.id },
      },
    )
    expect(await isGone(agent)).toBe(false)
    await deleteSpace(copy)
    expect(await isGone(agent)).toBe(true)
  })

  test('lose a deleted message even if the copy in between was deleted, and leave no row behind', async () => {
    const ann = await stage.person('Ann')
    const bot = await stage.bot('Iris')
    const space = await stage.space('Desk', [ann, bot])
    const secret = (await stage.say(ann, space, SECRET)).sentMessage.id
    await stage.endedRuns(bot, 1)
    const middle = await copyOf(ann, space)
    const last = await copyOf(ann, middle)
    await prisma().memory.create({
      data: {
        id: newId('mem'),
        agentId: agentOf(last).id,
        key: 'k',
        value: `They said: ${SECRET}`,
        updatedAt: new Date(),
      },
    })
    await deleteSpace(middle)
    await stage.ask(ann.client, DELETE, { input: { messageId: secret } })
    expect(JSON.stringify(await stage.messagesIn(last))).not.toContain('CANARY')
    await until(
      'the memory is changed',
      async () => (await prisma().memory.count({ where: { value: { contains: 'CANARY' } } })) === 0,
    )
    await deleteSpace(last)
    await parley.app.domain.deletion.sweep()
    expect(await prisma().space.count({ where: { id: { in: [middle.id, last.id] } } })).toBe(0)
  })

  test('are the only spaces that a deletion in a copy changes', async () => {
    const [ann, bob] = [await stage.person('Ann'), await stage.person('Bob')]
    const bot = await stage.bot('Iris')
    const space = await stage.space('Desk', [ann, bob, bot])
    await stage.say(ann, space, SECRET)
    await stage.endedRuns(bot, 1)
    const [copy, ofBob] = [await copyOf(ann, space), await copyOf(bob, space)]
    const nested = await copyOf(ann, copy)
    const agents = [bot, agentOf(ofBob), agentOf(copy), agentOf(nested)]
    for (const { id: agentId } of agents)
      await prisma().memory.create({
        data: { id: newId('mem'), agentId, key: 'k', value: `They said: ${SECRET}`, updatedAt: new Date() },
      })
    const stepsBefore = await prisma().step.findMany({ where: { run: { agentId: bot.id } } })
    expect(JSON.stringify(stepsBefore)).toContain('CANARY')
    const [{ id: messageId }] = await stage.messagesIn(copy)
    await stage.ask(ann.client, DELETE, { input: { messageId } })
    await until('each deletion is finished', async () => (await prisma().messageDeletion.count()) === 0)
    const knows = async ({ id: agentId }: Named) =>
      (await prisma().memory.count({ where: { agentId, value: { contains: 'CANARY' } } })) > 0
    expect(await Promise.all(agents.map(knows))).toEqual([true, true, false, false])
    expect(await prisma().step.findMany({ where: { run: { agentId: bot.id } } })).toEqual(stepsBefore)
    expect(JSON.stringify(await stage.messagesIn(space))).toContain('CANARY')
    expect(JSON.stringify(await stage.messagesIn(nested))).not.toContain('CANARY')
  })

  test('whose agents were deleted still lose deleted texts from their journals', async () => {
    const ann = await stage.person('Ann')
    const bot = await stage.bot('Iris')
    const space = await stage.space('Desk', [ann, bot])
    const secret = (await stage.say(ann, space, SECRET)).sentMessage.id
    await stage.endedRuns(bot, 1)
    const copy = await copyOf(ann, space)
    await stage.say(ann, copy, 'What did I say?')
    const agent = agentOf(copy)
    await stage.endedRuns(agent, 1)
    const journal = async () => JSON.stringify(await prisma().step.findMany({ where: { run: { agentId: agent.id } } }))
    expect(await journal()).toContain('CANARY')
    await deleteSpace(copy)
    await prisma().dailyUsage.deleteMany({ where: { agentId: agent.id } })
    await copyOf(ann, space)
    await stage.ask(ann.client, DELETE, { input: { messageId: secret } })
    await until('each deletion is finished', async () => (await prisma().messageDeletion.count()) === 0)
    expect(await journal()).not.toContain('CANARY')
  })

  test('lose their own texts too, and keep one record of the texts that all of them had', async () => {
    const ann = await stage.person('Ann')
    const bot = await stage.bot('Iris')
    const space = await stage.space('Desk', [ann, bot])
    const secret = (await stage.say(ann, space, SECRET)).sentMessage.id
    await stage.endedRuns(bot, 1)
    const [copy, edited] = [await copyOf(ann, space), await copyOf(ann, space)]
    const [{ id: messageId }] = await stage.messagesIn(edited)
    const changed = 'The SPARROW sings in the old mine behind the fourth hill'
    await stage.ask(ann.client, 'mutation ($input: EditMessageInput!) { editMessage(input: $input) { __typename } }', {
      input: { messageId, text: changed },
    })
    await prisma().memory.create({
      data: { id: newId('mem'), agentId: agentOf(edited).id, key: 'k', value: changed + SECRET, updatedAt: new Date() },
    })
    const { prisma: database } = parley.app.platform.db
    const recorded: Read[] = []
    const { jobs } = parley.app.platform
    const enqueue = vi.spyOn(jobs, 'enqueue')
    enqueue.mockImplementation(async (tx, ...rest) => {
      recorded.push(...(await tx.messageDeletion.findMany()))
      enqueue.mockRestore()
      return jobs.enqueue(tx, ...rest)
    })
    await stage.ask(ann.client, DELETE, { input: { messageId: secret } })
    const [{ id: copied }] = await stage.messagesIn(copy)
    const textsOf = (id: string) => recorded.find((row) => row['messageId'] === id)?.['texts']
    expect([secret, copied, messageId].map(textsOf)).toEqual([[SECRET], [], [changed]])
    await until('each deletion is finished', async () => (await database.messageDeletion.count()) === 0)
    const [memory] = await database.memory.findMany({ where: { agentId: agentOf(edited).id } })
    expect(memory?.value).not.toMatch(/CANARY|SPARROW/)
  })

  test('lose a deleted message at once, with the calls and files that it shows, in any number of copies', async () => {
    const ann = await stage.person('Ann')
    const bot = await stage.bot('Iris', { tools: [show] })
    const space = await stage.space('Desk', [ann, bot])
    parley.models.script(steps([{ toolCall: 'show', input: { word: 'CANARY', targetSpaceId: space.id } }]))
    await stage.say(ann, space, 'Show it')
    const shown = await callIn(space)
    const call = shown.parts[0].toolCall
    await stage.ask(
      ann.client,
      'mutation ($input: SubmitToolResultInput!) { submitToolResult(input: $input) { __typename } }',
      {
        input: { toolCallId: call.id, result: { word: 'CANARY' } },
      },
    )
    await stage.endedRuns(bot, 1)
    const copies: Read[] = []
    for (let n = 0; n < 5; n++) copies.push(await copyOf(ann, n % 2 === 0 ? space : copies[0]))
    const calls = await prisma().toolCall.findMany({ where: { spaceId: { in: copies.map(({ id }) => id) } } })
    expect(calls).toHaveLength(5)
    const ids = calls.map(({ id }) => id)
    for (const id of ids)
      expect((await stage.ask(ann.client, WHY, { id })).steps[0]).toMatchObject({ kind: 'TOOL_CALL', id })
    await stage.ask(stage.admin, DELETE, { input: { messageId: shown.id } })
    const rows = await prisma().message.findMany({ where: { spaceId: { in: copies.map(({ id }) => id) }, seq: 2 } })
    expect(rows.map(({ parts, deletedAt }) => [parts, deletedAt === null])).toEqual(copies.map(() => [[], false]))
    expect(await prisma().toolCall.count({ where: { id: { in: ids } } })).toBe(0)
    for (const id of ids) {
      expect(await stage.ask(ann.client, CALL, { id })).toBeNull()
      expect(await stage.ask(ann.client, WHY, { id })).toBeNull()
    }
    await until('each deletion is finished', async () => (await prisma().messageDeletion.count()) === 0)
  })

  test('explain copied calls by their originals to those who may see the originals', async () => {
    const [ann, bob] = [await stage.person('Ann'), await stage.person('Bob')]
    const bot = await stage.bot('Iris', { tools: [show] })
    const space = await stage.space('Desk', [ann, bob, bot])
    parley.models.script(steps([{ toolCall: 'show', input: { targetSpaceId: space.id } }]))
    await stage.say(ann, space, 'Show it')
    const shown = await callIn(space)
    const copy = await copyOf(ann, space)
    const copied = (await stage.messagesIn(copy))[1].parts[0].toolCall
    const { steps: trace } = await stage.ask(ann.client, WHY, { id: copied.id })
    expect(trace[0]).toMatchObject({ kind: 'TOOL_CALL', id: copied.id, text: expect.stringContaining('copied') })
    expect(trace[trace[0].causes[0]]).toMatchObject({ kind: 'TOOL_CALL', id: shown.parts[0].toolCall.id })
    expect(await stage.ask(bob.client, WHY, { id: copied.id })).toBeNull()
  })

  test('share the budgets of their originals, even after those were deleted', async () => {
    const ann = await stage.person('Ann')
    const bot = await stage.bot('Iris', { budget: { tokensPerDay: 100 } })
    const space = await stage.space('Desk', [ann, bot])
    const copy = await copyOf(ann, space)
    await spend(agentOf(copy), copy, 60)
    await deleteSpace(copy)
    expect(await outcome(ann, space, 'Within')).toBe('RUN')
    const again = await copyOf(ann, space)
    const twice = await copyOf(ann, again)
    await spend(agentOf(twice), twice, 40)
    for (const one of [space, again, twice]) expect(await outcome(ann, one, 'Too much')).toBe('OVER_BUDGET')
    for (const one of [bot, agentOf(again)])
      expect(
        (await stage.ask(stage.admin, SPENT, { id: one.id })).internals.budget.tokensSpentToday,
      ).toBeGreaterThanOrEqual(100)
    await stage.ask(stage.admin, 'mutation ($input: UpdateAgentInput!) { updateAgent(input: $input) { __typename } }', {
      input: { id: agentOf(again).id, budget: { tokensPerDay: 1_000_000 } },
    })
    expect(await outcome(ann, again, 'Still too much')).toBe('OVER_BUDGET')
    expect(await outcome(ann, await stage.space('Alone', [ann, await stage.bot('Other')]), 'Hello')).toBe('RUN')
  })

  test('copies of a person who was removed do not use up the budgets of the others', async () => {
    const [ann, eve] = [await stage.person('Ann'), await stage.person('Eve')]
    const bot = await stage.bot('Iris', { budget: { tokensPerDay: 1_000_000 } })
    const space = await stage.space('Desk', [ann, eve, bot], { budget: { tokensPerDay: 1_000_000 } })
    const [ofAnn, ofEve, another] = [await copyOf(ann, space), await copyOf(eve, space), await copyOf(eve, space)]
    await spend(agentOf(ofEve), ofEve, 1_000_000)
    for (const [person, one] of [
      [ann, space],
      [ann, ofAnn],
      [eve, another],
    ] as const)
      expect(await outcome(person, one, 'Too much')).toBe('OVER_BUDGET')
    await stage.ask(
      stage.admin,
      'mutation ($input: RemoveMemberInput!) { removeMember(input: $input) { __typename } }',
      {
        input: { spaceId: space.id, entityId: eve.id },
      },
    )
    for (const one of [space, ofAnn]) expect(await outcome(ann, one, 'Within')).toBe('RUN')
    for (const one of [ofEve, another]) expect(await outcome(eve, one, 'Too much')).toBe('OVER_BUDGET')
  })

  test('share the budget of a space', async () => {
    const ann = await stage.person('Ann')
    const bot = await stage.bot('Iris')
    const space = await stage.space('Desk', [ann, bot], { budget: { tokensPerDay: 100 } })
    const copy = await copyOf(ann, space)
    await spend(agentOf(copy), copy, 100)
    expect(await outcome(ann, space, 'Too much')).toBe('OVER_BUDGET')
    expect(await outcome(ann, copy, 'Too much')).toBe('OVER_BUDGET')
  })

  test('give a repeated run no new budget for its root', async () => {
    const ann = await stage.person('Ann')
    const bot = await stage.bot('Iris', { budget: { tokensPerRoot: 1000 } })
    const space = await stage.space('Desk', [ann, bot])
    parley.models.script(
      forAgent('Iris', steps([{ toolCall: 'sendSpaceMessage', input: { spaceId: space.id, text: 'Hi' } }])),
    )
    await stage.say(ann, space, 'Speak')
    const [run] = await stage.endedRuns(bot, 1)
    await prisma().rootUsage.update({ where: { rootId: run.rootId }, data: { inputTokens: 1000 } })
    const { run: again, message } = await stage.ask(stage.admin, RERUN, { input: { runId: run.id, step: 0 } })
    expect(message).toBeUndefined()
    const [ended] = await stage.endedRuns(again.agent, 1)
    expect(ended).toMatchObject({ status: 'FAILED', error: expect.stringContaining('budget') })
  })

  test('keep no memories from a deleted space, except what a remaining copy has', async () => {
    const ann = await stage.person('Ann')
    const bot = await stage.bot('Iris')
    const [source, desk] = [await stage.space('Source', [ann, bot]), await stage.space('Desk', [ann, bot])]
    const remember = (agentId: string, key: string, places: string[]) =>
      prisma().memory.create({ data: { id: newId('mem'), agentId, key, value: 'v', updatedAt: new Date(), places } })
    await remember(bot.id, 'from the source', [source.id])
    await remember(bot.id, 'from the desk', [desk.id])
    const copy = await copyOf(operator(), desk)
    const sourceCopy = await copyOf(operator(), source)
    await remember(agentOf(sourceCopy).id, 'from the copy', [source.id, sourceCopy.id])
    await deleteSpace(source)
    const keys = async ({ id: agentId }: Named) =>
      (await prisma().memory.findMany({ where: { agentId }, orderBy: { key: 'asc' } })).map(({ key }) => key)
    expect(await keys(bot)).toEqual(['from the desk'])
    expect(await keys(agentOf(copy))).toEqual(['from the desk'])
    expect(await keys(agentOf(sourceCopy))).toEqual(['from the copy', 'from the desk'])
  })
})
