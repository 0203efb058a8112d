import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS, startApplication, type TestApplication } from '../../support/application.ts'
import { forAgent, type ModelAction, steps } from '../../support/model-server-script.ts'
import { callsOf, gate, messagesOf, spaceToolsRoom } from '../../support/space-tools.ts'
import { until } from '../../support/until.ts'

describe.each(RULE_STACKS)('readSpaceMessages, on the %s stack', (stack) => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  /** Returns the result of the tool when Ada, woken by a message elsewhere, reads the room. */
  async function read(room: Awaited<ReturnType<typeof spaceToolsRoom>>, input: object) {
    const { human, agents, space } = room
    const elsewhere = await parley.space(human, [agents[0]?.id ?? ''], { routing: 'ADMIN' })
    const call: ModelAction = { toolCall: 'readSpaceMessages', input: { spaceId: space.id, ...input } }
    parley.models.script(forAgent('Ada', steps([call])))
    const { runs } = await parley.send(human, elsewhere.id, 'Read')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    return (await callsOf(parley, run.id))[0]
  }

  /** Creates a room with this many messages by the human. */
  async function talkative(count: number) {
    const room = await spaceToolsRoom(parley)
    await parley.app.domain.members.remove(parley.admin, { spaceId: room.space.id, entityId: room.agents[0]?.id ?? '' })
    for (let n = 1; n <= count; n++) await parley.send(room.human, room.space.id, `message ${n}`)
    await parley.app.domain.members.add(parley.admin, { spaceId: room.space.id, entityId: room.agents[0]?.id ?? '' })
    return room
  }

  test('returns a bare array of { sender, type, text, timestamp }, oldest first, with names and kinds', async () => {
    const room = await spaceToolsRoom(parley)
    const { human, agents, space } = room
    parley.models.script(
      forAgent('Ada', steps([{ toolCall: 'sendSpaceMessage', input: { spaceId: space.id, text: 'Hello Husam' } }])),
    )
    const { runs } = await parley.send(human, space.id, 'Hello Ada')
    await parley.runWhen(runs[0]?.id ?? '')
    const call = await read(room, {})
    const [asked, answered] = await parley.messages(space.id)
    expect(call?.output).toEqual([
      { sender: 'Husam', type: 'human', text: 'Hello Ada', timestamp: asked?.createdAt.toISOString() },
      { sender: 'Ada', type: 'agent', text: 'Hello Husam', timestamp: answered?.createdAt.toISOString() },
    ])
    expect(answered?.senderId).toBe(agents[0]?.id)
  })

  test('reads the last 15 messages by default, as many as requested, at most 50, and at least one', async () => {
    const room = await talkative(52)
    for (const [input, count] of [
      [{}, 15],
      [{ limit: 3 }, 3],
      [{ limit: 500 }, 50],
      [{ limit: 0 }, 1],
    ] as const) {
      const output = (await read(room, input))?.output as { text: string }[] | undefined
      const expected = Array.from({ length: count }, (_, index) => `message ${53 - count + index}`)
      expect(output?.map(({ text }) => text)).toEqual(expected)
    }
  })

  test('refuses a space that the agent does not belong to', async () => {
    const room = await spaceToolsRoom(parley)
    const foreign = await parley.space(room.human, [])
    const call = await read(room, { spaceId: foreign.id })
    expect(call).toMatchObject({ status: 'FAILED', output: { error: { code: 'NOT_A_MEMBER' } } })
  })

  test('returns the complete parts of an unfinished message, and not the part being written', async () => {
    const room = await spaceToolsRoom(parley, {
      names: ['Ada', 'Bea'],
      space: { adminAgentId: null, routing: 'BROADCAST' },
    })
    const { human, agents, space } = room
    const hold = gate()
    const chunks = [`{"spaceId":"${space.id}","text":"Half`, hold.promise, ' and half"}']
    const saying: ModelAction = { toolCall: 'sendSpaceMessage', input: { spaceId: space.id, text: 'Whole.' } }
    parley.models.script(forAgent('Ada', () => [{ text: 'Nothing.' }]))
    parley.models.script(forAgent('Bea', steps([saying], [{ toolCall: 'sendSpaceMessage', input: '', chunks }])))
    await parley.send(human, space.id, 'Begin')
    await until('the second part streams', async () => {
      const [message] = await messagesOf(parley, space.id, agents[1]?.id ?? '')
      const draft = (await parley.app.platform.log.drafts(`space:${space.id}`, [message?.id ?? ''])).get(
        message?.id ?? '',
      )
      return draft?.get(1) === 'Half'
    })
    expect((await read(room, {}))?.output).toMatchObject([{ text: 'Begin' }, { sender: 'Bea', text: 'Whole.' }])
    hold.open()
    await until(
      'the part is complete',
      async () => (await messagesOf(parley, space.id, agents[1]?.id ?? ''))[0]?.routedAt,
    )
  })
})
