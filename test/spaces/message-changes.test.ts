import { describe, expect, test } from 'vitest'
import { exportSpace } from '../../src/operation/moving.ts'
import { RULE_STACKS } from '../support/application.ts'
import type { TestServer } from '../support/served.ts'
import { type Person, playScenarios, promptOf, type Read, resultsIn, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const EDIT = `mutation ($input: EditMessageInput!) { editMessage(input: $input) { __typename
  ... on EditMessagePayload { editedMessage { id seq text editedAt versions { text editedAt } staleRuns { id } } runs { id agent { id } } }
  ... on Error { code message } } }`
const DELETE = `mutation ($input: DeleteMessageInput!) { deleteMessage(input: $input) { __typename
  ... on DeleteMessagePayload { deletedMessage { id seq text parts { id } versions { text } reactions { emoji } deletedAt editedAt mentions { id } } }
  ... on Error { code message } } }`
const REACT = `mutation ($input: ReactInput!) { react(input: $input) { __typename
  ... on ReactPayload { message { id reactions { emoji count mine entities { id } } } } ... on Error { code } } }`
const MESSAGE = `query ($id: ID!) { message(id: $id) { id seq text editedAt deletedAt versions { text editedAt }
  staleRuns { id } reactions { emoji count mine entities { id } } outcomes { agent { id } kind reason } } }`
const EVENTS = `subscription ($spaceId: ID!, $after: StreamCursor) { spaceMessages(spaceId: $spaceId, after: $after) { __typename cursor
  ... on SpaceSnapshot { space { messages { edges { node { id text } } } } }
  ... on MessagePosted { message { id text } } ... on MessageFinished { message { id text } }
  ... on MessageUpdated { message { id text deletedAt editedAt reactions { emoji count } } }
  ... on MessageTextDelta { messageId delta } ... on MessageTextReplaced { messageId text } } }`
const STEPS = `query ($id: ID!) { run(id: $id) { triggerSummary summary toolCalls { input output } internals { steps { edges { node {
  instructions messages response } } } } } }`

const CANARY = 'The code word is "canary-4711"\nand nobody else may know it.'
const WORD = 'canary-4711'

describe.each(RULE_STACKS)('messages that change, on the %s stack', (stack) => {
  let parley: TestServer
  let stage: Stage
  playScenarios(stack, (opened) => {
    parley = opened.parley
    stage = opened.stage
  })

  const edit = (person: Pick<Person, 'client'>, messageId: string, text: string, more = {}) =>
    stage.ask(person.client, EDIT, { input: { messageId, text, ...more } })
  const remove = (client: Person['client'], messageId: string) => stage.ask(client, DELETE, { input: { messageId } })
  const react = ({ client }: Person, messageId: string, emoji: string, on = true) =>
    stage.ask(client, REACT, { input: { messageId, emoji, on } })
  const see = (client: Person['client'], id: string) => stage.ask(client, MESSAGE, { id })
  const post = async (person: Person, space: Read, text: string) =>
    (await stage.say(person, space, text)).sentMessage.id as string

  describe('edits', () => {
    test('keep earlier texts, newest first, at most 20, and reach subscribers', async () => {
      const [ann, bob] = [await stage.person('Ann'), await stage.person('Bob')]
      const space = await stage.space('Desk', [ann, bob], { routing: 'BROADCAST' })
      const id = await post(ann, space, 'Text 0')
      const events = bob.client.subscribe<Read, object>(EVENTS, { spaceId: space.id })
      await until('the snapshot', () => events.seen.length > 0)
      const first = await edit(ann, id, 'Text 1')
      expect(first).toMatchObject({
        __typename: 'EditMessagePayload',
        editedMessage: { id, seq: 1, text: 'Text 1', versions: [{ text: 'Text 0' }] },
        runs: [],
      })
      expect(first.editedMessage.versions[0].editedAt).toBe(first.editedMessage.editedAt)
      await until('the change', () =>
        events.seen.some(
          ({ spaceMessages: event }) => event.__typename === 'MessageUpdated' && event.message.text === 'Text 1',
        ),
      )
      for (let n = 2; n <= 23; n += 1) await edit(ann, id, `Text ${n}`)
      const { text, versions } = await see(bob.client, id)
      expect(text).toBe('Text 23')
      expect(versions.map((version: Read) => version.text)).toEqual(
        Array.from({ length: 20 }, (_, index) => `Text ${22 - index}`),
      )
      const same = await edit(ann, id, 'Text 23')
      expect(same.editedMessage.versions[0].text).toBe('Text 22')
      expect(await stage.messagesIn(space)).toHaveLength(1)
    })

    test('can be edited by the sender only, and only while visible and with a text', async () => {
      const [ann, bob, eve] = [await stage.person('Ann'), await stage.person('Bob'), await stage.person('Eve')]
      const space = await stage.space('Desk', [ann, bob], { routing: 'BROADCAST' })
      const id = await post(ann, space, 'Mine')
      expect(await edit(bob, id, 'Yours')).toMatchObject({ code: 'FORBIDDEN' })
      expect(await edit({ client: stage.admin }, id, 'Theirs')).toMatchObject({ code: 'FORBIDDEN' })
      expect(await edit(eve, id, 'Hers')).toMatchObject({ code: 'NOT_FOUND' })
      for (const unknown of ['msg_00000000000070008000000000000000', 'nonsense', '\0', space.id])
        expect(await edit(ann, unknown, 'None')).toMatchObject({ code: 'NOT_FOUND' })
      for (const text of ['', ' \n', 'x'.repeat(32_001), '\0'])
        expect(await edit(ann, id, text)).toMatchObject({ code: 'BAD_INPUT' })
      await remove(ann.client, id)
      expect(await edit(ann, id, 'Again')).toMatchObject({ code: 'CONFLICT' })
      expect((await see(bob.client, id)).text).toBe('')
    })

    test('simultaneous edits by the same person all become versions', async () => {
      const ann = await stage.person('Ann')
      const space = await stage.space('Desk', [ann], { routing: 'BROADCAST' })
      const id = await post(ann, space, 'a')
      const texts = ['b', 'c', 'd', 'e', 'f']
      await Promise.all(texts.map((text) => edit(ann, id, text)))
      const { text, versions } = await see(ann.client, id)
      expect([text, ...versions.map((version: Read) => version.text)].toSorted()).toEqual(['a', ...texts])
    })

    test('wake no agent, list the runs that read the older text, and on request restart those that answered', async () => {
      const ann = await stage.person('Ann')
      const [speaker, silent] = [await stage.bot('Speaker'), await stage.bot('Silent')]
      const space = await stage.space('Desk', [ann, speaker, silent], { routing: 'BROADCAST' })
      parley.models.script(({ instructions, step }) =>
        instructions.includes('You are Speaker') && step === 0
          ? [{ toolCall: 'sendSpaceMessage', input: { spaceId: space.id, text: 'I answer.' } }]
          : [{ text: 'Enough.' }],
      )
      const id = await post(ann, space, 'How far is the moon?')
      const [before] = await stage.endedRuns(speaker, 1)
      await stage.endedRuns(silent, 2)
      const edited = await edit(ann, id, 'How far is the sun?')
      expect(edited.runs).toEqual([])
      expect(edited.editedMessage.staleRuns.map((run: Read) => run.id)).toContain(before.id)

      const again = await edit(ann, id, 'How far is Mars?', { retryRuns: true })
      expect(again.runs).toMatchObject([{ agent: { id: speaker.id } }])
      const [, run] = await stage.endedRuns(speaker, 2)
      expect(run).toMatchObject({ id: again.runs[0].id, triggerMessage: { id } })
      expect((await see(ann.client, id)).staleRuns.map((one: Read) => one.id)).not.toContain(run.id)
      const prompts = parley.models.requests.map(promptOf)
      expect(prompts.some((prompt) => prompt.includes('How far is Mars?') && !prompt.includes('moon'))).toBe(true)
      expect((await see(ann.client, id)).outcomes).toContainEqual({
        agent: { id: speaker.id },
        kind: 'RUN',
        reason: null,
      })
    })

    test('that are repeated after a lost answer return the runs that the first request has started', async () => {
      const [ann, ada] = [await stage.person('Ann'), await stage.bot('Ada')]
      const space = await stage.space('Desk', [ann, ada], { routing: 'BROADCAST' })
      parley.models.script(({ step }) =>
        step === 0
          ? [{ toolCall: 'sendSpaceMessage', input: { spaceId: space.id, text: 'Yes.' } }]
          : [{ text: 'Enough.' }],
      )
      const id = await post(ann, space, 'Is it far?')
      await stage.endedRuns(ada, 1)
      const [first, again] = [
        await edit(ann, id, 'Is it near?', { retryRuns: true }),
        await edit(ann, id, 'Is it near?', { retryRuns: true }),
      ]
      expect(first.runs).toMatchObject([{ agent: { id: ada.id } }])
      expect(again.runs).toEqual(first.runs)
      await stage.endedRuns(ada, 2)
      const [question] = await stage.messagesIn(space)
      expect(question.outcomes).toMatchObject([{ agent: { id: ada.id }, kind: 'RUN', run: { id: first.runs[0].id } }])
    })

    test('reach a persistent agent that had read the message without waking it, and another one only as the new text', async () => {
      const ann = await stage.person('Ann')
      const mind = await stage.bot('Mind', { mind: 'PERSISTENT', toolset: 'ACTIVE_SPACE' })
      const space = await stage.space('Desk', [ann, mind], { routing: 'BROADCAST' })
      parley.models.script(() => [{ text: 'I keep that in mind.' }])
      const id = await post(ann, space, 'The meeting is at nine.')
      await stage.endedRuns(mind, 1)
      await edit(ann, id, 'The meeting is at ten.')
      await edit(ann, id, 'The meeting is at eleven.')
      expect(await stage.runsOf(mind)).toHaveLength(1)
      await post(ann, space, 'See you.')
      await stage.endedRuns(mind, 2)
      const inbox = parley.models.requests.at(-1)?.messages.findLast(({ role }) => role === 'user')?.text ?? ''
      expect(inbox).toContain('INBOX (2 events')
      expect(inbox).toMatch(/- \[EDITED\] \[Desk \(id: spc_[0-9a-f]+\)\] Ann \(human\): "The meeting is at eleven\."/)
      expect(inbox).not.toContain('at ten')
    })
  })

  describe('deletion', () => {
    test('deleted messages leave only their number: no snapshot, replay, version, prompt, journal or export has the text', async () => {
      const [ann, bob] = [await stage.person('Ann'), await stage.person('Bob')]
      const [agent, mind] = [
        await stage.bot('Agent', { toolset: 'ACTIVE_SPACE' }),
        await stage.bot('Mind', { mind: 'PERSISTENT', toolset: 'ACTIVE_SPACE' }),
      ]
      const space = await stage.space('Desk', [ann, bob, agent, mind], { routing: 'BROADCAST' })
      const events = bob.client.subscribe<Read, object>(EVENTS, { spaceId: space.id })
      await until('the snapshot', () => events.seen.length > 0)
      const start = events.seen[0].spaceMessages.cursor
      parley.models.script(({ step, messages }) => {
        const isAsked = messages.some(({ text }) => text.includes(WORD))
        if (!isAsked || step > 0) return [{ text: 'Done.' }]
        return [
          { toolCall: 'enter_space', input: { spaceId: space.id } },
          { text: `They said: ${JSON.stringify(CANARY)}` },
        ]
      })
      const id = await post(ann, space, 'Before')
      for (const one of [agent, mind]) await stage.endedRuns(one, 1)
      await edit(ann, id, CANARY)
      await edit(ann, id, `${CANARY} Again.`)
      await react(bob, id, '👍')
      const asked = await post(ann, space, 'What was the code word?')
      for (const one of [agent, mind]) await stage.endedRuns(one, 2)
      expect(parley.models.requests.some(({ messages }) => messages.some(({ text }) => text.includes(WORD)))).toBe(true)

      const deleted = await remove(ann.client, id)
      expect(deleted.deletedMessage).toEqual({
        id,
        seq: 1,
        text: '',
        parts: [],
        versions: [],
        reactions: [],
        editedAt: null,
        mentions: [],
        deletedAt: expect.any(String),
      })
      expect(await remove(ann.client, id)).toMatchObject({ code: 'CONFLICT' })

      await until('the live subscriber', () => events.seen.at(-1)?.spaceMessages.message?.deletedAt != null)
      const resumed = bob.client.subscribe<Read, object>(EVENTS, { spaceId: space.id, after: start })
      await until('the resumed one', () => resumed.seen.length > 0)
      expect(resumed.seen[0].spaceMessages.__typename).toBe('SpaceSnapshot')
      expect(JSON.stringify(resumed.seen)).not.toContain(WORD)

      const read = [await stage.messagesIn(space), await see(ann.client, id), await see(bob.client, asked)]
      for (const one of [agent, mind])
        for (const run of await stage.runsOf(one)) read.push(run, await stage.ask(stage.admin, STEPS, { id: run.id }))
      const mindRead = await stage.ask(
        stage.admin,
        'query ($id: ID!) { agent(id: $id) { internals { consciousness { messages } inbox { edges { node { payload } } } } } }',
        { id: mind.id },
      )
      expect(JSON.stringify([read, mindRead])).not.toContain(WORD)

      const lines: string[] = []
      for await (const line of exportSpace(parley.app.platform, space.id)) lines.push(line)
      expect(lines.join('\n')).not.toContain(WORD)
      expect(lines.join('\n')).toContain('"deletedAt":"')

      parley.models.requests.length = 0
      await post(ann, space, 'And now?')
      await until('both were asked', () => parley.models.requests.length >= 2)
      for (const one of [agent, mind]) await stage.endedRuns(one, 3)
      const prompts = JSON.stringify(parley.models.requests.map(({ messages }) => messages))
      expect(prompts).not.toContain(WORD)
      expect(prompts).toContain('[DELETED]')
      const left = await parley.app.platform.db.prisma.messageDeletion.count()
      expect(left).toBe(0)
    })

    test('remove the deltas of a streamed message from replays', async () => {
      const ann = await stage.person('Ann')
      const agent = await stage.bot('Writer')
      const space = await stage.space('Desk', [ann, agent], { routing: 'BROADCAST' })
      const events = ann.client.subscribe<Read, object>(EVENTS, { spaceId: space.id })
      await until('the snapshot', () => events.seen.length > 0)
      const start = events.seen[0].spaceMessages.cursor
      parley.models.script(({ step }) =>
        step === 0
          ? [{ toolCall: 'sendSpaceMessage', input: { spaceId: space.id, text: CANARY } }]
          : [{ text: 'Done.' }],
      )
      await post(ann, space, 'Write it down.')
      const [run] = await stage.endedRuns(agent, 1)
      const written = (await stage.messagesIn(space)).find(({ sender }) => sender.id === agent.id)
      expect(written.text).toBe(CANARY)
      expect((await remove(ann.client, written.id)).code).toBe('FORBIDDEN')
      expect(await remove(stage.admin, written.id)).toMatchObject({ __typename: 'DeleteMessagePayload' })
      const resumed = ann.client.subscribe<Read, object>(EVENTS, { spaceId: space.id, after: start })
      await until('the resumed one', () => resumed.seen.length > 0)
      const journal = await stage.ask(stage.admin, STEPS, { id: run.id })
      const replay = stage.admin.subscribe<Read, object>(
        `subscription ($runId: ID!) { runEvents(runId: $runId) { __typename ... on RunToolInputDelta { delta } ... on RunToolCalled { toolCall { input } } } }`,
        { runId: run.id },
      )
      await until('the replay', () => replay.seen.some(({ runEvents }) => runEvents.__typename === 'RunCompleted'))
      expect(JSON.stringify([resumed.seen, journal, replay.seen])).not.toContain(WORD)
    })

    test('during a run remove the text from its later prompts, and from its journal once it has ended', async () => {
      const ann = await stage.person('Ann')
      const agent = await stage.bot('Busy')
      const space = await stage.space('Desk', [ann, agent], { routing: 'BROADCAST' })
      let release = () => {}
      const gate = new Promise<void>((resolve) => {
        release = resolve
      })
      parley.models.script(({ step }) =>
        step === 0
          ? [{ gate }, { toolCall: 'setMemories', input: { memories: [{ key: 'said', value: CANARY }] } }]
          : [{ text: 'Done.' }],
      )
      const id = await post(ann, space, CANARY)
      await until('the first prompt', () => parley.models.requests.length === 1)
      await remove(ann.client, id)
      release()
      const [run] = await stage.endedRuns(agent, 1)
      expect(parley.models.requests).toHaveLength(2)
      expect(JSON.stringify(parley.models.requests[1]?.messages.filter(({ role }) => role === 'user'))).not.toContain(
        WORD,
      )
      await parley.app.domain.deletion.sweep()
      expect(JSON.stringify(await stage.ask(stage.admin, STEPS, { id: run.id }))).not.toContain(WORD)
      const notes = await parley.app.platform.db.prisma.memory.findMany({ where: { agentId: agent.id } })
      expect(JSON.stringify(notes)).not.toContain(WORD)
    })
  })

  describe('reactions', () => {
    test('count people and agents, mark the viewer’s own, and wake no agent', async () => {
      const [ann, bob, eve] = [await stage.person('Ann'), await stage.person('Bob'), await stage.person('Eve')]
      const agent = await stage.bot('Agent')
      const space = await stage.space('Desk', [ann, bob, agent], { routing: 'BROADCAST' })
      const id = await post(ann, space, 'Lunch?')
      await stage.endedRuns(agent, 1)
      await react(ann, id, '👍')
      await react(bob, id, '👍')
      const { message } = await react(bob, id, '👩‍👩‍👧')
      expect(message.reactions).toEqual([
        { emoji: '👍', count: 2, mine: true, entities: [{ id: ann.id }, { id: bob.id }] },
        { emoji: '👩‍👩‍👧', count: 1, mine: true, entities: [{ id: bob.id }] },
      ])
      expect((await see(ann.client, id)).reactions[1]).toMatchObject({ mine: false })
      await react(bob, id, '👍')
      const { message: without } = await react(ann, id, '👍', false)
      expect(without.reactions[0]).toEqual({ emoji: '👍', count: 1, mine: false, entities: [{ id: bob.id }] })
      for (const text of ['', 'x', '👍👍', ':+1:', '👍 ', '\0', '1', '😀'.repeat(1000)])
        expect(await react(ann, id, text)).toMatchObject({ code: 'BAD_INPUT' })
      expect(await react(eve, id, '👍')).toMatchObject({ code: 'NOT_FOUND' })
      expect(await stage.ask(stage.admin, REACT, { input: { messageId: id, emoji: '👍' } })).toMatchObject({
        code: 'FORBIDDEN',
      })
      expect(await stage.runsOf(agent)).toHaveLength(1)
    })

    test('are limited to 50 emojis, even if many arrive at once', async () => {
      const ann = await stage.person('Ann')
      const space = await stage.space('Desk', [ann], { routing: 'BROADCAST' })
      const id = await post(ann, space, 'Lunch?')
      const emojis = Array.from({ length: 55 }, (_, index) => String.fromCodePoint(0x1f400 + (index % 0x3e)))
      const results = await Promise.all([...new Set(emojis)].map((emoji) => react(ann, id, emoji)))
      expect(results.filter(({ code }) => code === 'LIMIT_EXCEEDED')).toHaveLength(5)
      expect((await see(ann.client, id)).reactions).toHaveLength(50)
    })
  })

  describe('tools of agents', () => {
    test('edit, delete and react tools work only where the agent may use them', async () => {
      const ann = await stage.person('Ann')
      const agent = await stage.bot('Agent', { toolset: 'ACTIVE_SPACE' })
      const space = await stage.space('Desk', [ann, agent], { routing: 'BROADCAST' })
      const elsewhere = await post(ann, await stage.space('Home', [ann], { routing: 'BROADCAST' }), 'Private')
      let [own, others]: [string, string] = ['', '']
      parley.models.script((request) => {
        const results = resultsIn(request)
        own ||= results[0]?.messageId ?? ''
        others ||= /"id":"(msg_[0-9a-f]+)"/.exec(promptOf(request))?.[1] ?? ''
        const calls: Read[] = [
          ['send_message', { text: 'Frist' }],
          ['edit_message', { messageId: own, text: 'First' }],
          ['edit_message', { messageId: others, text: 'Mine now' }],
          ['react', { messageId: others, emoji: '🎉' }],
          ['react', { messageId: others, emoji: 'hurray' }],
          ['react', { messageId: elsewhere, emoji: '🎉' }],
          ['delete_message', { messageId: others }],
          ['send_message', { text: 'Second' }],
          ['delete_message', { messageId: results[7]?.messageId ?? '' }],
        ]
        const next = calls[results.length]
        return next === undefined ? [{ text: 'Done.' }] : [{ toolCall: next[0], input: next[1] }]
      })
      const id = await post(ann, space, 'Go')
      await stage.endedRuns(agent, 1)
      const results = resultsIn(parley.models.requests.at(-1)!)
      expect(results.map((result) => result.error?.code ?? result.success)).toEqual([
        true,
        true,
        'FORBIDDEN',
        true,
        'BAD_INPUT',
        'NOT_FOUND',
        'FORBIDDEN',
        true,
        true,
      ])
      expect(await see(ann.client, own)).toMatchObject({ text: 'First', versions: [{ text: 'Frist' }] })
      expect(await see(ann.client, id)).toMatchObject({
        text: 'Go',
        reactions: [{ emoji: '🎉', count: 1, mine: false, entities: [{ id: agent.id }] }],
      })
      expect((await stage.messagesIn(space)).map(({ text }) => text)).toEqual(['Go', 'First', ''])
    })
  })
})
