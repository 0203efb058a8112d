import { describe, expect, test } from 'vitest'
import { DEFAULT_STACK } from '../support/application.ts'
import type { ModelAction } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { sayIn } from '../support/space-tools.ts'
import { playScenarios, type Read, type Stage } from '../support/stage.ts'
import { answer, inboxIn } from '../support/thinking.ts'
import { until } from '../support/until.ts'

const WAITING = `query ($id: ID!) { agent(id: $id) { internals { inbox { edges { node { id } } } } } }`
const REMOVE = `mutation ($id: ID!) { removeInboxEvent(input: { id: $id }) { __typename } }`
const LEAVE = `mutation ($input: RemoveMemberInput!) { removeMember(input: $input) { __typename } }`
const EDIT = `mutation ($input: EditMessageInput!) { editMessage(input: $input) { __typename } }`
const RETRY = `mutation ($runId: ID!) { retryRun(input: { runId: $runId }) { __typename ... on Error { message } } }`

describe('an event of a persistent agent that failed because of a provider outage', () => {
  let parley: TestServer
  let stage: Stage
  playScenarios(DEFAULT_STACK, (opened) => {
    parley = opened.parley
    stage = opened.stage
  })

  const OUT: ModelAction[] = [{ error: 'No capacity.', status: 401 }]
  const db = () => parley.app.platform.db.prisma
  const mind = (name: string) => stage.bot(name, { mind: 'PERSISTENT', toolset: 'ACTIVE_SPACE' })
  const waitingFor = async ({ id }: Read) => (await stage.ask(stage.admin, WAITING, { id })).internals.inbox.edges

  async function room() {
    const [ann, ada] = [await stage.person('Ann'), await mind('Ada')]
    const space = await stage.space('Desk', [ann, ada], { routing: 'BROADCAST' })
    return { ann, ada, space }
  }

  /** Returns the outcome of the message for the agent. */
  const outcomeOf = (space: Read, text: string, kind: string, reason: RegExp) =>
    until(`"${text}" is ${kind}`, async () => {
      const message = (await stage.messagesIn(space)).find((one) => one.text === text)
      const outcome = message?.outcomes.at(-1)
      return outcome?.kind === kind && reason.test(outcome.reason ?? '') && outcome
    })

  /** Returns the remaining pause before the retry, in seconds, and ends it. */
  async function passPause(agentId: string): Promise<number> {
    const [row] = await db().$queryRaw<{ seconds: number }[]>`
      UPDATE "InboxEvent" e SET "retryAt" = now() FROM "InboxEvent" before
      WHERE e.id = before.id AND e."agentId" = ${agentId} AND e."retryAt" IS NOT NULL
      RETURNING extract(epoch FROM before."retryAt" - now())::float8 AS seconds`
    return row?.seconds ?? 0
  }

  test('waits in the inbox for 1, 5 and 30 minutes, each time like a new event; then it is FAILED', async () => {
    const { ann, ada, space } = await room()
    parley.models.script(() => OUT)
    await stage.say(ann, space, 'Hello')
    for (const [index, minutes] of [1, 5, 30].entries()) {
      const outcome = await outcomeOf(space, 'Hello', 'INBOX', new RegExp(`next attempt is in ${minutes} minute`))
      expect(outcome.run).not.toBeNull()
      expect(await waitingFor(ada)).toHaveLength(1)
      expect(await stage.endedRuns(ada, index + 1)).toHaveLength(index + 1)
      const seconds = await passPause(ada.id)
      expect(seconds).toBeGreaterThan(minutes * 60 - 50)
      expect(seconds).toBeLessThanOrEqual(minutes * 60)
    }
    await outcomeOf(space, 'Hello', 'FAILED', /^$/)
    const runs = await stage.endedRuns(ada, 4)
    expect(runs.map(({ status, error }) => [status, error])).toEqual(
      Array.from({ length: 4 }, () => ['FAILED', expect.stringContaining('No capacity.')]),
    )
    expect(await waitingFor(ada)).toEqual([])
    const asked = parley.models.requests.map(inboxIn)
    expect(asked.every((inbox) => inbox.includes('"Hello"'))).toBe(true)
  })

  test('is answered once the provider is back, and at once when another cycle succeeds', async () => {
    const { ann, ada, space } = await room()
    parley.models.script((request) =>
      inboxIn(request).includes('"One"') && parley.models.requests.length < 2 ? OUT : answer('Here.')(request),
    )
    await stage.say(ann, space, 'One')
    await outcomeOf(space, 'One', 'INBOX', /next attempt is in 1 minute/)
    await stage.say(ann, space, 'Two')
    const answered = await until('both are answered', async () => {
      const messages = await stage.messagesIn(space)
      const said = messages.filter(({ sender, status }) => sender.id === ada.id && status !== 'STREAMING')
      return said.length === 2 && said
    })
    expect(answered.map(({ text }) => text)).toEqual(['Here.', 'Here.'])
    const runs = await stage.endedRuns(ada, 3)
    expect(runs.map(({ status }) => status)).toEqual(['FAILED', 'COMPLETED', 'COMPLETED'])
    // The consciousness does not contain the cycle that failed before any action.
    expect(JSON.stringify(parley.models.requests.at(-1)?.messages)).not.toContain('This cycle failed')
  })

  test('an event is read again after a partial message, with a note that the cycle failed and its events were returned', async () => {
    const { ann, ada, space } = await room()
    let isOut = true
    parley.models.script((request) => (request.step === 2 && isOut ? OUT : answer('Half an answer.')(request)))
    await stage.say(ann, space, 'Go')
    await outcomeOf(space, 'Go', 'INBOX', /next attempt is in 1 minute/)
    isOut = false
    parley.models.script(() => [{ text: 'I had said that already.' }])
    await passPause(ada.id)
    await stage.endedRuns(ada, 2)
    const told = JSON.stringify(parley.models.requests.at(-1)?.messages)
    expect(told).toMatch(/This cycle failed: .*The events that it had read will be delivered again\./)
    expect((await stage.messagesIn(space)).map(({ text }) => text)).toEqual(['Go', 'Half an answer.'])
  })

  test('is dropped when its agent leaves, or removed by an admin, and retried at once on request', async () => {
    const { ann, ada, space } = await room()
    const other = await stage.space('Other', [ann, ada], { routing: 'BROADCAST' })
    parley.models.script(() => OUT)
    for (const [text, place] of [
      ['Secret', other],
      ['Boring', space],
    ] as const) {
      await stage.say(ann, place, text)
      await outcomeOf(place, text, 'INBOX', /next attempt/)
    }
    await stage.ask(stage.admin, LEAVE, { input: { spaceId: other.id, entityId: ada.id } })
    await outcomeOf(other, 'Secret', 'DROPPED', /left/)
    const [{ node }] = await waitingFor(ada)
    expect((await stage.ask(stage.admin, REMOVE, { id: node.id })).__typename).toBe('RemoveInboxEventPayload')
    await stage.say(ann, space, 'Important')
    await outcomeOf(space, 'Important', 'INBOX', /next attempt/)
    parley.models.script(answer('Done.'))
    const failed = await stage.endedRuns(ada, 3)
    expect(await stage.ask(stage.admin, RETRY, { runId: failed.at(-1).id })).toEqual({
      __typename: 'RetryRunPayload',
    })
    await stage.endedRuns(ada, 4)
    const last = parley.models.requests.filter(({ step }) => step === 0).at(-1)
    expect(last === undefined ? '' : inboxIn(last)).toMatch(/^INBOX \(1 event.*\n.*"Important"$/)
  })

  test('does not come back with a reply that the failed cycle received as an answer', async () => {
    const ann = await stage.person('Ann')
    const ada = await stage.bot('Ada', { mind: 'PERSISTENT' })
    const space = await stage.space('Desk', [ann, ada], { routing: 'BROADCAST' })
    const question = sayIn(space.id, 'Which colour?', { wait: { for: [{ type: 'human' }], timeout: 60 } })
    parley.models.script(({ step }) => (step === 0 ? [question] : OUT))
    await stage.say(ann, space, 'Paint it')
    await until('Ada asks', async () => (await stage.messagesIn(space))[1]?.status === 'REQUIRES_ACTION')
    await stage.say(ann, space, 'Green')
    await outcomeOf(space, 'Paint it', 'INBOX', /next attempt/)
    const [failed] = await stage.endedRuns(ada, 1)
    expect(failed.toolCalls[0].output).toMatchObject({ reply: { text: 'Green' } })
    parley.models.script(() => [{ text: 'Done.' }])
    expect(await stage.ask(stage.admin, RETRY, { runId: failed.id })).toEqual({ __typename: 'RetryRunPayload' })
    await stage.endedRuns(ada, 2)
    const last = parley.models.requests.at(-1)
    expect(last === undefined ? '' : inboxIn(last)).toMatch(/^INBOX \(1 event.*\n.*"Paint it"$/)
    expect((await stage.messagesIn(space)).find(({ text }) => text === 'Green')?.outcomes).toMatchObject([
      { kind: 'ANSWERED', run: { id: failed.id } },
    ])
  })

  test('is read with the new text of a message that was edited in the meantime', async () => {
    const { ann, ada, space } = await room()
    parley.models.script(() => OUT)
    const { sentMessage } = await stage.say(ann, space, 'The meeting is at nine.')
    await outcomeOf(space, 'The meeting is at nine.', 'INBOX', /next attempt/)
    const input = { messageId: sentMessage.id, text: 'The meeting is at ten.' }
    expect(await stage.ask(ann.client, EDIT, { input })).toEqual({ __typename: 'EditMessagePayload' })
    parley.models.script(() => [{ text: 'Noted.' }])
    await passPause(ada.id)
    await stage.endedRuns(ada, 2)
    const last = parley.models.requests.at(-1)
    expect(last === undefined ? '' : inboxIn(last)).toMatch(/^INBOX \(1 event.*\n.*"The meeting is at ten\."$/)
  })

  test('keeps its turn in a chain until the last attempt', async () => {
    const [ann, ada, bob] = [await stage.person('Ann'), await mind('Ada'), await stage.bot('Bob')]
    const space = await stage.space('Chain', [ann, bob, ada], { routing: 'MENTION_CHAIN' })
    const ask = { targetAgentEntityId: ada.id, reason: 'How much?', expectReply: true }
    parley.models.script((request) => {
      if (request.messages.some(({ text }) => text.startsWith('INBOX'))) return OUT
      if (request.step > 0 || JSON.stringify(request.messages).includes('You had asked')) return [{ text: 'Fine.' }]
      return [{ toolCall: 'mentionAgent', input: ask }]
    })
    await stage.say(ann, space, 'What does it cost?')
    await stage.endedRuns(ada, 1)
    await until('its pause has begun', async () => (await waitingFor(ada)).length === 1)
    expect(await stage.runsOf(bob)).toHaveLength(1)
    await db().inboxEvent.updateMany({ where: { agentId: ada.id }, data: { outages: 3 } })
    await passPause(ada.id)
    await stage.endedRuns(ada, 2)
    const [, calledBack] = await stage.endedRuns(bob, 2)
    expect(calledBack.triggerSummary).toContain('Ada')
  })
})
