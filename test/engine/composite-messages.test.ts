import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { ToolInput } from '../../src/agents/custom-tools.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { startFollower } from '../support/log-follower.ts'
import { forAgent, type ModelAction, steps } from '../support/model-server-script.ts'
import { hasPostgres } from '../support/postgres.ts'
import { callsOf, endedRun, gate, messagesOf, runsOf, sayIn, spaceToolsRoom, textsOf } from '../support/space-tools.ts'
import { until } from '../support/until.ts'

const CHART: ToolInput = {
  name: 'chart',
  description: 'Draws.',
  inputSchema: {
    type: 'object',
    properties: { bars: { type: 'array' } },
    required: ['bars'],
    additionalProperties: false,
  },
  execution: 'INTERNAL',
  visible: true,
}
const CONFIRM: ToolInput = {
  name: 'showConfirmation',
  description: 'Asks the members.',
  inputSchema: { type: 'object', properties: { question: { type: 'string' } }, required: ['question'] },
  execution: 'SPACE',
}

describe.skipIf(!hasPostgres)('composite messages', () => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack: 'postgres' })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  /** Plays Ada's steps for a message by the human, and waits until her run has ended. */
  async function play(room: Awaited<ReturnType<typeof spaceToolsRoom>>, ...generations: ModelAction[][]) {
    parley.models.script(forAgent('Ada', steps(...generations)))
    const { runs } = await parley.send(room.human, room.space.id, 'Go')
    return parley.runWhen(runs[0]?.id ?? '')
  }

  describe('their parts', () => {
    test('the texts of a run in one space, over all steps, are one message: one part each, in order', async () => {
      const room = await spaceToolsRoom(parley)
      const { space, agents } = room
      const run = await play(room, [sayIn(space.id, 'One'), sayIn(space.id, 'Two')], [sayIn(space.id, 'Three')])
      expect(run).toMatchObject({ status: 'COMPLETED' })
      const messages = await messagesOf(parley, space.id, agents[0]?.id ?? '')
      expect(messages.map(textsOf)).toEqual([['One', 'Two', 'Three']])
      expect(messages[0]).toMatchObject({ status: 'COMPLETE' })
      const outputs = (await callsOf(parley, run.id)).map(({ output }) => output)
      expect(outputs).toEqual(Array(3).fill({ messageId: messages[0]?.id, sent: true }))
    })

    test('texts in two spaces become a message in each; the message outside the trigger’s space carries its origin', async () => {
      const room = await spaceToolsRoom(parley)
      const { space, agents, human } = room
      const other = await parley.space(human, [agents[0]?.id ?? ''], { routing: 'ADMIN', name: 'Leadership' })
      await play(room, [sayIn(other.id, 'Weekly'), sayIn(space.id, 'Posted'), sayIn(other.id, 'Report')])
      const there = await messagesOf(parley, other.id, agents[0]?.id ?? '')
      const here = await messagesOf(parley, space.id, agents[0]?.id ?? '')
      expect(there.map(textsOf)).toEqual([['Weekly', 'Report']])
      expect(here.map(textsOf)).toEqual([['Posted']])
      expect(there[0]?.origin).toMatchObject({
        triggerType: 'SPACE_MESSAGE',
        triggerSpaceId: space.id,
        triggerMessage: 'Go',
      })
      expect(here[0]?.origin).toBeNull()
    })

    test('a mention finishes the message, and the next part begins another', async () => {
      const room = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'] })
      const { space, agents } = room
      parley.models.script(forAgent('Bea', () => [{ text: 'Seen.' }]))
      await play(room, [
        sayIn(space.id, 'First'),
        sayIn(space.id, 'Bea?', { mention: agents[1]?.id }),
        sayIn(space.id, 'Last'),
      ])
      const messages = await messagesOf(parley, space.id, agents[0]?.id ?? '')
      expect(messages.map(textsOf)).toEqual([['First', 'Bea?'], ['Last']])
      expect(messages.map(({ mentionedAgentId }) => mentionedAgentId)).toEqual([agents[1]?.id, null])
      const woken = await endedRun(parley, agents[1]?.id ?? '')
      expect(woken).toMatchObject({
        triggerMessageId: messages[0]?.id,
        triggerPayload: { type: 'space_message', senderType: 'agent', mentionReason: 'First\n\nBea?' },
      })
    })

    test('a wait finishes the message, and the next part begins another', async () => {
      const room = await spaceToolsRoom(parley)
      const { space, agents } = room
      const wait = { for: [{ type: 'any' }], timeout: 0 }
      await play(room, [sayIn(space.id, 'First'), sayIn(space.id, 'Anybody?', { wait }), sayIn(space.id, 'Nobody.')])
      const messages = await messagesOf(parley, space.id, agents[0]?.id ?? '')
      expect(messages.map(textsOf)).toEqual([['First', 'Anybody?'], ['Nobody.']])
    })

    test('a failed run leaves its finished messages COMPLETE, and the unfinished one INTERRUPTED', async () => {
      const room = await spaceToolsRoom(parley)
      const { space, agents, human } = room
      const other = await parley.space(human, [agents[0]?.id ?? ''], { routing: 'ADMIN' })
      const broken: ModelAction[] = [
        {
          ...sayIn(space.id, 'This will never be said'),
          chunks: [`{"spaceId":"${space.id}","text":"This wi`],
        } as ModelAction,
        { disconnect: true },
      ]
      const run = await play(room, [sayIn(other.id, 'Said there')], [sayIn(space.id, 'Said')], broken)
      expect(run).toMatchObject({ status: 'FAILED' })
      const here = await messagesOf(parley, space.id, agents[0]?.id ?? '')
      const there = await messagesOf(parley, other.id, agents[0]?.id ?? '')
      expect(there).toMatchObject([{ status: 'COMPLETE', parts: [{ text: 'Said there' }] }])
      expect(here).toMatchObject([{ status: 'INTERRUPTED', parts: [{ text: 'Said' }, { text: 'This wi' }] }])
    })
  })

  describe('while they are generated', () => {
    /** Returns the texts of a message's parts, as a reader assembles them from the deltas. */
    function assemble(entries: { event: { type: string } }[], messageId: string): string[] {
      const texts: string[] = []
      for (const { event } of entries) {
        const delta = event as unknown as {
          type: string
          messageId: string
          partIndex: number
          offset: number
          delta: string
        }
        if (delta.type !== 'MessageTextDelta' || delta.messageId !== messageId) continue
        const known = texts[delta.partIndex] ?? ''
        expect(delta.offset).toBeLessThanOrEqual(known.length)
        texts[delta.partIndex] = known + delta.delta.slice(known.length - delta.offset)
      }
      return texts
    }

    test('the text streams while the model writes it, as soon as the space is known', async () => {
      const { human, agents, space } = await spaceToolsRoom(parley)
      const hold = gate()
      const chunks = [`{"spaceId":"${space.id}","te`, 'xt":"Good mor', hold.promise, 'ning \\ud83c\\udf05!"}']
      parley.models.script(steps([{ toolCall: 'sendSpaceMessage', input: '', chunks } as ModelAction]))
      const follower = startFollower(parley.app.platform.log, `space:${space.id}`)
      await until('the message exists', () => follower.gaps() === 1)
      const { runs } = await parley.send(human, space.id, 'Go')
      const message = await until(
        'the text streams',
        async () => (await messagesOf(parley, space.id, agents[0]?.id ?? ''))[0],
      )
      await until(
        'the start of the text is delivered',
        () => assemble(follower.entries(), message.id)[0] === 'Good mor',
      )
      expect(message).toMatchObject({ status: 'STREAMING', parts: [] })
      hold.open()
      await parley.runWhen(runs[0]?.id ?? '')
      const whole = (await messagesOf(parley, space.id, agents[0]?.id ?? ''))[0]
      expect(textsOf(whole)).toEqual(['Good morning 🌅!'])
      await until('the end of the text is delivered', () =>
        follower.entries().some(({ event }) => event.type === 'MessageFinished'),
      )
      expect(assemble(follower.entries(), message.id)).toEqual(['Good morning 🌅!'])
      await follower.stop()
    })

    test('a text that is written before its space appears when its call is complete', async () => {
      const room = await spaceToolsRoom(parley)
      const input = `{"text":"Early bird","spaceId":"${room.space.id}"}`
      await play(room, [{ toolCall: 'sendSpaceMessage', input }])
      const [message] = await messagesOf(parley, room.space.id, room.agents[0]?.id ?? '')
      expect(textsOf(message)).toEqual(['Early bird'])
    })

    test('later parts stream into the same message, each from its own start', async () => {
      const { human, agents, space } = await spaceToolsRoom(parley)
      const hold = gate()
      const second = [`{"spaceId":"${space.id}","text":"and tw`, hold.promise, 'o"}']
      parley.models.script(
        steps([sayIn(space.id, 'one')], [{ toolCall: 'sendSpaceMessage', input: '', chunks: second } as ModelAction]),
      )
      const follower = startFollower(parley.app.platform.log, `space:${space.id}`)
      await until('the message exists', () => follower.gaps() === 1)
      const { runs } = await parley.send(human, space.id, 'Go')
      const message = await until(
        'the text streams',
        async () => (await messagesOf(parley, space.id, agents[0]?.id ?? ''))[0],
      )
      await until('both parts', () => assemble(follower.entries(), message.id).join('|') === 'one|and tw')
      expect(
        await parley.app.domain.reading.withDraftText(
          [...(await parley.app.domain.reading.getMany([message.id]))].flatMap((one) => one ?? []),
        ),
      ).toMatchObject([{ status: 'STREAMING', parts: [{ text: 'one' }, { text: 'and tw' }] }])
      hold.open()
      await parley.runWhen(runs[0]?.id ?? '')
      const events = await until('the end of the text is delivered', () => {
        const types = follower.entries().map(({ event }) => event.type)
        return types.includes('MessageFinished') && types
      })
      const count = (type: string) => events.filter((one) => one === type).length
      expect([count('MessagePosted'), count('MessagePartChanged'), count('MessageFinished')]).toEqual([2, 2, 1])
      await follower.stop()
    })

    test('stopping the run keeps the streamed text as INTERRUPTED', async () => {
      const { human, agents, space } = await spaceToolsRoom(parley)
      const chunks = [`{"spaceId":"${space.id}","text":"Half a sen`, new Promise(() => {})]
      parley.models.script(
        steps([sayIn(space.id, 'Whole')], [{ toolCall: 'sendSpaceMessage', input: '', chunks } as ModelAction]),
      )
      const follower = startFollower(parley.app.platform.log, `space:${space.id}`)
      await until('the follower is active', () => follower.gaps() === 1)
      const { runs } = await parley.send(human, space.id, 'Go')
      const [id] = runs.map((run) => run.id)
      await until('the text streams', () =>
        follower.entries().some(({ event }) => (event as { partIndex?: number }).partIndex === 1),
      )
      await parley.app.domain.control.stopRun(human, { runId: id ?? '', cascade: false })
      const [message] = await messagesOf(parley, space.id, agents[0]?.id ?? '')
      expect(message).toMatchObject({ status: 'INTERRUPTED', parts: [{ text: 'Whole' }, { text: 'Half a sen' }] })
      await follower.stop()
    })
  })

  describe('refused calls', () => {
    test.each([
      ['an agent that is not a member', 'NOT_A_MEMBER', { spaceId: 'other' }],
      ['a mention of the agent itself', 'SELF_MENTION', { mention: 'self' }],
      ['a mention of a human', 'BAD_INPUT', { mention: 'human' }],
      ['a mention of an agent that is not a member', 'BAD_INPUT', { mention: 'stranger' }],
      ['a mention of an unknown id', 'BAD_INPUT', { mention: 'agt_nobody' }],
      ['a text of white space', 'BAD_INPUT', { text: ' \n ' }],
      ['a text that is too long', 'BAD_INPUT', { text: 'x'.repeat(32_001) }],
      ['a wait for an entity that is not named', 'BAD_INPUT', { wait: { for: [{ type: 'entity' }] } }],
      ['a wait without conditions', 'BAD_INPUT', { wait: { for: [] } }],
      ['a wait for something unknown', 'BAD_INPUT', { wait: { for: [{ type: 'robot' }] } }],
    ])('%s: the model gets %s, and no message is COMPLETE', async (_, code, fault) => {
      const room = await spaceToolsRoom(parley)
      const { space, agents, human } = room
      const stranger = await parley.agent('Stranger', { toolset: 'SPACE_TOOLS' })
      const other = await parley.space(human, [])
      const ids: Record<string, string> = {
        other: other.id,
        self: agents[0]?.id ?? '',
        human: human.id,
        stranger: stranger.id,
      }
      const named = Object.fromEntries(
        Object.entries(fault).map(([name, value]) => [name, typeof value === 'string' ? (ids[value] ?? value) : value]),
      )
      // The invalid field comes first, because a text streams only if the fields before it are valid.
      const input = { ...named, spaceId: space.id, text: 'Hello', ...named }
      const run = await play(room, [{ toolCall: 'sendSpaceMessage', input }], [{ text: 'Well.' }])
      expect(run).toMatchObject({ status: 'COMPLETED' })
      const [call] = await callsOf(parley, run.id)
      expect(call).toMatchObject({ status: 'FAILED', output: { error: { code } } })
      const posted = [...(await parley.messages(space.id)), ...(await parley.messages(other.id))]
      const kept = posted.filter(({ senderId }) => senderId === agents[0]?.id)
      expect(kept).toEqual([])
    })

    test('a call whose input is not JSON: the streamed text stays INTERRUPTED, and the run continues', async () => {
      const room = await spaceToolsRoom(parley)
      const { space, agents } = room
      const broken = `{"spaceId":"${space.id}","text":"Hel`
      const run = await play(room, [{ toolCall: 'sendSpaceMessage', input: broken }], [sayIn(space.id, 'Hello')])
      expect(run).toMatchObject({ status: 'COMPLETED' })
      expect((await callsOf(parley, run.id)).map(({ status }) => status)).toEqual(['FAILED', 'DONE'])
      const messages = await messagesOf(parley, space.id, agents[0]?.id ?? '')
      expect(messages.map(({ status }) => status)).toEqual(['INTERRUPTED', 'COMPLETE'])
      expect(messages.map(textsOf)).toEqual([['Hel'], ['Hello']])
    })

    test('a mention that is refused after its text has streamed: the text stays INTERRUPTED, nobody wakes', async () => {
      const room = await spaceToolsRoom(parley)
      const { space, agents, human } = room
      const run = await play(
        room,
        [sayIn(space.id, 'Whole')],
        [sayIn(space.id, 'Hm', { mention: human.id })],
        [sayIn(space.id, 'Sorry')],
      )
      expect((await callsOf(parley, run.id)).map(({ status }) => status)).toEqual(['DONE', 'FAILED', 'DONE'])
      const messages = await messagesOf(parley, space.id, agents[0]?.id ?? '')
      expect(messages.map(textsOf)).toEqual([['Whole', 'Hm'], ['Sorry']])
      expect(messages.map(({ status }) => status)).toEqual(['INTERRUPTED', 'COMPLETE'])
    })
  })

  describe('display tools', () => {
    test('the model gets targetSpaceId and mention with visible tools only', async () => {
      const hidden: ToolInput = { ...CHART, name: 'look_up', visible: false }
      const room = await spaceToolsRoom(parley, { input: { tools: [CHART, hidden] } })
      await play(room, [{ text: 'Hm.' }])
      const request = await parley.models.request(() => true)
      const offered = request.body.tools as {
        function: { name: string; parameters: { properties: object; required: string[] } }
      }[]
      const schemaOf = (name: string) => offered.find((tool) => tool.function.name === name)?.function.parameters
      expect(Object.keys(schemaOf('chart')?.properties ?? {})).toEqual(['bars', 'targetSpaceId', 'mention'])
      expect(schemaOf('chart')?.required).toEqual(['bars'])
      expect(Object.keys(schemaOf('look_up')?.properties ?? {})).toEqual(['bars'])
    })

    test('a call with targetSpaceId is a part between the texts; the tool and readers get its input without these fields', async () => {
      const room = await spaceToolsRoom(parley, { input: { tools: [CHART] } })
      const { space, agents } = room
      const run = await play(
        room,
        [sayIn(space.id, 'Look:'), { toolCall: 'chart', input: { targetSpaceId: space.id, bars: [1, 2] } }],
        [sayIn(space.id, 'Nice?')],
      )
      const calls = await callsOf(parley, run.id)
      const [message, ...others] = await messagesOf(parley, space.id, agents[0]?.id ?? '')
      expect(others).toEqual([])
      expect(textsOf(message)).toEqual(['Look:', calls[1]?.id, 'Nice?'])
      expect(calls[1]).toMatchObject({
        status: 'DONE',
        input: { bars: [1, 2] },
        output: { bars: [1, 2] },
        messageId: message?.id,
        spaceId: space.id,
      })
    })

    test('a call without targetSpaceId appears nowhere, and its mention is ignored', async () => {
      const room = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'], input: { tools: [CHART] } })
      const { space, agents } = room
      const run = await play(room, [{ toolCall: 'chart', input: { bars: [3], mention: agents[1]?.id } }])
      expect(await callsOf(parley, run.id)).toMatchObject([
        { status: 'DONE', input: { bars: [3] }, output: { bars: [3] }, messageId: null, spaceId: null },
      ])
      expect(await messagesOf(parley, space.id, agents[0]?.id ?? '')).toEqual([])
      expect(await runsOf(parley, agents[1]?.id ?? '')).toEqual([])
    })

    test('a mention on a display tool wakes the agent after the part is posted, and completes the message', async () => {
      const room = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'], input: { tools: [CHART] } })
      const { space, agents } = room
      parley.models.script(forAgent('Bea', () => [{ text: 'Seen.' }]))
      const chart = { toolCall: 'chart', input: { bars: [1], targetSpaceId: space.id, mention: agents[1]?.id } }
      const run = await play(room, [sayIn(space.id, 'Bea, look:'), chart, sayIn(space.id, 'And now?')])
      const [, call] = await callsOf(parley, run.id)
      const messages = await messagesOf(parley, space.id, agents[0]?.id ?? '')
      expect(messages.map(textsOf)).toEqual([['Bea, look:', call?.id], ['And now?']])
      expect(messages[0]).toMatchObject({ status: 'COMPLETE', mentionedAgentId: agents[1]?.id })
      const woken = await endedRun(parley, agents[1]?.id ?? '')
      expect(woken).toMatchObject({ triggerMessageId: messages[0]?.id, triggerSenderId: agents[0]?.id })
    })

    test('a display tool that fails stays as a FAILED part, and its mention does not wake any agent', async () => {
      const room = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'], input: { tools: [CHART] } })
      const { space, agents } = room
      const chart = { toolCall: 'chart', input: { targetSpaceId: space.id, mention: agents[1]?.id } }
      const run = await play(room, [chart], [sayIn(space.id, 'Oh.')])
      const [call] = await callsOf(parley, run.id)
      expect(call).toMatchObject({ status: 'FAILED', output: { error: { code: 'BAD_INPUT' } } })
      const messages = await messagesOf(parley, space.id, agents[0]?.id ?? '')
      expect(messages.map(textsOf)).toEqual([[call?.id, 'Oh.']])
      expect(await runsOf(parley, agents[1]?.id ?? '')).toEqual([])
    })

    test.each([
      ['a foreign space', 'NOT_A_MEMBER'],
      ['a mention of a human', 'BAD_INPUT'],
    ])('%s is refused before anything is visible', async (what, code) => {
      const room = await spaceToolsRoom(parley, { input: { tools: [CHART] } })
      const { space, agents, human } = room
      const other = await parley.space(human, [])
      const placement =
        what === 'a foreign space' ? { targetSpaceId: other.id } : { targetSpaceId: space.id, mention: human.id }
      const run = await play(room, [{ toolCall: 'chart', input: { bars: [], ...placement } }])
      expect(await callsOf(parley, run.id)).toMatchObject([{ status: 'FAILED', output: { error: { code } } }])
      expect(await messagesOf(parley, space.id, agents[0]?.id ?? '')).toEqual([])
    })

    test('a pause finishes the message as REQUIRES_ACTION, with all its waiting calls; their results complete it', async () => {
      const room = await spaceToolsRoom(parley, { input: { tools: [CONFIRM] } })
      const { space, agents, human } = room
      const ask = (question: string) => ({ toolCall: 'showConfirmation', input: { targetSpaceId: space.id, question } })
      const generations = [
        [sayIn(space.id, 'Please:'), ask('A?'), ask('B?'), sayIn(space.id, 'Thanks')],
        [sayIn(space.id, 'Done')],
      ]
      parley.models.script(steps(...generations))
      const { runs } = await parley.send(human, space.id, 'Go')
      const run = await parley.runWhen(runs[0]?.id ?? '', 'WAITING_TOOL')
      const calls = await callsOf(parley, run.id)
      const [waiting] = await messagesOf(parley, space.id, agents[0]?.id ?? '')
      expect(waiting).toMatchObject({ status: 'REQUIRES_ACTION' })
      expect(textsOf(waiting)).toEqual(['Please:', calls[1]?.id, calls[2]?.id, 'Thanks'])
      for (const call of [calls[2], calls[1]]) {
        await parley.app.domain.control.submitToolResult(human, { toolCallId: call?.id ?? '', result: 'yes' })
      }
      expect(await parley.runWhen(run.id)).toMatchObject({ status: 'COMPLETED' })
      const messages = await messagesOf(parley, space.id, agents[0]?.id ?? '')
      expect(messages.map(({ status }) => status)).toEqual(['COMPLETE', 'COMPLETE'])
      expect(textsOf(messages[1])).toEqual(['Done'])
    })

    test('nobody could answer a SPACE tool without targetSpaceId: the model gets an error to name a space', async () => {
      const room = await spaceToolsRoom(parley, { input: { tools: [CONFIRM] } })
      const run = await play(room, [{ toolCall: 'showConfirmation', input: { question: 'A?' } }])
      expect(await callsOf(parley, run.id)).toMatchObject([
        { status: 'FAILED', output: { error: { code: 'NO_TARGET_SPACE' } } },
      ])
    })

    test('a SPACE tool with a mention: the agent wakes once it is shown, before any result, and later parts form another message', async () => {
      const room = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'], input: { tools: [CONFIRM] } })
      const { space, agents, human } = room
      parley.models.script(forAgent('Bea', () => [{ text: 'Seen.' }]))
      const ask = { targetSpaceId: space.id, question: 'A?', mention: agents[1]?.id }
      parley.models.script(
        forAgent('Ada', steps([{ toolCall: 'showConfirmation', input: ask }, sayIn(space.id, 'Well?')])),
      )
      const { runs } = await parley.send(human, space.id, 'Go')
      const run = await parley.runWhen(runs[0]?.id ?? '', 'WAITING_TOOL')
      const [call] = await callsOf(parley, run.id)
      const before = await messagesOf(parley, space.id, agents[0]?.id ?? '')
      expect(before.map(({ status }) => status)).toEqual(['REQUIRES_ACTION', 'COMPLETE'])
      expect(await endedRun(parley, agents[1]?.id ?? '')).toMatchObject({ triggerMessageId: before[0]?.id })
      await parley.app.domain.control.submitToolResult(human, { toolCallId: call?.id ?? '', result: true })
      expect(await parley.runWhen(run.id)).toMatchObject({ status: 'COMPLETED' })
    })
  })
})
