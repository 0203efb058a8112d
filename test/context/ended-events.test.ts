import { describe, expect, test } from 'vitest'
import { Prisma } from '../../src/generated/prisma/client.ts'
import { createDeferred } from '../../src/lib/async.ts'
import { DEFAULT_STACK } from '../support/application.ts'
import type { TestServer } from '../support/served.ts'
import { type Person, playScenarios, promptOf, type Read, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const LEAVE = `mutation ($input: RemoveMemberInput!) { removeMember(input: $input) { __typename } }`
const DELETE_AGENT = `mutation ($input: DeleteAgentInput!) { deleteAgent(input: $input) { __typename } }`
const FORGET = `mutation ($input: ForgetSpaceInput!) { forgetSpace(input: $input) { __typename } }`
const REMOVE = `mutation ($id: ID!) { removeInboxEvent(input: { id: $id }) { __typename } }`
const WAITING = `query ($id: ID!) { agent(id: $id) { internals { inbox { edges { node { id } } } } } }`

describe('inbox events that no think cycle will read', () => {
  let parley: TestServer
  let stage: Stage
  playScenarios(DEFAULT_STACK, (opened) => {
    ;({ parley, stage } = opened)
  })

  const db = () => parley.app.platform.db
  const waitingFor = async ({ id }: Read): Promise<Read[]> =>
    (await stage.ask(stage.admin, WAITING, { id })).internals.inbox.edges
  const outcomesOf = async (space: Read, text: string): Promise<Read[]> =>
    (await stage.messagesIn(space)).find((message) => message.text === text)?.outcomes

  /** Creates an agent that thinks until `go`, and whose inbox has a message in which the agent has the turn of a chain. */
  async function backlog() {
    const ann = await stage.person('Ann')
    const ada = await stage.bot('Ada', { mind: 'PERSISTENT', toolset: 'ACTIVE_SPACE' })
    const space = await stage.space('Chain', [ann, ada], { routing: 'MENTION_CHAIN' })
    const gate = createDeferred()
    parley.models.script(() => [{ gate: gate.promise }, { text: 'Read.' }])
    await stage.say(ann, space, 'First')
    await until('Ada thinks about the first message', () => parley.models.requests.length > 0)
    await stage.say(ann, space, 'Second')
    expect(await waitingFor(ada)).toHaveLength(1)
    const { chainId } = await db().prisma.inboxEvent.findFirstOrThrow({
      where: { agentId: ada.id, runId: { not: null } },
    })
    return { ann, ada, space, chainId, go: () => gate.resolve() }
  }

  /** Copies the waiting event of an agent several times, each time with its own message and chain. */
  async function multiply(ada: Read, copies: number): Promise<void> {
    const source = Prisma.sql`"InboxEvent" e CROSS JOIN generate_series(1, ${copies}) n`
    const waits = Prisma.sql`e."agentId" = ${ada.id} AND e."doneAt" IS NULL AND e."runId" IS NULL`
    await db().prisma.$executeRaw`
      WITH message AS (
        INSERT INTO "Message" SELECT (jsonb_populate_record(m, to_jsonb(m) || jsonb_build_object('id', m.id || '-' || n,
          'seq', 1000 + n, 'idempotencyKey', NULL))).* FROM ${source} JOIN "Message" m ON m.id = e."messageId" WHERE ${waits}
      ), outcome AS (
        INSERT INTO "Outcome" SELECT (jsonb_populate_record(o, to_jsonb(o) || jsonb_build_object('messageId', o."messageId" || '-' || n))).*
        FROM ${source} JOIN "Outcome" o ON o."messageId" = e."messageId" WHERE ${waits}
      ), chain AS (
        INSERT INTO "Chain" SELECT (jsonb_populate_record(c, to_jsonb(c) || jsonb_build_object('id', c.id || '-' || n))).*
        FROM ${source} JOIN "Chain" c ON c.id = e."chainId" WHERE ${waits}
      )
      INSERT INTO "InboxEvent" SELECT (jsonb_populate_record(e, to_jsonb(e) || jsonb_build_object('id', e.id || '-' || n,
        'messageId', e."messageId" || '-' || n, 'dedupKey', e."dedupKey" || '-' || n, 'chainId', e."chainId" || '-' || n))).*
      FROM ${source} WHERE ${waits}`
  }

  /**
   * Counts the messages that wait for the agent, and the chains in which it has the turn, except for the message that it is
   * thinking about.
   */
  const openIn = async ({ id }: Read, thinksAbout: string | null) => ({
    waiting: await db().prisma.outcome.count({ where: { agentId: id, kind: 'INBOX', runId: null } }),
    turns: await db().prisma.chain.count({ where: { holderId: id, id: { not: thinksAbout ?? '' } } }),
  })

  /** Keeps the chain of the waiting event locked while `work` runs. */
  async function withLockedTurn(ada: Read, work: () => Promise<void>): Promise<void> {
    const [locked, release] = [createDeferred(), createDeferred()]
    const holding = db().prisma.$transaction(
      async (tx) => {
        await tx.$queryRaw`
          SELECT 1 FROM "Chain" WHERE id = (
            SELECT "chainId" FROM "InboxEvent" WHERE "agentId" = ${ada.id} AND "doneAt" IS NULL AND "runId" IS NULL) FOR UPDATE`
        locked.resolve()
        await release.promise
      },
      { timeout: 60_000 },
    )
    await locked.promise
    try {
      await work()
    } finally {
      release.resolve()
      await holding
    }
  }

  test.each([
    ['an agent leaves', LEAVE, (ada: Read, space: Read) => ({ spaceId: space.id, entityId: ada.id })],
    ['an agent is deleted', DELETE_AGENT, (ada: Read) => ({ id: ada.id })],
  ])('do not lock the space while they are dropped, when %s', async (_, operation, inputOf) => {
    const { ann, ada, space, chainId, go } = await backlog()
    let removal: Promise<Read> | undefined
    await withLockedTurn(ada, async () => {
      removal = stage.ask(stage.admin, operation, { input: inputOf(ada, space) })
      await until('Ada is no longer a member', async () => {
        const members = await db().prisma.membership.count({ where: { spaceId: space.id, entityId: ada.id } })
        return members === 0
      })
      expect(await stage.say(ann, space, 'Goodbye')).toMatchObject({ __typename: 'SendMessagePayload' })
    })
    await removal
    expect(await outcomesOf(space, 'Second')).toMatchObject([{ agent: { name: 'Ada' }, kind: 'DROPPED' }])
    expect(await openIn(ada, chainId)).toEqual({ waiting: 0, turns: 0 })
    go()
  })

  test('are dropped even if there are thousands, when their agent leaves', async () => {
    const { ada, space, chainId, go } = await backlog()
    await multiply(ada, 1100)
    expect(await openIn(ada, chainId)).toEqual({ waiting: 1101, turns: 1101 })
    await stage.ask(stage.admin, LEAVE, { input: { spaceId: space.id, entityId: ada.id } })
    await until('all events are dropped', async () => (await openIn(ada, chainId)).waiting === 0)
    expect(await openIn(ada, chainId)).toEqual({ waiting: 0, turns: 0 })
    go()
  })

  /** Bob has asked Ada, and is called back after her turn. The question waits in her inbox for a retry. */
  async function asking(): Promise<{ ann: Person; ada: Read; bob: Read; space: Read }> {
    const ann = await stage.person('Ann')
    const ada = await stage.bot('Ada', { mind: 'PERSISTENT', toolset: 'ACTIVE_SPACE' })
    const bob = await stage.bot('Bob')
    const space = await stage.space('Chain', [ann, bob, ada], { routing: 'MENTION_CHAIN' })
    const ask = { targetAgentEntityId: ada.id, reason: 'How much?', expectReply: true }
    const say = { toolCall: 'sendSpaceMessage', input: { spaceId: space.id, text: 'Ada knows.' } }
    parley.models.script((request) => {
      if (request.messages.some(({ text }) => text.startsWith('INBOX'))) return [{ error: 'No capacity.', status: 401 }]
      if (promptOf(request).includes('You had asked')) return [{ text: 'Fine.' }]
      return request.step === 0 ? [say] : [{ toolCall: 'mentionAgent', input: ask }]
    })
    await stage.say(ann, space, 'What does it cost?')
    await stage.endedRuns(ada, 1)
    await until('the event waits for a retry', async () => (await waitingFor(ada)).length === 1)
    expect(await stage.runsOf(bob)).toHaveLength(1)
    return { ann, ada, bob, space }
  }

  test.each([
    [
      'an admin removes the event',
      async ({ ada }: Read) => stage.ask(stage.admin, REMOVE, { id: (await waitingFor(ada))[0].node.id }),
    ],
    [
      'an admin makes the agent forget the space',
      ({ ada, space }: Read) => stage.ask(stage.admin, FORGET, { input: { agentId: ada.id, spaceId: space.id } }),
    ],
    ['the agent is deleted', ({ ada }: Read) => stage.ask(stage.admin, DELETE_AGENT, { input: { id: ada.id } })],
    [
      'the agent leaves',
      ({ ada, space }: Read) => stage.ask(stage.admin, LEAVE, { input: { spaceId: space.id, entityId: ada.id } }),
    ],
  ])('end their turns, so that the agent that waits for the reply is called back, when %s', async (_, end) => {
    const room = await asking()
    expect((await end(room)).__typename).toMatch(/Payload$/)
    const [, calledBack] = await stage.endedRuns(room.bob, 2)
    expect(calledBack.triggerSummary).toContain('Ada')
    const ofAda = (await outcomesOf(room.space, 'Ada knows.')).filter(({ agent }) => agent.name === 'Ada')
    expect(ofAda).toMatchObject([{ kind: 'DROPPED' }])
    expect(await db().prisma.chain.count({ where: { spaceId: room.space.id, holderId: { not: null } } })).toBe(0)
  })
})
