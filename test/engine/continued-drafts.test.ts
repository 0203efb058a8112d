import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { inTurn, type ModelAction } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { callsOf, messagesOf, sayIn, spaceToolsRoom, textsOf } from '../support/space-tools.ts'
import { until } from '../support/until.ts'

const EVENTS = `subscription ($id: ID!) { spaceMessages(spaceId: $id) {
  __typename
  ... on MessagePosted { message { id sender { kind } } }
  ... on MessageTextDelta { messageId partIndex offset delta }
  ... on MessageTextReplaced { messageId partId partIndex offset text part { id text } }
  ... on MessageFinished { message { id status text } } } }`
const RUN_EVENTS = `subscription ($id: ID!) { runEvents(runId: $id) { __typename ... on RunToolInputDelta { toolCallId delta } } }`

// biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
type Event = any

/** Returns the texts of agents' messages as a client builds them from the events alone. */
function textsFrom(events: Event[]): string[] {
  const texts = new Map<string, string>()
  for (const { spaceMessages: event } of events) {
    const known = texts.get(event.messageId) ?? ''
    if (event.__typename === 'MessageTextDelta') texts.set(event.messageId, known.slice(0, event.offset) + event.delta)
    if (event.__typename === 'MessageTextReplaced')
      texts.set(event.messageId, known.slice(0, event.offset) + event.text)
  }
  return [...texts.values()]
}

describe.each(RULE_STACKS)('a message whose stream was interrupted, on the %s stack', (stack) => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({ stack })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  const DONE: ModelAction[] = [{ text: 'Done.' }]
  const say = (text: string): ModelAction => ({ toolCall: 'send_message', input: { text } })

  /** Writes the text up to the end, waits until a viewer has received all of it, and then disconnects. */
  const breakingAfter = (tool: string, input: object, seen: Promise<unknown>): ModelAction[] => [
    { toolCall: tool, input, chunks: [JSON.stringify(input).slice(0, -2), seen] },
    { disconnect: true },
  ]

  /** Plays the generations. The first one is cut off once a viewer has received its text. */
  async function play(text: string, ...generations: ModelAction[][]) {
    const { human, space, agent } = await parley.room('Ada')
    const client = await parley.clientOf(human)
    const live = client.subscribe<Event, object>(EVENTS, { id: space.id })
    await live.first(({ spaceMessages }) => spaceMessages.__typename === 'SpaceSnapshot')
    const seen = until('the viewer has the draft', () => textsFrom(live.seen).includes(text))
    parley.models.script(inTurn(breakingAfter('send_message', { text }, seen), ...generations))
    const { runs } = await parley.send(human, space.id, 'Go')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    const own = await messagesOf(parley, space.id, agent.id)
    await until('all messages have ended for the viewer', () => {
      const ended = live.seen.filter(({ spaceMessages }) => spaceMessages.__typename === 'MessageFinished')
      return ended.length === own.length
    })
    live.stop()
    const kinds = live.seen.map(({ spaceMessages }) => spaceMessages)
    return {
      run,
      agent,
      events: live.seen,
      said: own.map((message) => `${message.status} ${textsOf(message)}`),
      replaced: kinds.filter(({ __typename }) => __typename === 'MessageTextReplaced'),
      posted: kinds.filter((event) => event.__typename === 'MessagePosted' && event.message.sender.kind === 'AGENT'),
    }
  }

  test.each([
    ['goes on with the same text', 'Hello wor', 'Hello world', null],
    ['has the same text', 'Hello world', 'Hello world', null],
    ['differs', 'Hello wor', 'Hello Ada', { offset: 6, text: 'Ada' }],
    ['is shorter', 'Hello wor', 'Hello', { offset: 5, text: '' }],
    ['differs within a pair of surrogates', 'a𝄞b', 'a𝄢b', { offset: 1, text: '𝄢b' }],
  ])('is continued if the retry %s', async (_, draft, whole, replacement) => {
    const { run, events, said, replaced, posted } = await play(draft, [say(whole)], DONE)
    expect(run).toMatchObject({ status: 'COMPLETED' })
    expect(said).toEqual([`COMPLETE ${whole}`])
    expect(posted).toHaveLength(1)
    expect(textsFrom(events)).toEqual([whole])
    const [first] = replaced
    if (replacement === null) expect(replaced).toEqual([])
    else {
      const expected = { offset: replacement.offset, partId: `${first.messageId}:0`, partIndex: 0 }
      expect(first).toMatchObject({ ...expected, part: { id: `${first.messageId}:0` } })
      expect(replacement.text.startsWith(first.text)).toBe(true)
    }
  })

  test('is one message if every attempt is interrupted, and its run has one call', async () => {
    const { promise: never } = Promise.withResolvers<void>()
    const { human, space, agent } = await parley.room('Ada')
    parley.models.script(({ n }) => breakingAfter('send_message', { text: `half ${n}` }, Promise.race([never, null])))
    const { runs } = await parley.send(human, space.id, 'Go')
    expect(await parley.runWhen(runs[0]?.id ?? '')).toMatchObject({ status: 'FAILED' })
    expect(parley.models.requests).toHaveLength(3)
    const own = await messagesOf(parley, space.id, agent.id)
    expect(own.map((message) => `${message.status} ${textsOf(message)}`)).toEqual(['INTERRUPTED half 3'])
  })

  test.each<[string, ModelAction[][], string[]]>([
    [
      'calls another tool first',
      [[{ toolCall: 'get_my_runs' }], [say('Hello')], DONE],
      ['INTERRUPTED Hel', 'COMPLETE Hello'],
    ],
    ['calls no tool', [DONE], ['INTERRUPTED Hel']],
  ])('ends INTERRUPTED if the retry %s', async (_, generations, expected) => {
    const { run, said } = await play('Hel', ...generations)
    expect(run).toMatchObject({ status: 'COMPLETED' })
    expect(said).toEqual(expected)
  })

  test('is continued for viewers of the run: the deltas of its input are the input', async () => {
    const { run } = await play('Hello wor', [say('Hello world')], DONE)
    const live = (await parley.clientOf(parley.admin)).subscribe<Event, object>(RUN_EVENTS, { id: run.id })
    await live.ended
    const deltas = live.seen.flatMap(({ runEvents }) =>
      runEvents.__typename === 'RunToolInputDelta' ? [runEvents] : [],
    )
    const [call] = await callsOf(parley, run.id)
    expect(new Set(deltas.map(({ toolCallId }) => toolCallId))).toEqual(new Set([call?.id]))
    expect(deltas.map(({ delta }) => delta).join('')).toBe('{"text":"Hello world"}')
  })

  describe('with the tools of SPACE_TOOLS', () => {
    async function playIn(draftSpace: 'same' | 'other') {
      const room = await spaceToolsRoom(parley)
      const { human, space, agents } = room
      const [agent] = agents
      const other = await parley.space(human, [agent?.id ?? ''], { name: 'Other', routing: 'ADMIN' })
      const target = draftSpace === 'same' ? space.id : other.id
      const begun = until('the draft is stored', async () => (await messagesOf(parley, space.id, agent?.id ?? ''))[0])
      parley.models.script(
        inTurn(
          [sayIn(space.id, 'First')],
          breakingAfter('sendSpaceMessage', { spaceId: space.id, text: 'Hel' }, begun),
          [sayIn(target, 'Hello')],
          DONE,
        ),
      )
      const { runs } = await parley.send(human, space.id, 'Go')
      expect(await parley.runWhen(runs[0]?.id ?? '')).toMatchObject({ status: 'COMPLETED' })
      const texts = async (id: string) =>
        (await messagesOf(parley, id, agent?.id ?? '')).map((message) => `${message.status} ${textsOf(message)}`)
      return { here: await texts(space.id), there: await texts(other.id) }
    }

    test('is continued as a part of its message', async () => {
      expect(await playIn('same')).toEqual({ here: ['COMPLETE First,Hello'], there: [] })
    })

    test('ends INTERRUPTED if the retry writes to another space', async () => {
      expect(await playIn('other')).toEqual({ here: ['INTERRUPTED First,Hel'], there: ['COMPLETE Hello'] })
    })
  })
})
