import { getEventListeners } from 'node:events'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type EventLog, type LogBatch, LogUnavailableError } from '../../src/broker/log.ts'
import { BadInputError, SlowConsumerError } from '../../src/lib/errors.ts'
import { type LogFollower, startFollower } from '../support/log-follower.ts'
import { until } from '../support/until.ts'

const TOPIC = 'space:one'
const posted = (index: number) => ({ type: 'MessagePosted', messageId: `msg_${index}` })
const indexes = (count: number, first = 0) => Array.from({ length: count }, (_, index) => first + index)

/** The tests that every event log must pass. `open` returns an empty log. */
export function describeEventLog(name: string, open: () => Promise<EventLog>): void {
  describe(`${name}: the event log`, () => {
    let log: EventLog
    const followers: LogFollower[] = []

    beforeEach(async () => {
      log = await open()
    })
    afterEach(async () => {
      await Promise.all(followers.splice(0).map((follower) => follower.stop()))
      await log.close()
    })

    function follow(after?: string, topic = TOPIC): LogFollower {
      const follower = startFollower(log, topic, after)
      followers.push(follower)
      return follower
    }

    /** Appends events, and returns their cursors. */
    async function fill(count: number, topic = TOPIC): Promise<string[]> {
      const results = await Promise.all(indexes(count).map((index) => log.append(topic, posted(index))))
      return results.map((result) => (result.type === 'appended' ? result.cursor : result.type))
    }

    async function readAll(after: string, limit = 1000): Promise<LogBatch> {
      return log.read(TOPIC, after, limit)
    }

    describe('order', () => {
      test('entries arrive in the order of the calls, each with its own cursor', async () => {
        const follower = follow()
        await until('the follower is active', () => follower.gaps() === 1)
        const cursors = await fill(500)
        const entries = await follower.hasEntries(500)
        expect(entries.map(({ event }) => event)).toEqual(indexes(500).map(posted))
        expect(entries.map(({ cursor }) => cursor)).toEqual(cursors)
        expect(new Set(cursors).size).toBe(500)
      })

      test('every follower of a topic gets the same entries, and none of another topic', async () => {
        const some = [follow(), follow(), follow()]
        const other = follow(undefined, 'space:two')
        await until('all followers are active', () => [...some, other].every((follower) => follower.gaps() === 1))
        await fill(20)
        await fill(1, 'space:two')
        for (const follower of some) {
          expect((await follower.hasEntries(20)).map(({ event }) => event)).toEqual(indexes(20).map(posted))
        }
        expect(await other.hasEntries(1)).toHaveLength(1)
      })

      test('an entry has the time of its append', async () => {
        const before = Date.now()
        const [head] = await log.heads([TOPIC])
        await fill(1)
        const page = await readAll(head!)
        expect(page).toMatchObject({ type: 'publications', publications: [{ at: expect.any(Number) }] })
        const at = page.type === 'publications' ? page.publications[0]!.at : 0
        expect(at).toBeGreaterThanOrEqual(before)
        expect(at).toBeLessThanOrEqual(Date.now())
      })

      test('an event is stored as it was when it was appended', async () => {
        const [head] = await log.heads([TOPIC])
        const event = { type: 'RunFailed', error: 'a "quoted" \n line, 😀 and \ud83d', absent: undefined }
        const appended = log.append(TOPIC, event)
        event.error = 'changed'
        await appended
        expect(await readAll(head!)).toMatchObject({
          publications: [{ event: { type: 'RunFailed', error: 'a "quoted" \n line, 😀 and \ud83d' } }],
        })
      })
    })

    describe('cursors', () => {
      test('a follower without a cursor first gets a gap at the head, then new entries', async () => {
        await fill(3)
        const follower = follow()
        await until('the gap', () => follower.gaps() === 1)
        const head = follower.cursor()
        expect([head]).toEqual(await log.heads([TOPIC]))
        await log.append(TOPIC, posted(3))
        expect((await follower.hasEntries(1)).map(({ event }) => event)).toEqual([posted(3)])
        expect(follower.gaps()).toBe(1)
      })

      test('a follower resumes at every position, without loss or duplicates', async () => {
        const [head] = await log.heads([TOPIC])
        const cursors = [head!, ...(await fill(30))]
        const resumed = cursors.map((cursor) => follow(cursor))
        await log.append(TOPIC, posted(30))
        for (const [from, follower] of resumed.entries()) {
          const entries = await follower.hasEntries(31 - from)
          expect(entries.map(({ event }) => event)).toEqual(indexes(31 - from, from).map(posted))
          expect(follower.gaps()).toBe(0)
        }
      })

      test('a head that was read before the first entry can be resumed from', async () => {
        const [empty, other] = await log.heads([TOPIC, 'space:two'])
        expect(empty).not.toBe(other)
        expect(await log.heads([TOPIC])).toEqual([empty])
        const follower = follow(empty)
        await fill(2)
        expect((await follower.hasEntries(2)).map(({ event }) => event)).toEqual([posted(0), posted(1)])
      })

      test('reading returns pages and does not wait', async () => {
        const [head] = await log.heads([TOPIC])
        const cursors = await fill(5)
        const page = await log.read(TOPIC, head!, 3)
        expect(page).toMatchObject({
          publications: [{ cursor: cursors[0] }, { cursor: cursors[1] }, { cursor: cursors[2] }],
        })
        expect(await log.read(TOPIC, cursors[2]!, 3)).toMatchObject({
          publications: [{ event: posted(3) }, { event: posted(4) }],
        })
        expect(await log.read(TOPIC, cursors[4]!, 3)).toEqual({ type: 'publications', publications: [] })
      })

      test('a follower with an old cursor reads page by page up to the live entries', async () => {
        const [head] = await log.heads([TOPIC])
        await fill(2500)
        const follower = follow(head)
        await follower.hasEntries(1)
        await fill(700)
        expect(await follower.hasEntries(3200)).toHaveLength(3200)
        expect(new Set(follower.entries().map(({ cursor }) => cursor)).size).toBe(3200)
        expect(follower.gaps()).toBe(0)
      })
    })

    describe('gaps', () => {
      test('a cursor of another topic, or of a removed topic, causes a gap to the head', async () => {
        const [foreign] = await log.heads(['space:two'])
        await fill(3)
        const [head] = await log.heads([TOPIC])
        expect(await readAll(foreign!)).toEqual({ type: 'gap', cursor: head })
        const follower = follow(foreign)
        await until('the gap', () => follower.gaps() === 1)
        expect(follower.cursor()).toBe(head)
        await log.append(TOPIC, posted(3))
        expect((await follower.hasEntries(1))[0]!.event).toEqual(posted(3))
      })

      test('a cursor beyond the last entry causes a gap', async () => {
        await fill(3)
        const [head] = await log.heads([TOPIC])
        const [epoch] = Buffer.from(head!, 'base64url').toString().split('.')
        const beyond = Buffer.from(`${epoch}.4`).toString('base64url')
        expect(await readAll(beyond)).toEqual({ type: 'gap', cursor: head })
        const follower = follow(beyond)
        await until('the gap', () => follower.gaps() === 1)
        expect(follower.cursor()).toBe(head)
      })

      test('the last 10,000 entries are kept; an older cursor causes a gap', async () => {
        const [head] = await log.heads([TOPIC])
        const cursors = await fill(10_400)
        const end = cursors.at(-1)
        expect(await readAll(head!)).toEqual({ type: 'gap', cursor: end })
        expect(await readAll(cursors[399]!, 1)).toMatchObject({ publications: [{ event: posted(400) }] })
        const late = follow(head)
        await until('the gap', () => late.gaps() === 1)
        expect(late.cursor()).toBe(end)
        const early = follow(cursors[399])
        expect((await early.hasEntries(10_000)).map(({ event }) => event)).toEqual(indexes(10_000, 400).map(posted))
      })

      test.each(['', 'nonsense', 'cDphYmM', 'ä', '../../etc'])('"%s" is not a valid cursor', async (text) => {
        await expect(log.read(TOPIC, text, 1)).rejects.toThrow(BadInputError)
        expect(() => log.follow(TOPIC, { after: text, signal: AbortSignal.timeout(1000) })).toThrow(BadInputError)
      })

      test('an ended topic is removed after its time', async () => {
        const cursors = await fill(3)
        await log.append(TOPIC, posted(3), { once: 'a', ordinal: 7, isFirst: true })
        await log.expire(TOPIC, 2)
        expect(await readAll(cursors[2]!)).toMatchObject({ type: 'publications', publications: [{ event: posted(3) }] })
        await until('the topic is removed', async () => (await readAll(cursors[2]!)).type === 'gap')
        expect(await log.lastOrdinals([TOPIC])).toEqual([null])
        expect(await log.append(TOPIC, posted(4), { once: 'a', ordinal: 1 })).toMatchObject({ type: 'appended' })
      })
    })

    describe('conditions', () => {
      test('a "once" key appends once per topic', async () => {
        const results = await Promise.all(
          indexes(5).map((index) => log.append(TOPIC, posted(index), { once: 'start' })),
        )
        expect(results.map(({ type }) => type)).toEqual(['appended', ...Array(4).fill('duplicate')])
        expect(await log.append('space:two', posted(0), { once: 'start' })).toMatchObject({ type: 'appended' })
        expect(await log.append(TOPIC, posted(0), { once: 'end' })).toMatchObject({ type: 'appended' })
      })

      test('ordinals are appended without a gap and never twice', async () => {
        const [head] = await log.heads([TOPIC])
        expect(await log.lastOrdinals([TOPIC, 'space:two'])).toEqual([null, null])
        expect(await log.append(TOPIC, posted(7), { ordinal: 7 })).toEqual({ type: 'missing', after: null })
        expect(await log.append(TOPIC, posted(7), { ordinal: 7, isFirst: true })).toMatchObject({ type: 'appended' })
        expect(await log.append(TOPIC, posted(7), { ordinal: 7 })).toEqual({ type: 'duplicate' })
        expect(await log.append(TOPIC, posted(9), { ordinal: 9, isFirst: true })).toEqual({ type: 'missing', after: 7 })
        expect(await log.append('space:three', posted(1), { ordinal: 1 })).toMatchObject({ type: 'appended' })
        expect(await log.append(TOPIC, posted(3), { ordinal: 3 })).toEqual({ type: 'duplicate' })
        expect(await log.append(TOPIC, posted(10), { ordinal: 10 })).toEqual({ type: 'missing', after: 7 })
        expect(await log.append(TOPIC, posted(8), { ordinal: 8 })).toMatchObject({ type: 'appended' })
        await log.append(TOPIC, posted(0))
        expect(await log.lastOrdinals([TOPIC, 'space:two'])).toEqual([8, null])
        expect(await readAll(head!)).toMatchObject({
          publications: [{ event: posted(7) }, { event: posted(8) }, { event: posted(0) }],
        })
      })

      test('a sealed run appends nothing more, in any topic', async () => {
        const [head] = await log.heads([TOPIC])
        const text = { messageId: 'msg_1', partIndex: 0 }
        await log.append(TOPIC, posted(1), { unlessSealed: 'run_1' })
        await log.appendDelta(TOPIC, { ...text, offset: 0, delta: 'be' }, () => 'be', { unlessSealed: 'run_1' })
        await log.seal('run_1', [TOPIC, 'space:two'])
        expect(await log.append(TOPIC, posted(2), { unlessSealed: 'run_1', once: 'a', ordinal: 1 })).toEqual({
          type: 'sealed',
        })
        expect(await log.append('space:two', posted(2), { unlessSealed: 'run_1' })).toEqual({ type: 'sealed' })
        const delta = { ...text, offset: 2, delta: 'fore' }
        expect(await log.appendDelta(TOPIC, delta, () => 'before', { unlessSealed: 'run_1' })).toBeNull()
        const replacement = { ...text, offset: 1, text: 'y' }
        expect(await log.replaceText(TOPIC, replacement, 'by', { unlessSealed: 'run_1' })).toBeNull()
        expect(await log.drafts(TOPIC, ['msg_1'])).toEqual(new Map([['msg_1', new Map([[0, 'be']])]]))
        expect(await log.append(TOPIC, posted(3), { unlessSealed: 'run_2', once: 'a', ordinal: 1 })).toMatchObject({
          type: 'appended',
        })
        expect(await log.append(TOPIC, posted(4), { once: 'b' })).toMatchObject({ type: 'appended' })
        const page = await readAll(head!)
        expect(page.type === 'publications' && page.publications.map(({ event }) => event.type)).toEqual([
          'MessagePosted',
          'MessageTextDelta',
          'MessagePosted',
          'MessagePosted',
        ])
      })
    })

    describe('forgetting', () => {
      test('an event with `forgets` removes earlier ones: older cursors cause a gap', async () => {
        const [head] = await log.heads([TOPIC])
        const follower = follow()
        await until('the follower is active', () => follower.gaps() === 1)
        const cursors = await fill(20)
        await follower.hasEntries(20)
        await log.append(TOPIC, posted(20), { forgets: true, ordinal: 21, isFirst: true })
        expect((await follower.hasEntries(21)).at(-1)?.event).toMatchObject(posted(20))
        expect(follower.gaps()).toBe(1)

        const [end] = await log.heads([TOPIC])
        for (const cursor of [head!, cursors[0]!, cursors[18]!])
          expect(await readAll(cursor)).toEqual({ type: 'gap', cursor: end })
        expect(await readAll(cursors[19]!)).toMatchObject({ publications: [{ event: posted(20) }] })
        const late = follow(cursors[5])
        await until('the late follower is active', () => late.gaps() === 1)
        expect(late.entries()).toEqual([])

        await log.append(TOPIC, posted(21), { ordinal: 22 })
        expect((await late.hasEntries(1))[0]!.event).toEqual(posted(21))
        expect((await follower.hasEntries(22)).at(-1)?.event).toEqual(posted(21))
        expect(await readAll(end!)).toMatchObject({ publications: [{ event: posted(21) }] })
      })

      test('concurrent appends keep their order, and no earlier entry is read again', async () => {
        const [head] = await log.heads([TOPIC])
        const follower = follow()
        await until('the follower is active', () => follower.gaps() === 1)
        await Promise.all([
          ...indexes(10).map((index) => log.append(TOPIC, posted(index))),
          log.append(TOPIC, posted(10), { forgets: true }),
          ...indexes(10, 11).map((index) => log.append(TOPIC, posted(index))),
        ])
        const [end] = await log.heads([TOPIC])
        await until('the follower is at the end', () => follower.cursor() === end)
        const late = follow(head)
        await until('the late follower is active', () => late.gaps() === 1)
        expect(late.entries()).toEqual([])
        expect(await readAll(head!)).toMatchObject({ type: 'gap' })
      })
    })

    describe('drafts', () => {
      test('a replaced text is published from its first changed character, and the draft has the whole text', async () => {
        const [head] = await log.heads([TOPIC])
        const part = { messageId: 'msg_1', partIndex: 0 }
        await Promise.all([
          log.appendDelta(TOPIC, { ...part, offset: 0, delta: 'before' }, () => 'before'),
          log.replaceText(TOPIC, { ...part, offset: 2, text: 'ar 🐻' }, 'bear 🐻'),
          log.appendDelta(TOPIC, { ...part, offset: 7, delta: '!' }, () => 'bear 🐻!'),
        ])
        expect(await log.drafts(TOPIC, ['msg_1'])).toEqual(new Map([['msg_1', new Map([[0, 'bear 🐻!']])]]))
        await log.replaceText(TOPIC, { ...part, offset: 1, text: '' }, 'b')
        expect(await log.drafts(TOPIC, ['msg_1'])).toEqual(new Map([['msg_1', new Map([[0, 'b']])]]))
        expect(await readAll(head!)).toMatchObject({
          publications: [
            { event: { type: 'MessageTextDelta', ...part, offset: 0, delta: 'before' } },
            { event: { type: 'MessageTextReplaced', ...part, offset: 2, text: 'ar 🐻' } },
            { event: { type: 'MessageTextDelta', ...part, offset: 7, delta: '!' } },
            { event: { type: 'MessageTextReplaced', ...part, offset: 1, text: '' } },
          ],
        })
      })

      /** Writes a part in pieces, without waiting for the previous piece before sending the next. */
      async function write(messageId: string, partIndex: number, pieces: string[], from = ''): Promise<void> {
        let text = from
        const writing = pieces.map((delta) => {
          const offset = text.length
          text += delta
          const whole = text
          return log.appendDelta(TOPIC, { messageId, partIndex, offset, delta }, () => whole)
        })
        await Promise.all(writing)
      }

      test('deltas extend a draft part by part', async () => {
        await write('msg_1', 0, ['Hel', 'lo', '', ' "you"\n'])
        await write('msg_1', 2, ['third'])
        await write('msg_2', 0, ['other'])
        await write('msg_1', 0, ['!'], 'Hello "you"\n')
        expect(await log.drafts(TOPIC, ['msg_2', 'msg_1', 'msg_0', 'msg_1'])).toEqual(
          new Map([
            [
              'msg_1',
              new Map([
                [0, 'Hello "you"\n!'],
                [2, 'third'],
              ]),
            ],
            ['msg_2', new Map([[0, 'other']])],
          ]),
        )
      })

      test('deltas arrive as events with their message, part and offset', async () => {
        const [head] = await log.heads([TOPIC])
        await write('msg_1', 1, ['ab', 'cd'])
        const event = { type: 'MessageTextDelta', messageId: 'msg_1', partIndex: 1 }
        expect(await readAll(head!)).toMatchObject({
          publications: [
            { event: { ...event, offset: 0, delta: 'ab' } },
            { event: { ...event, offset: 2, delta: 'cd' } },
          ],
        })
      })

      test('any text is returned unchanged, however it was split', async () => {
        const text = 'Zeile\r\n\t"\\u0041" \\ 😀👩‍👩‍👧 ﷽ \u2028 \u0001 ü\u0308 %s {0} é'
        await write('msg_1', 0, text.split(''))
        await write('msg_2', 0, [text.repeat(500)])
        const drafts = await log.drafts(TOPIC, ['msg_1', 'msg_2'])
        expect(drafts.get('msg_1')?.get(0)).toBe(text)
        expect(drafts.get('msg_2')?.get(0)).toBe(text.repeat(500))
      })

      test('a repeated delta is not appended again', async () => {
        await write('msg_1', 0, ['abc', 'def'])
        const [head] = await log.heads([TOPIC])
        const again = { messageId: 'msg_1', partIndex: 0, offset: 3, delta: 'def' }
        expect(await log.appendDelta(TOPIC, again, () => 'abcdef')).toBe(head)
        expect(await log.heads([TOPIC])).toEqual([head])
        expect((await log.drafts(TOPIC, ['msg_1'])).get('msg_1')?.get(0)).toBe('abcdef')
      })

      test('after a draft is lost, the whole text is appended from offset 0', async () => {
        const [head] = await log.heads([TOPIC])
        await log.appendDelta(TOPIC, { messageId: 'msg_1', partIndex: 0, offset: 3, delta: 'def' }, () => 'abcdef')
        await write('msg_1', 0, ['ghi'], 'abcdef')
        expect((await log.drafts(TOPIC, ['msg_1'])).get('msg_1')?.get(0)).toBe('abcdefghi')
        expect(await readAll(head!)).toMatchObject({
          publications: [{ event: { offset: 0, delta: 'abcdef' } }, { event: { offset: 6, delta: 'ghi' } }],
        })
      })

      test('a burst after a loss keeps its order, and later entries stay behind it', async () => {
        const [head] = await log.heads([TOPIC])
        const text = 'abcdefghijklmnop'
        const writing = indexes(12, 3).map((offset) =>
          log.appendDelta(TOPIC, { messageId: 'msg_1', partIndex: 0, offset, delta: text[offset]! }, () =>
            text.slice(0, offset + 1),
          ),
        )
        const finished = log.append(TOPIC, { type: 'MessageFinished', messageId: 'msg_1' })
        await Promise.all([...writing, finished])
        expect((await log.drafts(TOPIC, ['msg_1'])).get('msg_1')?.get(0)).toBe(text.slice(0, 15))
        const page = await readAll(head!)
        expect(page.type === 'publications' && page.publications.at(-1)?.event.type).toBe('MessageFinished')
      })

      test('a finished draft stays readable for a while', async () => {
        await write('msg_1', 0, ['done'])
        await log.finishDraft(TOPIC, 'msg_1')
        await log.finishDraft(TOPIC, 'msg_unknown')
        expect((await log.drafts(TOPIC, ['msg_1'])).get('msg_1')?.get(0)).toBe('done')
      })

      test('a draft read after the head contains everything up to that head', async () => {
        const pieces = indexes(300).map((index) => `${index} `)
        const text = pieces.join('')
        const writing = write('msg_1', 0, pieces)
        let done = false
        void writing.then(() => {
          done = true
        })
        while (!done) {
          const [head] = await log.heads([TOPIC])
          const known = (await log.drafts(TOPIC, ['msg_1'])).get('msg_1')?.get(0) ?? ''
          const page = await log.read(TOPIC, head!, 1)
          if (page.type === 'publications' && page.publications[0]) {
            expect((page.publications[0].event as unknown as { offset: number }).offset).toBeLessThanOrEqual(
              known.length,
            )
          }
          expect(text.startsWith(known)).toBe(true)
        }
        await writing
        expect((await log.drafts(TOPIC, ['msg_1'])).get('msg_1')?.get(0)).toBe(text)
      })
    })

    describe('leaving', () => {
      const nobody = { topics: 0, followers: 0 }

      test('an abort ends waiting followers, and leaves no resources behind', async () => {
        const controller = new AbortController()
        const { signal } = controller
        const iterations = indexes(20).map(() => log.follow(TOPIC, { signal }))
        await Promise.all(iterations.map((iteration) => iteration.next()))
        expect(log.stats()).toEqual({ topics: 1, followers: 20 })
        const waiting = iterations.map((iteration) => iteration.next())
        controller.abort()
        expect(await Promise.all(waiting)).toEqual(Array(20).fill({ done: true, value: undefined }))
        expect(log.stats()).toEqual(nobody)
        expect(getEventListeners(signal, 'abort')).toEqual([])
      })

      test('an iteration that never started, or started after an abort, uses no resources', async () => {
        const controller = new AbortController()
        const { signal } = controller
        const iteration = log.follow(TOPIC, { signal })
        expect(getEventListeners(signal, 'abort')).toEqual([])
        controller.abort()
        expect(await iteration.next()).toEqual({ done: true, value: undefined })
        expect(log.stats()).toEqual(nobody)
      })

      test('a consumer that returns during a wait is released at once', async () => {
        const { signal } = new AbortController()
        const iteration = log.follow(TOPIC, { signal })
        await iteration.next()
        const waiting = iteration.next()
        await iteration.return!()
        expect(await waiting).toEqual({ done: true, value: undefined })
        expect(log.stats()).toEqual(nobody)
        expect(getEventListeners(signal, 'abort')).toEqual([])
      })

      test('a consumer that breaks out of its loop is released', async () => {
        await fill(2)
        const { signal } = new AbortController()
        for await (const _ of log.follow(TOPIC, { signal })) break
        expect(log.stats()).toEqual(nobody)
        expect(getEventListeners(signal, 'abort')).toEqual([])
      })

      test('waiting a thousand times adds no listener to the abort signal', async () => {
        const controller = new AbortController()
        const iteration = log.follow(TOPIC, { signal: controller.signal })
        await iteration.next()
        for (const index of indexes(1000)) {
          const waiting = iteration.next()
          await log.append(TOPIC, posted(index))
          await waiting
        }
        expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1)
        controller.abort()
      })

      test('closing ends every follower and refuses new calls', async () => {
        const follower = follow()
        await until('the follower is active', () => follower.gaps() === 1)
        await log.close()
        await follower.stop()
        expect(follower.fault.error).toBeUndefined()
        expect(log.stats()).toEqual(nobody)
        await expect(log.append(TOPIC, posted(1))).rejects.toThrow(LogUnavailableError)
      })
    })

    describe('a consumer that cannot keep up', () => {
      /** Starts an active follower that stops reading. */
      async function startStuck() {
        const controller = new AbortController()
        const found = { slow: 0 }
        const onSlow = () => {
          found.slow += 1
        }
        const iteration = log.follow(TOPIC, { signal: controller.signal, onSlow })
        await iteration.next()
        const first = iteration.next()
        await log.append(TOPIC, posted(-1))
        await first
        return { iteration, found, stop: () => controller.abort() }
      }

      test('is disconnected beyond 1,000 waiting entries, and does not slow others', async () => {
        const quick = follow()
        const stuck = await startStuck()
        await until('the follower is active', () => quick.gaps() === 1)
        await fill(1000)
        await quick.hasEntries(1000)
        expect(stuck.found.slow).toBe(0)
        await fill(1)
        await until('the slow consumer is detected', () => stuck.found.slow === 1)
        await fill(50)
        await expect(stuck.iteration.next()).rejects.toThrow(SlowConsumerError)
        expect(stuck.found.slow).toBe(1)
        await quick.hasEntries(1051)
        expect(quick.gaps()).toBe(1)
        await quick.stop()
        expect(log.stats()).toEqual({ topics: 0, followers: 0 })
      })

      test('is disconnected beyond 4 MiB', async () => {
        const stuck = await startStuck()
        const large = { type: 'RunTextDelta', step: 0, delta: 'x'.repeat(1024 * 1024) }
        for (const _ of indexes(5)) await log.append(TOPIC, large)
        await until('the slow consumer is detected', () => stuck.found.slow === 1)
        await expect(stuck.iteration.next()).rejects.toThrow(SlowConsumerError)
      })

      test('resumes from its last cursor', async () => {
        const stuck = await startStuck()
        const [last] = await log.heads([TOPIC])
        await fill(1200)
        await until('the slow consumer is detected', () => stuck.found.slow === 1)
        const resumed = follow(last)
        expect((await resumed.hasEntries(1200)).map(({ event }) => event)).toEqual(indexes(1200).map(posted))
        expect(resumed.gaps()).toBe(0)
        stuck.stop()
      })

      test('may read missed entries slowly: they do not wait in memory', async () => {
        const [head] = await log.heads([TOPIC])
        await fill(3000)
        let appended = 3000
        let taken = 0
        for await (const delivery of log.follow(TOPIC, { after: head, signal: new AbortController().signal })) {
          expect(delivery.type).toBe('publications')
          taken += delivery.type === 'publications' ? delivery.publications.length : 0
          if (taken === appended) break
          if (taken < 1000) appended += (await fill(600)).length
        }
        expect(taken).toBeGreaterThan(3600)
      })
    })

    test('reports that it is healthy', async () => {
      expect(await log.healthy()).toBe(true)
    })
  })
}
