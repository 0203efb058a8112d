import { describe, expect, test } from 'vitest'
import { readCard } from '../../src/tools/a2a/card.ts'
import { eventsIn } from '../../src/tools/a2a/event-stream.ts'
import {
  answerIn,
  type RemoteTask,
  readTask,
  shownTask,
  taskAfter,
  textOfParts,
} from '../../src/tools/a2a/remote-task.ts'
import { withoutBeginnings, withoutValues } from '../../src/tools/custom/header-removal.ts'

const task = (more: Partial<RemoteTask> = {}): RemoteTask => ({
  id: 't',
  contextId: 'c',
  state: 'WORKING',
  status: '',
  artifacts: [],
  ...more,
})
const artifact = (id: string, text: string, append = false, taskId = 't') => ({
  artifactUpdate: { taskId, artifact: { artifactId: id, parts: [{ text }] }, append },
})

describe('a task of an agent on another server', () => {
  test('grows by the events of its stream, in the order in which artifacts began', () => {
    const events = [
      artifact('a', 'One'),
      artifact('b', 'Two'),
      artifact('a', ' more', true),
      artifact('c', 'of another task', false, 'other'),
      { statusUpdate: { taskId: 't', status: { state: 'TASK_STATE_COMPLETED' } } },
      { unknown: true },
      null,
      'text',
    ]
    const after = events.reduce<RemoteTask>((now, event) => taskAfter(now, event), task())
    expect(after.state).toBe('COMPLETED')
    expect(answerIn(after)).toBe('One more\n\nTwo')
  })

  test.each<[string, unknown]>([
    ['no object', 'task'],
    ['no id', { status: { state: 'TASK_STATE_WORKING' } }],
    ['an empty id', { id: '', status: { state: 'TASK_STATE_WORKING' } }],
    ['an endless id', { id: 'x'.repeat(501), status: { state: 'TASK_STATE_WORKING' } }],
    ['an unknown state', { id: 't', status: { state: 'TASK_STATE_DREAMING' } }],
    ['the state of A2A 0.3', { id: 't', status: { state: 'working' } }],
  ])('is not read from %s', (_, value) => {
    expect(readTask(value)).toBeNull()
  })

  test.each<[string, Partial<RemoteTask>, string]>([
    ['a status that is all there is', { state: 'COMPLETED', status: 'Done.' }, 'Done.'],
    [
      'artifacts, not the status beside them',
      { state: 'COMPLETED', status: 'Done.', artifacts: [{ id: 'a', text: 'It.' }] },
      'It.',
    ],
    [
      'a question after what was found',
      { state: 'INPUT_REQUIRED', status: 'Which?', artifacts: [{ id: 'a', text: 'Two.' }] },
      'Two.\n\nWhich?',
    ],
    ['no report of progress', { state: 'WORKING', status: 'Searching …' }, ''],
  ])('is answered by %s', (_, more, text) => {
    expect(answerIn(task(more))).toBe(text)
  })

  test('has bounded text', () => {
    const endless = Array.from({ length: 200 }, (_, n) => artifact(`a${n}`, 'x'.repeat(1000), true))
    const after = endless.reduce<RemoteTask>((now, event) => taskAfter(now, event), task())
    expect(answerIn(after).length).toBeLessThanOrEqual(32_001)
    expect(after.artifacts.length).toBeLessThanOrEqual(100)
    expect(textOfParts(Array.from({ length: 100_000 }, () => ({ text: 'xxxx' }))).length).toBeLessThanOrEqual(32_001)
  })

  test('has no more text than the limit in all of its artifacts together, even when the first one is rewritten', () => {
    const long = Array.from({ length: 100 }, (_, n) => artifact(`a${n}`, 'x'.repeat(32_001)))
    const after = [...long, artifact('a0', 'New.')].reduce<RemoteTask>((now, event) => taskAfter(now, event), task())
    expect(after.artifacts.reduce((sum, { text }) => sum + text.length, 0)).toBeLessThanOrEqual(32_001)
    expect(after.artifacts[0]?.text).toBe('New.')
  })

  test('contains no header value, however its text is split', () => {
    const headers = { authorization: 'Bearer canary-secret' }
    const cleaning = { clean: withoutValues(headers), trim: withoutBeginnings(headers) }
    const said = 'You sent Bearer canary-secret, Bearer'
    let now = task()
    let shown = ''
    for (const character of said) {
      now = taskAfter(now, artifact('a', character, true), cleaning)
      shown = answerIn(shownTask(now, cleaning))
      expect(shown).not.toMatch(/Bearer/)
    }
    expect(shown).toBe('You sent [removed], ')
    const ended = taskAfter(now, { statusUpdate: { status: { state: 'TASK_STATE_COMPLETED' } } }, cleaning)
    expect(answerIn(shownTask(ended, cleaning))).toBe('You sent [removed], Bearer')
  })

  test('shows data as JSON, and files by name and address', () => {
    const parts = [
      { text: 'See' },
      { data: { a: 1 } },
      { url: 'https://x.example/f', filename: 'f.pdf' },
      { raw: 'AAAA' },
      7,
    ]
    expect(textOfParts(parts)).toBe('See\n{"a":1}\n\n[f.pdf https://x.example/f]\n')
  })
})

describe('a stream of events', () => {
  const streamOf = (...chunks: string[]) =>
    new ReadableStream<Uint8Array>({
      start(controller) {
        for (const chunk of chunks) controller.enqueue(new TextEncoder().encode(chunk))
        controller.close()
      },
    })
  const read = async (...chunks: string[]) => {
    const events: string[] = []
    for await (const some of eventsIn(streamOf(...chunks), new AbortController().signal)) events.push(...some)
    return events
  }

  test('is read correctly however it is split', async () => {
    const text = ': hello\n\nevent: message\r\ndata: {"a":\r\ndata: 1}\r\n\r\ndata:{"b":"ü"}\n\n'
    for (let size = 1; size < text.length; size += 1) {
      const chunks = text.match(new RegExp(`[\\s\\S]{1,${size}}`, 'g')) ?? []
      expect(await read(...chunks)).toEqual(['{"a":\n1}', '{"b":"ü"}'])
    }
  })

  test('is read in linear time when a long event arrives byte by byte', async () => {
    const bytes = new TextEncoder().encode(`data: ${'x'.repeat(300_000)}\n\n`)
    let at = 0
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (at === bytes.length) controller.close()
        else controller.enqueue(bytes.subarray(at, ++at))
      },
    })
    let count = 0
    const begun = process.cpuUsage()
    for await (const events of eventsIn(body, new AbortController().signal)) count += events.length
    expect(count).toBe(1)
    expect(process.cpuUsage(begun).user / 1000).toBeLessThan(4000)
  })

  test('ends with an event that is too large', async () => {
    await expect(read(...Array.from({ length: 20 }, () => 'x'.repeat(65_536)))).rejects.toThrow('larger than 1 MiB')
    await expect(read(...Array.from({ length: 20 }, () => `data: ${'x'.repeat(65_536)}\n`))).rejects.toThrow(
      'larger than 1 MiB',
    )
  })
})

describe('an agent card', () => {
  const card = (more: object = {}) =>
    JSON.stringify({
      name: 'X',
      supportedInterfaces: [{ url: 'https://a.example/rpc', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
      ...more,
    })
  const read = (text: string, hasHeaders = false) => readCard(text, 'https://a.example/card.json', { hasHeaders })

  test('has a fingerprint that covers every field, in any order', () => {
    const { fingerprint } = read(card({ skills: [], version: '1' }))
    expect(read(card({ version: '1', skills: [] })).fingerprint).toBe(fingerprint)
    expect(read(card({ version: '1', skills: [], unknown: true })).fingerprint).not.toBe(fingerprint)
  })

  test.each<[string, string, boolean]>([
    ['is not JSON', '<html>', false],
    ['is a list', '[]', false],
    ['is nested too deep', `${'{"a":'.repeat(500)}1${'}'.repeat(500)}`, false],
    ['has no interface', card({ supportedInterfaces: [] }), false],
    [
      'has only the interface of an older version',
      card({ supportedInterfaces: [{ url: 'https://a.example', protocolBinding: 'JSONRPC', protocolVersion: '0.3' }] }),
      false,
    ],
    [
      'names another origin, and would be sent credentials',
      card({
        supportedInterfaces: [{ url: 'https://b.example/rpc', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
      }),
      true,
    ],
  ])('is refused if it %s', (_, text, hasHeaders) => {
    expect(() => read(text, hasHeaders)).toThrow('The agent card cannot be used')
  })
})
