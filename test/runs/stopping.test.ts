import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { sleep } from '../../src/lib/async.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'
import { hasPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

/** Stops a run at several times during its start, each later than the previous one. */
const STOPS = 25
const STEP_MS = 12
const LET_GO_WITHIN_MS = 1000

describe.skipIf(!hasPostgres)('stopRun', () => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack: 'postgres' })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  const stop = async (viewer: Awaited<ReturnType<typeof parley.human>>, runId: string, cascade = false) =>
    (await parley.app.domain.control.stopRun(viewer, { runId, cascade })).run

  test('stopping a QUEUED run: the run never starts', async () => {
    const { human, space } = await parley.room('Queue', { maxConcurrentRuns: 1 })
    const hold = Promise.withResolvers<void>()
    parley.models.script(async () => {
      await hold.promise
      return [{ text: 'Done.' }]
    })
    const first = await parley.send(human, space.id, 'One')
    await parley.runWhen(first.runs[0]?.id ?? '', 'RUNNING')
    const second = await parley.send(human, space.id, 'Two')
    const runId = second.runs[0]?.id ?? ''
    expect(await stop(human, runId)).toMatchObject({ status: 'CANCELED', startedAt: null })
    hold.resolve()
    await parley.runWhen(first.runs[0]?.id ?? '')
    expect(await parley.run(runId)).toMatchObject({ status: 'CANCELED', attempt: 0 })
    expect(await parley.eventsOf(runId)).toEqual(['RunCanceled'])
  })

  test('stopping a run before the first token: the model request is canceled', async () => {
    const { human, space } = await parley.room('Early')
    parley.models.script(() => [{ hang: true }])
    const { runs } = await parley.send(human, space.id, 'Hello')
    const request = await parley.models.request(() => true)
    await stop(human, runs[0]?.id ?? '')
    expect(await request.ended).toBe('aborted')
    expect(await parley.eventsOf(runs[0]?.id ?? '')).toEqual(['RunStarted', 'RunCanceled'])
  })

  test('stopping a run at any time during its start: within a second there are no more model requests', async () => {
    const { human, space } = await parley.room('Any')
    const letGo: { runId: string; end: string; at: number }[] = []
    parley.models.script(({ ended, instructions }) => {
      const [, runId = ''] = /- Run (run_\w+) \(this run\)/.exec(instructions) ?? []
      void ended.then((end) => letGo.push({ runId, end, at: performance.now() }))
      return [{ hang: true }]
    })
    const stoppedAt = new Map<string, number>()
    for (let n = 0; n < STOPS; n++) {
      const { runs } = await parley.send(human, space.id, `Hello ${n}`)
      const runId = runs[0]?.id ?? ''
      await sleep(n * STEP_MS)
      expect(await stop(human, runId)).toMatchObject({ status: 'CANCELED' })
      stoppedAt.set(runId, performance.now())
    }
    await Promise.all(parley.models.requests.map(({ ended }) => ended))
    const late = letGo.filter(({ runId, at }) => at - (stoppedAt.get(runId) ?? 0) > LET_GO_WITHIN_MS)
    expect(late).toEqual([])
    expect(new Set(letGo.map(({ end }) => end))).toEqual(new Set(['aborted']))
  })

  test('stopping a run a second time, or after its end: ConflictError', async () => {
    const { human, space } = await parley.room('Twice')
    parley.models.script(() => [{ text: 'Quick.' }])
    const { runs } = await parley.send(human, space.id, 'Hello')
    await parley.runWhen(runs[0]?.id ?? '')
    await expect(stop(human, runs[0]?.id ?? '')).rejects.toMatchObject({ code: 'CONFLICT' })
  })

  test('stopping a run as a stranger: the run does not exist', async () => {
    const { human, space } = await parley.room('Private')
    const stranger = await parley.human('Stranger')
    parley.models.script(() => [{ hang: true }])
    const { runs } = await parley.send(human, space.id, 'Hello')
    await expect(stop(stranger, runs[0]?.id ?? '')).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await stop(human, runs[0]?.id ?? '')
  })

  describe('inside an HTTP tool', () => {
    let server: Server
    const calls: { idempotencyKey: string | undefined; body: string }[] = []
    beforeAll(async () => {
      server = createServer((request, response) => {
        let body = ''
        request.on('data', (chunk) => {
          body += chunk
        })
        request.on('end', () => {
          calls.push({ idempotencyKey: request.headers['idempotency-key'] as string, body })
          if (request.url === '/weather') response.setHeader('content-type', 'application/json').end('{"sky":"clear"}')
        })
      }).listen(0, '127.0.0.1')
      await new Promise((resolve) => server.once('listening', resolve))
    })
    afterAll(() => {
      server.closeAllConnections()
      server.close()
    })
    const tool = (path: string) => ({
      name: 'weather',
      description: 'Says what the sky is like.',
      inputSchema: { type: 'object', properties: { city: { type: 'string' } } },
      execution: 'HTTP' as const,
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`,
      headers: { 'x-secret': 'hush' },
    })

    test('stopping a tool that never responds: the response is immediate, and the call is CANCELED', async () => {
      const { human, space } = await parley.room('Stuck', { tools: [tool('/never')] })
      parley.models.script(steps([{ toolCall: 'weather', input: { city: 'Aden' } }]))
      const { runs } = await parley.send(human, space.id, 'Weather?')
      await until('the tool was called', () => calls.length > 0)
      await stop(human, runs[0]?.id ?? '')
      const [call] = (await parley.app.domain.toolCalls.ofRuns([runs[0]?.id ?? ''])).get(runs[0]?.id ?? '') ?? []
      expect(call).toMatchObject({ status: 'CANCELED' })
      expect((await parley.eventsOf(runs[0]?.id ?? '')).at(-1)).toBe('RunCanceled')
    })

    test('an HTTP tool gets its input as JSON with the call as Idempotency-Key, and its response is the result', async () => {
      const { human, space } = await parley.room('Sky', { tools: [tool('/weather')] })
      parley.models.script(steps([{ toolCall: 'weather', input: { city: 'Aden' } }], [{ text: 'Clear.' }]))
      const { runs } = await parley.send(human, space.id, 'Weather?')
      await parley.runWhen(runs[0]?.id ?? '')
      const [call] = (await parley.app.domain.toolCalls.ofRuns([runs[0]?.id ?? ''])).get(runs[0]?.id ?? '') ?? []
      expect(call).toMatchObject({ status: 'DONE', output: { sky: 'clear' } })
      expect(calls.at(-1)).toEqual({ idempotencyKey: call?.id, body: '{"city":"Aden"}' })
    })
  })

  test('the record of a step equals the prompt, word for word', async () => {
    const { human, space } = await parley.room('Glass')
    parley.models.script(steps([{ toolCall: 'send_message', input: { text: 'One.' } }], [{ text: 'Said it.' }]))
    const { runs } = await parley.send(human, space.id, 'Show me')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    const request = { size: 20, fromEnd: false, after: null, before: null }
    const [page] = await parley.app.domain.stepRecords.pageMany([run.id], request)
    const records = page instanceof Error ? [] : (page?.items ?? [])
    expect(records.map(({ index, model }) => ({ index, model }))).toEqual([
      { index: 0, model: 'openai.chat:test' },
      { index: 1, model: 'openai.chat:test' },
    ])
    for (const [index, record] of records.entries()) {
      const sent = parley.models.requests[index]
      expect(record.instructions).toBe(sent?.instructions)
      expect(record.messages).toHaveLength((sent?.messages.length ?? 0) - 1)
      expect(record.activeTools.sort()).toEqual(sent?.toolNames.sort())
    }
    expect(records[1]?.messages.slice(0, records[0]?.messages.length)).toEqual(records[0]?.messages)
    expect(records[0]?.response).toMatchObject([{ role: 'assistant' }, { role: 'tool' }])
    expect(records[1]?.response).toEqual([{ role: 'assistant', content: [{ type: 'text', text: 'Said it.' }] }])
  })
})
