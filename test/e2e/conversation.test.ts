import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { forAgent, steps } from '../support/model-server-script.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { until } from '../support/until.ts'
import { createSpace, type Deployment, deploy, hasServices, type Json, type Person, STACKS, say } from './deployed.ts'
import {
  eventsOf,
  isA,
  rebuild,
  type SpaceEvent,
  watchActivity,
  watchRun,
  watchSpace,
  watchSpaceBySse,
} from './watching.ts'

const ANSWER = 'Good morning, Ada! The kettle is on 🫖 — and “everything” else\nis ready.'

describe.each(STACKS)('a conversation, %s', (stack) => {
  let parley: Deployment
  let ada: Person

  beforeAll(async () => {
    parley = await deploy(stack)
    ada = await parley.person('Ada')
  }, 60_000)
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  /** Makes an agent post the text. From the third piece on, the pieces wait for `goOn`. */
  function play(name: string) {
    const { promise, resolve: goOn } = Promise.withResolvers<void>()
    const gate = (index: number) => (index === 3 ? promise : undefined)
    parley.models.script(
      forAgent(
        name,
        steps([{ toolCall: 'send_message', input: { text: ANSWER }, chunks: 9, gate, delayMs: 8 }], [{ text: 'ok' }]),
      ),
    )
    return goOn
  }

  test.each(['openai.chat:test', 'openai:test'])(
    'a conversation over %s can be followed from the first character to the end',
    async (model) => {
      const name = model.includes('chat') ? 'Chatty' : 'Responsive'
      const agentId = await parley.agent(name, model)
      const client = ada.at(0)
      const spaceId = await createSpace(client, [agentId])
      const goOn = play(name)
      const space = watchSpace(client, spaceId)
      const activity = watchActivity(client, spaceId)
      const sse: SpaceEvent[] = []
      const leave = new AbortController()
      const reading = watchSpaceBySse((parley.apis[0] as { origin: string }).origin, ada.token, spaceId, {
        onEvent: (event) => sse.push(event),
        signal: leave.signal,
      }).catch(() => {})
      await space.first(isA('SpaceSnapshot'))
      await activity.first(({ agentActivity }) => agentActivity.active === false)
      await until('the snapshot came by SSE', () => sse.length > 0)

      const [runId = ''] = await say(client, spaceId, 'Hello')
      const run = watchRun(client, runId)
      // The text is visible so far, while the model still waits.
      await space.first(isA('MessageTextDelta'))
      expect(eventsOf(space).some(({ __typename }) => __typename === 'MessageFinished')).toBe(false)
      await activity.first(({ agentActivity }) =>
        agentActivity.runs.some((one: Json) => one.id === runId && one.status === 'RUNNING'),
      )
      goOn()
      await space.first(isA('MessageFinished', ANSWER))
      expect(await run.ended).toBe(null)
      await activity.first(({ agentActivity }) => activity.seen.length > 2 && agentActivity.active === false)
      await until('the SSE stream has the end', () => sse.at(-1)?.__typename === 'MessageFinished')

      const types = eventsOf(space).map(({ __typename }) => __typename)
      expect(types.slice(0, 3)).toEqual(['SpaceSnapshot', 'MessagePosted', 'MessagePosted'])
      expect(types.filter((type) => type === 'MessageTextDelta').length).toBeGreaterThan(1)
      expect(types).toContain('MessagePartChanged')
      expect(types.at(-1)).toBe('MessageFinished')
      expect(eventsOf(space)[2].message).toMatchObject({ status: 'STREAMING', sender: { name, kind: 'AGENT' } })
      expect([...rebuild(eventsOf(space)).values()]).toEqual([
        { status: 'COMPLETE', text: 'Hello' },
        { status: 'COMPLETE', text: ANSWER },
      ])
      expect(rebuild(sse)).toEqual(rebuild(eventsOf(space)))
      const told = run.seen.map(({ runEvents }) => runEvents.__typename)
      expect(told[0]).toBe('RunStarted')
      expect(told.filter((type) => /^Run(Completed|Failed|Canceled)$/.test(type))).toEqual(['RunCompleted'])
      expect(told.at(-1)).toBe('RunCompleted')
      expect(told.indexOf('RunToolCalled')).toBeLessThan(told.indexOf('RunToolReturned'))
      expect(parley.models.refusals).toEqual([])
      leave.abort()
      await reading
    },
  )

  test('can be resumed at every event, during the conversation and afterwards, with the same result', async () => {
    const agentId = await parley.agent('Echo', 'openai.chat:test')
    const client = ada.at(0)
    const spaceId = await createSpace(client, [agentId])
    play('Echo')()
    const whole = watchSpace(client, spaceId)
    const { spaceMessages: snapshot } = await whole.first(isA('SpaceSnapshot'))
    const often = cutOffAtEveryEvent(ada.at(0), spaceId, snapshot)
    const [runId = ''] = await say(client, spaceId, 'Hello')
    await whole.first(isA('MessageFinished', ANSWER))
    const events = eventsOf(whole)
    const pieces = await often
    expect(pieces.map(({ cursor }) => cursor)).toEqual(events.map(({ cursor }) => cursor))
    expect(rebuild(pieces)).toEqual(rebuild(events))
    for (const [index, { cursor }] of events.slice(0, -1).entries()) {
      const resumed = watchSpace(client, spaceId, cursor)
      await resumed.first(isA('MessageFinished', ANSWER))
      const rest = eventsOf(resumed)
      expect(rest.map((event) => [event.__typename, event.cursor])).toEqual(
        events.slice(index + 1).map((event) => [event.__typename, event.cursor]),
      )
      expect(rebuild([...events.slice(0, index + 1), ...rest])).toEqual(rebuild(events))
      resumed.stop()
    }
    const run = watchRun(client, runId)
    expect(await run.ended).toBe(null)
    const cursors = run.seen.map(({ runEvents }) => runEvents.cursor)
    for (const [index, cursor] of cursors.entries()) {
      const resumed = watchRun(client, runId, cursor)
      expect(await resumed.ended).toBe(null)
      expect(resumed.seen.map(({ runEvents }) => runEvents.cursor)).toEqual(cursors.slice(index + 1))
    }
  })

  /** Runs a client that loses its subscription after each event, until the text is complete. */
  async function cutOffAtEveryEvent(client: ParleyClient, spaceId: string, first: SpaceEvent): Promise<SpaceEvent[]> {
    const events = [first]
    for (;;) {
      const live = watchSpace(client, spaceId, events.at(-1).cursor)
      const { spaceMessages: event } = await live.first(() => true)
      live.stop()
      events.push(event)
      if (event.__typename === 'MessageFinished') return events
    }
  }
})

describe.skipIf(!hasServices)('two API processes and one worker', () => {
  let parley: Deployment
  let ada: Person

  beforeAll(async () => {
    parley = await deploy('services', 2)
    ada = await parley.person('Ada')
  }, 60_000)
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  test("share one event log: both deliver the same events with the same cursors, and each can resume the other's", async () => {
    const [here, there] = [ada.at(0), ada.at(1)]
    const spaceId = await createSpace(here, [await parley.agent('Shared', 'openai.chat:test')])
    parley.models.script(
      forAgent('Shared', steps([{ toolCall: 'send_message', input: { text: ANSWER }, delayMs: 10 }], [{ text: 'ok' }])),
    )
    const both = [watchSpace(here, spaceId), watchSpace(there, spaceId)] as const
    await Promise.all(both.map((live) => live.first(isA('SpaceSnapshot'))))
    await say(there, spaceId, 'Hello')
    await Promise.all(both.map((live) => live.first(isA('MessageFinished', ANSWER))))
    const [left, right] = both.map((live) => eventsOf(live)) as [SpaceEvent[], SpaceEvent[]]
    expect(right.slice(1).map(({ cursor }) => cursor)).toEqual(left.slice(1).map(({ cursor }) => cursor))
    expect(rebuild(right)).toEqual(rebuild(left))
    const half = Math.floor(left.length / 2)
    const resumed = watchSpace(there, spaceId, left[half].cursor)
    await resumed.first(isA('MessageFinished', ANSWER))
    expect(rebuild([...left.slice(0, half + 1), ...eventsOf(resumed)])).toEqual(rebuild(left))
  })

  test('a member removed through one process is disconnected from the other by a signal', async () => {
    const bob = await parley.person('Bob')
    const spaceId = await createSpace(ada.at(0), [])
    await addByAdmin(spaceId, bob.id)
    const live = watchSpace(bob.at(1), spaceId)
    await live.first(isA('SpaceSnapshot'))
    const removedAt = performance.now()
    await ada
      .at(0)
      .ask(`mutation { removeMember(input: { spaceId: "${spaceId}", entityId: "${bob.id}" }) { __typename } }`)
    expect(await live.ended).toMatchObject([{ extensions: { code: 'FORBIDDEN' } }])
    expect(performance.now() - removedAt).toBeLessThan(10_000)
  })

  async function addByAdmin(spaceId: string, entityId: string): Promise<void> {
    const answer = await parley.admin.ask<Json>(
      `mutation { addMember(input: { spaceId: "${spaceId}", entityId: "${entityId}" }) { __typename } }`,
    )
    expect(answer.data?.addMember?.__typename).toBe('AddMemberPayload')
  }

  test('a Redis that dies and returns empty during an answer loses nothing', {
    timeout: 60_000,
  }, async () => {
    const client = ada.at(0)
    const spaceId = await createSpace(client, [await parley.agent('Steady', 'openai.chat:test')])
    const { promise: restarted, resolve: goOn } = Promise.withResolvers<void>()
    const gate = (index: number) => (index === 4 ? restarted : undefined)
    parley.models.script(
      forAgent('Steady', steps([{ toolCall: 'send_message', input: { text: ANSWER }, gate }], [{ text: 'ok' }])),
    )
    const both = [watchSpace(client, spaceId), watchSpace(ada.at(1), spaceId)] as const
    await Promise.all(both.map((live) => live.first(isA('SpaceSnapshot'))))
    const [runId = ''] = await say(client, spaceId, 'Hello')
    await Promise.all(both.map((live) => live.first(isA('MessageTextDelta'))))
    await parley.redis?.kill()
    await until('the server is not ready without Redis', async () => !(await isReady()))
    await parley.redis?.start()
    goOn()
    await until('the server is ready again', isReady)
    await until('both have the whole text', () =>
      both.every((live) =>
        [...rebuild(eventsOf(live)).values()].some(({ status, text }) => status === 'COMPLETE' && text === ANSWER),
      ),
    )
    const run = watchRun(client, runId)
    expect(await run.ended).toBe(null)
    expect(run.seen.at(-1)?.runEvents.__typename).toBe('RunCompleted')
    for (const live of both) {
      expect([...rebuild(eventsOf(live)).values()]).toEqual([
        { status: 'COMPLETE', text: 'Hello' },
        { status: 'COMPLETE', text: ANSWER },
      ])
    }
  })

  const isReady = async () => (await fetch(`${(parley.apis[0] as { origin: string }).origin}/health/ready`)).ok
})
