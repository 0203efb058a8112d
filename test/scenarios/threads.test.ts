import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { forAgent, type ModelRequest, steps, when } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { sayIn } from '../support/space-tools.ts'
import { type Named, type Person, playScenarios, promptOf, type Read, resultsIn, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const THREADS = `query ($id: ID!) {
  space(id: $id) { unreadCount unreadMentions firstUnreadMessage { id }
    messages(last: 100) { edges { node {
      id seq text status sender { name } replyTo { id } threadRoot { id } parts { ... on ToolCallPart { toolCall { toolCallId: id } } }
      thread { replyCount lastReplyAt unreadCount messages { edges { node { id text } } pageInfo { hasNextPage hasPreviousPage } } } } } } } }`
const ROOTS = `query ($id: ID!, $first: Int, $last: Int, $after: String, $before: String) {
  space(id: $id) { messages(rootsOnly: true, first: $first, last: $last, after: $after, before: $before) {
    edges { cursor node { text } } pageInfo { hasNextPage hasPreviousPage } } } }`
const REPLIES = `query ($id: ID!, $first: Int, $last: Int, $after: String, $before: String) {
  message(id: $id) { thread { messages(first: $first, last: $last, after: $after, before: $before) {
    edges { node { text } } pageInfo { hasNextPage hasPreviousPage } } } } }`
const SEND = `mutation ($input: SendMessageInput!) {
  sendMessage(input: $input) { __typename ... on SendMessagePayload { sentMessage { id } } ... on BadInputError { field message } ... on Error { message } } }`
const MARK = `mutation ($input: MarkReadInput!) {
  markRead(input: $input) { __typename ... on MarkReadPayload { space { unreadCount } } ... on Error { message } } }`
const DELETE = `mutation ($input: DeleteMessageInput!) {
  deleteMessage(input: $input) { __typename ... on Error { message } } }`
const EDIT = `mutation ($input: EditMessageInput!) {
  editMessage(input: $input) { __typename ... on EditMessagePayload { editedMessage { staleRuns { id } } runs { id } } ... on Error { message } } }`
const UNREAD_THREADS = `query ($id: ID!, $rootId: ID!) {
  space(id: $id) { unreadCount unreadThreads { rootId root { text } unreadCount } thread(rootId: $rootId) { rootId replyCount } } }`
const SUBMIT = 'mutation ($input: SubmitToolResultInput!) { submitToolResult(input: $input) { __typename } }'
const WAKES = 'query ($spaceId: ID!, $replyToId: ID) { wakes(spaceId: $spaceId, replyToId: $replyToId) { name } }'

const send = (text: string, more: object = {}) => ({ toolCall: 'send_message', input: { text, ...more } })

for (const stack of RULE_STACKS) {
  describe(`threads, on the ${stack} stack`, () => {
    let parley: TestServer
    let stage: Stage
    playScenarios(stack, (opened) => ({ parley, stage } = opened))

    const spaceOf = ({ client }: Person, { id }: Named) => stage.ask(client, THREADS, { id })
    const messagesOf = async (person: Person, space: Named) =>
      (await spaceOf(person, space)).messages.edges.map(({ node }: Read) => node)
    const say = async (person: Person, space: Named, text: string, more: object = {}) =>
      (await stage.say(person, space, text, more)).sentMessage.id as string
    const pageOf = ({ edges, pageInfo }: Read) => [edges.map(({ node }: Read) => node.text), pageInfo]
    const threadOf = (rootId: string, messages: Read[]) =>
      messages.filter(({ threadRoot }) => threadRoot?.id === rootId).map(({ text }) => text)

    test('replies are messages of the space, join the thread of the message they reply to, and are paginated', async () => {
      const [ann, bob] = [await stage.person('Ann'), await stage.person('Bob')]
      const room = await stage.space('Room', [ann, bob], { routing: 'BROADCAST' })
      const root = await say(ann, room, 'root')
      const other = await say(ann, room, 'other')
      const first = await say(bob, room, 'first', { replyToId: root })
      const second = await say(ann, room, 'second', { replyToId: first })
      await say(bob, room, 'aside', { replyToId: other })
      await say(bob, room, 'third', { replyToId: root })
      await say(bob, room, 'last')
      const messages = await messagesOf(ann, room)
      expect(
        messages.map(({ seq, text, replyTo, threadRoot }: Read) => [seq, text, replyTo?.id, threadRoot?.id]),
      ).toEqual([
        [1, 'root', undefined, undefined],
        [2, 'other', undefined, undefined],
        [3, 'first', root, root],
        [4, 'second', first, root],
        [5, 'aside', other, other],
        [6, 'third', root, root],
        [7, 'last', undefined, undefined],
      ])
      expect(messages[0].thread).toMatchObject({ replyCount: 3, lastReplyAt: expect.any(String) })
      expect(messages[0].thread.messages.edges.map(({ node }: Read) => node.text)).toEqual(['first', 'second', 'third'])
      expect(messages[0].thread.messages.pageInfo).toEqual({ hasNextPage: false, hasPreviousPage: false })
      expect(messages.slice(2).map(({ thread }: Read) => thread)).toEqual([null, null, null, null, null])

      const roots = async (page: object) =>
        pageOf((await stage.ask(ann.client, ROOTS, { id: room.id, ...page })).messages)
      const none = { hasNextPage: false, hasPreviousPage: false }
      expect(await roots({})).toEqual([['root', 'other', 'last'], none])
      expect(await roots({ last: 1 })).toEqual([['last'], { ...none, hasPreviousPage: true }])
      expect(await roots({ first: 2 })).toEqual([['root', 'other'], { ...none, hasNextPage: true }])
      expect(await roots({ first: 5, after: first })).toEqual([['last'], { ...none, hasPreviousPage: true }])
      expect(await roots({ last: 5, before: other })).toEqual([['root'], { ...none, hasNextPage: true }])
      const replies = async (page: object) =>
        pageOf((await stage.ask(ann.client, REPLIES, { id: root, ...page })).thread.messages)
      expect(await replies({ first: 1, after: first })).toEqual([
        ['second'],
        { hasNextPage: true, hasPreviousPage: true },
      ])
      expect(await replies({ last: 2 })).toEqual([['second', 'third'], { ...none, hasPreviousPage: true }])
      expect(await replies({ last: 5, before: second })).toEqual([['first'], { ...none, hasNextPage: true }])
    })

    test('a reply needs an existing message of the space; the thread of a deleted message continues', async () => {
      const [ann, eve] = [await stage.person('Ann'), await stage.person('Eve')]
      const room = await stage.space('Room', [ann], { routing: 'BROADCAST' })
      const [there, hers] = [await stage.space('There', [ann]), await stage.space('Hers', [eve])]
      const post = async (person: Person, space: Named, replyToId: string, more: object = {}) =>
        stage.ask(person.client, SEND, { input: { spaceId: space.id, text: 'answer', replyToId, ...more } })
      const elsewhere = await say(ann, there, 'elsewhere')
      const unseen = await say(eve, hers, 'unseen')
      const root = await say(ann, room, 'root')
      for (const id of [elsewhere, unseen, 'msg_0', 'nonsense', room.id])
        expect(await post(ann, room, id)).toMatchObject({ __typename: 'NotFoundError' })
      // A message that does not exist and one that the viewer may not see get the same error.
      expect(await post(eve, room, root)).toEqual(await post(eve, room, 'msg_0'))

      const lone = await say(ann, room, 'lone')
      const reply = await say(ann, room, 'reply', { replyToId: root })
      for (const messageId of [lone, root])
        expect(await stage.ask(ann.client, DELETE, { input: { messageId } })).toMatchObject({
          __typename: 'DeleteMessagePayload',
        })
      expect(await post(ann, room, lone)).toMatchObject({ __typename: 'BadInputError', field: 'input.replyToId' })
      expect((await post(ann, room, reply)).__typename).toBe('SendMessagePayload')
      expect((await post(ann, room, root)).__typename).toBe('SendMessagePayload')
      const [emptied] = await messagesOf(ann, room)
      expect(emptied).toMatchObject({ text: '', thread: { replyCount: 3 } })
    })

    test('unread replies lead to their threads, the newest first, even after a first message was deleted', async () => {
      const [ann, bob] = [await stage.person('Ann'), await stage.person('Bob')]
      const room = await stage.space('Room', [ann, bob], { routing: 'BROADCAST' })
      const there = await stage.space('There', [ann], { routing: 'BROADCAST' })
      const [old, kept, others] = [
        await say(ann, room, 'old'),
        await say(ann, room, 'kept'),
        await say(bob, room, 'his'),
      ]
      const last = await say(bob, room, 'to old', { replyToId: old })
      await say(bob, room, 'to kept', { replyToId: kept })
      await say(bob, room, 'to his', { replyToId: others })
      await stage.ask(ann.client, MARK, { input: { spaceId: room.id, messageId: others } })
      await parley.app.platform.db.prisma.message.delete({ where: { id: old } })
      const read = async (person: Person, { id }: Named = room) =>
        stage.ask(person.client, UNREAD_THREADS, { id, rootId: old })
      expect(await read(ann)).toEqual({
        unreadCount: 2,
        unreadThreads: [
          { rootId: kept, root: { text: 'kept' }, unreadCount: 1 },
          { rootId: old, root: null, unreadCount: 1 },
        ],
        thread: { rootId: old, replyCount: 1 },
      })
      expect(await read(bob)).toMatchObject({ unreadThreads: [] })
      expect(await read(ann, there)).toMatchObject({ unreadThreads: [], thread: null })
      await stage.ask(ann.client, MARK, { input: { spaceId: room.id, messageId: last } })
      expect((await read(ann)).unreadThreads).toMatchObject([{ rootId: kept }])
    })

    test('an idempotency key covers the message that is replied to', async () => {
      const ann = await stage.person('Ann')
      const room = await stage.space('Room', [ann], { routing: 'BROADCAST' })
      const [one, two] = [await say(ann, room, 'one'), await say(ann, room, 'two')]
      const post = async (replyToId: string | null) =>
        stage.ask(ann.client, SEND, { input: { spaceId: room.id, text: 'answer', replyToId, idempotencyKey: 'key' } })
      const first = await post(one)
      expect(await post(one)).toEqual(first)
      expect((await post(two)).__typename).toBe('ConflictError')
      expect((await post(null)).__typename).toBe('ConflictError')
      await stage.ask(ann.client, DELETE, { input: { messageId: one } })
      expect(await post(one)).toEqual(first)
    })

    test('a thread has its own read mark; replies are unread for those who take part or are mentioned', async () => {
      const [ann, bob] = [await stage.person('Ann'), await stage.person('Bob')]
      const [cleo, dan] = [await stage.person('Cleo'), await stage.person('Dan')]
      const room = await stage.space('Room', [ann, bob, cleo, dan], { routing: 'BROADCAST' })
      const unread = async (person: Person) => {
        const { unreadCount, unreadMentions, messages } = await spaceOf(person, room)
        return [unreadCount, unreadMentions, messages.edges[0].node.thread?.unreadCount ?? null]
      }
      const mark = (person: Person, messageId: string) =>
        stage.ask(person.client, MARK, { input: { spaceId: room.id, messageId } })
      const root = await say(ann, room, 'root')
      const [one] = [await say(bob, room, 'one', { replyToId: root })]
      const two = await say(bob, room, 'two', { replyToId: one, mentionedIds: [cleo.id] })
      expect(await unread(ann)).toEqual([2, 0, 2])
      expect(await unread(bob)).toEqual([1, 0, 0])
      expect(await unread(cleo)).toEqual([2, 1, 2])
      expect(await unread(dan)).toEqual([1, 0, 2])
      // Reading one of the two does not move the read mark of the other.
      await mark(dan, root)
      expect(await unread(dan)).toEqual([0, 0, 2])
      const main = await say(bob, room, 'main')
      expect(await mark(ann, two)).toMatchObject({ space: { unreadCount: 1 } })
      expect(await unread(ann)).toEqual([1, 0, 0])
      expect((await spaceOf(ann, room)).firstUnreadMessage).toEqual({ id: main })
      await mark(cleo, main)
      expect(await unread(cleo)).toEqual([1, 1, 2])
      await mark(cleo, two)
      await mark(cleo, one)
      expect(await unread(cleo)).toEqual([0, 0, 0])
      // Dan takes part in the thread from his answer on.
      await say(dan, room, 'three', { replyToId: two })
      await say(bob, room, 'four', { replyToId: root })
      expect(await unread(dan)).toEqual([4, 0, 3])
      expect(await unread(ann)).toEqual([3, 0, 2])
      const { unreadCount } = await stage.ask(dan.client, '{ viewer { unreadCount } }')
      expect(unreadCount).toBe(4)
    })

    test('a run in a thread reads that thread and answers in it', async () => {
      const [ann, bob] = [await stage.person('Ann'), await stage.person('Bob')]
      const [ada, kit] = [await stage.bot('Ada', { toolset: 'ACTIVE_SPACE' }), await stage.bot('Kit')]
      const room = await stage.space('Room', [ann, bob, ada, kit], { routing: 'BROADCAST' })
      const prompts = new Map<string, string>()
      const keep = (name: string) => (request: ModelRequest) => {
        if (promptOf(request).includes('Question')) prompts.set(name, promptOf(request))
        return true
      }
      const asked = (text: string) => (request: ModelRequest) => (promptOf(request).split('\n')[1] ?? '').includes(text)
      parley.models.script(forAgent('Ada', when(asked('Question'), when(keep('Ada'), steps([send('Ada answers')])))))
      parley.models.script(
        forAgent('Kit', when(asked('Question'), when(keep('Kit'), steps([sayIn(room.id, 'Kit answers')])))),
      )
      const root = await say(ann, room, 'The root')
      await say(ann, room, 'Something else')
      const first = await say(bob, room, 'A remark', { replyToId: root })
      await say(ann, room, 'Quite else')
      await Promise.all([stage.endedRuns(ada, 4), stage.endedRuns(kit, 4)])
      const question = await say(ann, room, 'Question', { replyToId: first })
      await until('both have answered', async () => threadOf(root, await messagesOf(ann, room)).length === 4)
      await until('the answers are whole', async () =>
        (await messagesOf(ann, room)).every(({ status }: Read) => status === 'COMPLETE'),
      )
      const messages = await messagesOf(ann, room)
      expect(threadOf(root, messages).toSorted()).toEqual(['A remark', 'Ada answers', 'Kit answers', 'Question'])
      expect(messages.find(({ text }: Read) => text === 'Ada answers')).toMatchObject({ replyTo: { id: question } })
      for (const prompt of [prompts.get('Ada') ?? '', prompts.get('Kit') ?? '']) {
        expect(prompt).toContain(`in the thread on the message ${root}`)
        expect(prompt).toContain('THIS THREAD:')
        expect(prompt).toContain('The root')
        expect(prompt).toContain('A remark')
        expect(prompt).not.toContain('else')
      }
    })

    test('a long question in a thread leaves room for fewer other replies', async () => {
      const ann = await stage.person('Ann')
      const ada = await stage.bot('Ada', { toolset: 'ACTIVE_SPACE' })
      const room = await stage.space('Room', [ann, ada], { routing: 'BROADCAST' })
      const root = await say(ann, room, 'The root')
      for (let at = 0; at < 8; at++) await say(ann, room, 'x'.repeat(7000), { replyToId: root })
      await stage.endedRuns(ada, 9)
      let prompt = ''
      const look = (request: ModelRequest) => {
        prompt = promptOf(request)
        return prompt.includes('Question')
      }
      parley.models.script(forAgent('Ada', when(look, steps([{ text: 'ok' }]))))
      await say(ann, room, `Question ${'y'.repeat(30_000)}`, { replyToId: root })
      await stage.endedRuns(ada, 10)
      expect(prompt).toContain('The root')
      expect(prompt).toContain('y'.repeat(30_000))
      // The prompt contains at most 60,000 characters of the thread.
      expect(prompt.match(/x{7000}/g)).toHaveLength(4)
    })

    test('a run outside the thread does not read it', async () => {
      const ann = await stage.person('Ann')
      const ada = await stage.bot('Ada', { toolset: 'ACTIVE_SPACE' })
      const room = await stage.space('Room', [ann, ada], { routing: 'BROADCAST' })
      const root = await say(ann, room, 'The root')
      await say(ann, room, 'Apart', { replyToId: root })
      let prompt = ''
      let read: Read
      const look = (request: ModelRequest) => {
        if (request.step === 0) prompt = promptOf(request)
        else read = resultsIn(request)[0]
        return true
      }
      const isNow = (request: ModelRequest) => promptOf(request).includes('And now')
      parley.models.script(
        forAgent('Ada', when(isNow, when(look, steps([{ toolCall: 'read_messages', input: {} }], [send('Done')])))),
      )
      await say(ann, room, 'And now?')
      await stage.endedRuns(ada, 3)
      expect(prompt).toContain('The root')
      expect(prompt).not.toContain('Apart')
      expect(read.map(({ text, thread }: Read) => [text, thread])).toEqual([
        ['The root', undefined],
        ['Apart', root],
        ['And now?', undefined],
      ])
      expect((await messagesOf(ann, room)).at(-1)).toMatchObject({ text: 'Done', threadRoot: null, replyTo: null })
    })

    test('replyTo selects another thread, before or after the text, and an unknown message is an error', async () => {
      const ann = await stage.person('Ann')
      const [ada, kit] = [await stage.bot('Ada', { toolset: 'ACTIVE_SPACE' }), await stage.bot('Kit')]
      for (const bot of [ada, kit]) {
        const room = await stage.space('Room', [ann, bot], { routing: 'BROADCAST' })
        const [root, other] = [await say(ann, room, 'root'), await say(ann, room, 'other')]
        await stage.endedRuns(bot, 2)
        const call = (text: string, more: object) =>
          bot === ada ? send(text, more) : { toolCall: 'sendSpaceMessage', input: { spaceId: room.id, text, ...more } }
        const callFirst = (replyTo: string, text: string) => {
          const spaceId = bot === ada ? {} : { spaceId: room.id }
          return { toolCall: bot === ada ? 'send_message' : 'sendSpaceMessage', input: { ...spaceId, replyTo, text } }
        }
        const results: Read[] = []
        const isGo = (request: ModelRequest) => {
          if (request.step === 6) results.push(...resultsIn(request))
          return promptOf(request).includes('Go')
        }
        parley.models.script(
          forAgent(
            bot.name,
            when(
              isGo,
              steps(
                [call('in the thread', {})],
                [call('after', { replyTo: other })],
                [callFirst(other, 'before')],
                [call('in the thread too', { replyTo: '' })],
                [call('outside', { replyTo: 'none' })],
                [callFirst('msg_0', 'nowhere')],
              ),
            ),
          ),
        )
        await say(ann, room, 'Go', { replyToId: root })
        await stage.endedRuns(bot, 3)
        const texts = (rootId: string | null, messages: Read[]) =>
          messages.filter(({ threadRoot, sender }) => (threadRoot?.id ?? null) === rootId && sender.name === bot.name)
        const messages = await messagesOf(ann, room)
        const join = (list: Read[]) => list.map(({ text }) => text).join('\n\n')
        expect(join(texts(root, messages))).toBe('in the thread\n\nin the thread too')
        expect(join(texts(other, messages))).toBe('after\n\nbefore')
        expect(join(texts(null, messages))).toBe('outside')
        expect(messages.every(({ status }: Read) => status === 'COMPLETE')).toBe(true)
        expect(results[5]).toMatchObject({ error: { code: 'NOT_FOUND' } })
      }
    })

    test('an edited reply triggers its run again in its thread, and the response lists the runs that have read the thread', async () => {
      const ann = await stage.person('Ann')
      const ada = await stage.bot('Ada', { toolset: 'ACTIVE_SPACE' })
      const room = await stage.space('Room', [ann, ada], { routing: 'BROADCAST' })
      const root = await say(ann, room, 'root')
      await stage.endedRuns(ada, 1)
      const isAsked = (request: ModelRequest) => (promptOf(request).split('\n')[1] ?? '').includes('Question')
      parley.models.script(forAgent('Ada', when(isAsked, steps([send('Answer')]))))
      const question = await say(ann, room, 'Question', { replyToId: root })
      const [, run] = await stage.endedRuns(ada, 2)
      await say(ann, room, 'Aside')
      const [, , aside] = await stage.endedRuns(ada, 3)
      const edit = (messageId: string, text: string, retryRuns: boolean) =>
        stage.ask(ann.client, EDIT, { input: { messageId, text, retryRuns } })
      const edited = await edit(question, 'Question, in other words', true)
      expect(edited.editedMessage.staleRuns).toEqual([{ id: run.id }])
      expect(edited.runs).toHaveLength(1)
      await stage.endedRuns(ada, 4)
      const messages = await messagesOf(ann, room)
      expect(threadOf(root, messages)).toEqual(['Question, in other words', 'Answer', 'Answer'])
      const { editedMessage } = await edit(root, 'other root', false)
      const stale = editedMessage.staleRuns.map(({ id }: Read) => id)
      expect(stale).toContain(run.id)
      expect(stale).toContain(edited.runs[0].id)
      // The run outside of the thread has read the first message too, but not the question.
      expect(stale).toContain(aside.id)
    })

    test('the inbox of a persistent agent names the thread, and the agent answers there', async () => {
      const ann = await stage.person('Ann')
      const mia = await stage.bot('Mia', { toolset: 'ACTIVE_SPACE', mind: 'PERSISTENT' })
      const room = await stage.space('Room', [ann, mia], { routing: 'ADMIN', adminAgentId: mia.id })
      const root = await say(ann, room, 'root')
      await stage.endedRuns(mia, 1)
      let inbox = ''
      const isAsked = (request: ModelRequest) => {
        const last = request.messages.findLast(({ role, text }) => role === 'user' && text.startsWith('INBOX'))
        if (last?.text.includes('Question') !== true) return false
        inbox = last.text
        return true
      }
      parley.models.script(
        forAgent(
          'Mia',
          when(isAsked, steps([{ toolCall: 'enter_space', input: { spaceId: room.id } }], [send('Answer')])),
        ),
      )
      await say(ann, room, 'Question', { replyToId: root })
      await until('Mia answers', async () => threadOf(root, await messagesOf(ann, room)).includes('Answer'))
      expect(inbox).toContain(`- [Room (id: ${room.id}), thread on ${root}] Ann (human): "Question"`)
    })

    test('turns of MENTION_CHAIN are assigned per thread, as `wakes` shows', async () => {
      const ann = await stage.person('Ann')
      const [ada, bea] = [await stage.bot('Ada'), await stage.bot('Bea')]
      const room = await stage.space('Chain', [ann, ada, bea], { routing: 'MENTION_CHAIN' })
      const wakes = async (replyToId: string | null = null) =>
        (await stage.ask(ann.client, WAKES, { spaceId: room.id, replyToId })).map(({ name }: Read) => name)
      const woken = async (text: string, more: object = {}) =>
        (await stage.say(ann, room, text, more)).runs.map(({ agent }: Read) => agent.name)
      expect(await woken('one')).toEqual(['Ada'])
      const [{ id: root }] = await messagesOf(ann, room)
      expect(await wakes()).toEqual(['Bea'])
      expect(await wakes(root)).toEqual(['Ada'])
      expect(await woken('a', { replyToId: root })).toEqual(['Ada'])
      expect(await wakes(root)).toEqual(['Bea'])
      expect(await woken('b', { replyToId: root })).toEqual(['Bea'])
      expect(await wakes()).toEqual(['Bea'])
      expect(await woken('c', { replyToId: root })).toEqual(['Ada'])
      expect(await woken('two')).toEqual(['Bea'])
      const { errors } = await ann.client.ask(WAKES, { spaceId: room.id, replyToId: 'msg_0' })
      expect(errors?.[0]?.extensions?.['code']).toBe('NOT_FOUND')
      await Promise.all([stage.endedRuns(ada, 3), stage.endedRuns(bea, 2)])
    })

    test('a chain that began in a thread stays there, with its call-backs', async () => {
      const ann = await stage.person('Ann')
      const [ada, bea] = [
        await stage.bot('Ada', { toolset: 'ACTIVE_SPACE' }),
        await stage.bot('Bea', { toolset: 'ACTIVE_SPACE' }),
      ]
      const room = await stage.space('Chain', [ann, ada, bea], { routing: 'MENTION_CHAIN' })
      const root = await say(ann, room, 'root', { mentionedAgentId: bea.id })
      await stage.endedRuns(bea, 1)
      const isCalledBack = (request: ModelRequest) => promptOf(request).includes('You are called back')
      const isBegun = (request: ModelRequest) => promptOf(request).includes('Begin') && !isCalledBack(request)
      const mention = {
        toolCall: 'mentionAgent',
        input: { targetAgentEntityId: bea.id, reason: 'help', expectReply: true },
      }
      parley.models.script(forAgent('Ada', when(isBegun, steps([send('Ada asks'), mention]))))
      parley.models.script(forAgent('Ada', when(isCalledBack, steps([send('Ada concludes')]))))
      const isMentioned = (request: ModelRequest) => promptOf(request).includes('You were mentioned')
      parley.models.script(
        forAgent('Bea', when(isMentioned, steps([{ toolCall: 'skip', input: { reason: 'nothing' } }]))),
      )
      await say(ann, room, 'Begin', { replyToId: root, mentionedAgentId: ada.id })
      await until('Ada concludes', async () => threadOf(root, await messagesOf(ann, room)).includes('Ada concludes'))
      expect(threadOf(root, await messagesOf(ann, room))).toEqual(['Begin', 'Ada asks', 'Ada concludes'])
      await Promise.all([stage.endedRuns(ada, 2), stage.endedRuns(bea, 2)])
    })

    test('a chain may leave and enter threads: an agent is called back where its run is, with the answer from elsewhere', async () => {
      const ann = await stage.person('Ann')
      const [ada, bea] = [
        await stage.bot('Ada', { toolset: 'ACTIVE_SPACE' }),
        await stage.bot('Bea', { toolset: 'ACTIVE_SPACE' }),
      ]
      const room = await stage.space('Chain', [ann, ada, bea], { routing: 'MENTION_CHAIN' })
      const root = await say(ann, room, 'root', { mentionedAgentId: bea.id })
      await stage.endedRuns(bea, 1)
      const isCalledBack = (request: ModelRequest) => promptOf(request).includes('You are called back')
      const mention = {
        toolCall: 'mentionAgent',
        input: { targetAgentEntityId: bea.id, reason: 'help', expectReply: true },
      }
      const isMentioned = (request: ModelRequest) => promptOf(request).includes('You were mentioned')
      const begins = (text: string) => (request: ModelRequest) =>
        promptOf(request).includes(text) && !isCalledBack(request)
      const concludes = (answer: string) => (request: ModelRequest) =>
        isCalledBack(request) &&
        promptOf(request).split(answer).length > 2 &&
        promptOf(request).includes('has responded')
      for (const answer of ['Bea answers from outside', 'Bea answers']) {
        const conclude = steps([send(`Ada concludes: ${answer}`)], [{ text: 'ok' }])
        parley.models.script(forAgent('Ada', when(concludes(`"${answer}"`), conclude)))
      }
      parley.models.script(
        forAgent('Ada', when(begins('Begin outside'), steps([send('Ada asks outside', { replyTo: 'none' }), mention]))),
      )
      parley.models.script(
        forAgent(
          'Bea',
          when(isMentioned, (request) => {
            const isInThread = promptOf(request).includes('THIS THREAD')
            const answer = isInThread ? send('Bea answers from outside', { replyTo: 'none' }) : send('Bea answers')
            return [[answer]][request.step] ?? [{ text: 'ok' }]
          }),
        ),
      )
      await say(ann, room, 'Begin outside', { replyToId: root, mentionedAgentId: ada.id })
      await until('Ada concludes', async () =>
        threadOf(root, await messagesOf(ann, room)).includes('Ada concludes: Bea answers'),
      )
      const outside = (messages: Read[]) =>
        messages.filter(({ threadRoot }) => threadRoot === null).map(({ text }) => text)
      expect(outside(await messagesOf(ann, room))).toEqual(['root', 'Ada asks outside', 'Bea answers'])
      expect(threadOf(root, await messagesOf(ann, room))).toEqual(['Begin outside', 'Ada concludes: Bea answers'])

      await Promise.all([stage.endedRuns(ada, 2), stage.endedRuns(bea, 2)])
      parley.models.script(forAgent('Ada', when(begins('Begin inside'), steps([send('Ada asks inside'), mention]))))
      await say(ann, room, 'Begin inside', { replyToId: root, mentionedAgentId: ada.id })
      await until('Ada concludes', async () =>
        threadOf(root, await messagesOf(ann, room)).includes('Ada concludes: Bea answers from outside'),
      )
      expect(outside(await messagesOf(ann, room)).slice(3)).toEqual(['Bea answers from outside'])
      await Promise.all([stage.endedRuns(ada, 4), stage.endedRuns(bea, 3)])
    })

    test('a streaming text that has replies stays where it began, even if the model then selects a thread', async () => {
      const ann = await stage.person('Ann')
      const bot = await stage.bot('Iris', { toolset: 'ACTIVE_SPACE' })
      const room = await stage.space('Room', [ann, bot], { routing: 'ADMIN', adminAgentId: bot.id })
      const root = await say(ann, room, 'root')
      await stage.endedRuns(bot, 1)
      const gate = Promise.withResolvers<void>()
      const chunks = ['{"text":"', 'The first half', gate.promise, ` and the second.","replyTo":"${root}"}`]
      const isGo = (request: ModelRequest) => (promptOf(request).split('RECENT')[0] ?? '').includes('Go')
      parley.models.script(forAgent('Iris', when(isGo, steps([{ toolCall: 'send_message', chunks }]))))
      await say(ann, room, 'Go')
      const begun = await until('the text begins', async () =>
        (await messagesOf(ann, room)).find(({ status }: Read) => status === 'STREAMING'),
      )
      await say(ann, room, 'Stop there', { replyToId: begun.id })
      gate.resolve()
      await until('the text is whole', async () =>
        (await messagesOf(ann, room)).some(({ id, status }: Read) => id === begun.id && status === 'COMPLETE'),
      )
      const messages = await messagesOf(ann, room)
      expect(messages.find(({ id }: Read) => id === begun.id)).toMatchObject({
        text: 'The first half and the second.',
        threadRoot: null,
        thread: { replyCount: expect.any(Number) },
      })
      expect(threadOf(begun.id, messages)).toContain('Stop there')
      expect(threadOf(root, messages)).toEqual([])
      await stage.endedRuns(bot, 3)
    })

    test('messages during a wait are those of the run’s thread and of the thread on its question', async () => {
      const ann = await stage.person('Ann')
      const tool = {
        name: 'ask',
        description: 'Asks.',
        inputSchema: { type: 'object' },
        execution: 'SPACE',
        visible: true,
      }
      const bot = await stage.bot('Kit', { toolset: 'ACTIVE_SPACE', tools: [tool] })
      const room = await stage.space('Room', [ann, bot], { routing: 'ADMIN', adminAgentId: bot.id })
      const root = await say(ann, room, 'root')
      const other = await say(ann, room, 'other')
      await stage.endedRuns(bot, 2)
      for (const place of ['outside', 'inside']) {
        const isAsked = (request: ModelRequest) =>
          (promptOf(request).split(/RECENT|THIS THREAD/)[0] ?? '').includes(`Ask ${place}`)
        parley.models.script(forAgent('Kit', when(isAsked, steps([{ toolCall: 'ask', input: {} }]))))
        await say(ann, room, `Ask ${place}`, place === 'inside' ? { replyToId: root } : {})
        const question = await until('the question shows', async () =>
          (await messagesOf(ann, room)).find(({ status }: Read) => status === 'REQUIRES_ACTION'),
        )
        await say(ann, room, `${place}: elsewhere`, { replyToId: other })
        await say(ann, room, `${place}: in the thread`, { replyToId: root })
        await say(ann, room, `${place}: not in a thread`)
        await say(ann, room, `${place}: on the question`, { replyToId: question.id })
        const { toolCallId } = question.parts.find(({ toolCall }: Read) => toolCall !== undefined).toolCall
        await stage.ask(ann.client, SUBMIT, { input: { toolCallId, result: { ok: true } } })
        const resumed = await parley.models.request((request) => isAsked(request) && request.step === 1)
        const meanwhile = resumed.messages.find(({ text }) => text.startsWith('WHILE YOU WAITED:'))?.text ?? ''
        const shown = ['elsewhere', 'in the thread', 'not in a thread', 'on the question'].filter((words) =>
          meanwhile.includes(`${place}: ${words}`),
        )
        expect(shown).toEqual(
          place === 'inside' ? ['in the thread', 'on the question'] : ['not in a thread', 'on the question'],
        )
        await until('all runs have ended', async () =>
          (await stage.runsOf(bot)).every(({ status }: Read) => status === 'COMPLETED'),
        )
      }
    })

    test('a wait is answered in its thread, or in the thread on the question', async () => {
      const [ann, bob] = [await stage.person('Ann'), await stage.person('Bob')]
      const kit = await stage.bot('Kit')
      const room = await stage.space('Room', [ann, bob, kit], { routing: 'ADMIN', adminAgentId: kit.id })
      const wait = { for: [{ type: 'human' }], timeout: 100 }
      const results = new Map<string, Read>()
      for (const [name, text] of [
        ['outside', 'Ask outside'],
        ['inside', 'Ask inside'],
      ] as const) {
        const isAsked = (request: ModelRequest) => {
          if (!(promptOf(request).split('\n')[1] ?? '').includes(text)) return false
          if (request.step === 1) results.set(name, resultsIn(request)[0])
          return true
        }
        parley.models.script(forAgent('Kit', when(isAsked, steps([sayIn(room.id, `${name}?`, { wait })]))))
      }
      const idOf = async (text: string) => {
        await until(`${text} is asked`, async () =>
          (await messagesOf(ann, room)).some((one: Read) => one.text === text && one.status === 'REQUIRES_ACTION'),
        )
        return (await messagesOf(ann, room)).find((one: Read) => one.text === text).id as string
      }
      const root = await say(ann, room, 'root')
      await say(ann, room, 'Ask outside')
      const question = await idOf('outside?')
      await say(bob, room, 'not here', { replyToId: root })
      await say(bob, room, 'on the question', { replyToId: question })
      await until('the first wait ends', async () => results.has('outside'))
      expect(results.get('outside')).toMatchObject({ timedOut: false, reply: { text: 'on the question' } })

      await say(ann, room, 'Ask inside', { replyToId: root })
      await idOf('inside?')
      await say(bob, room, 'not outside')
      await say(bob, room, 'inside', { replyToId: root })
      await until('the second wait ends', async () => results.has('inside'))
      expect(results.get('inside')).toMatchObject({ timedOut: false, reply: { text: 'inside' } })
      await until('all runs have ended', async () =>
        (await stage.runsOf(kit)).every(({ status }: Read) => status === 'COMPLETED'),
      )
    })
  })
}
