import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'
import { until } from '../support/until.ts'

const DEPLOYS = 5

describe.each(RULE_STACKS)('a call that workers hand over to one another, on the %s stack', (stack) => {
  let parley: TestApplication
  let service: Server
  const calls: { key: string; input: unknown; response: ServerResponse }[] = []

  beforeAll(async () => {
    parley = await startApplication({ stack, worker: false })
    service = createServer(async (request, response) => {
      const input: unknown = JSON.parse(await text(request))
      calls.push({ key: String(request.headers['idempotency-key']), input, response })
    })
    await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve))
  })
  beforeEach(() => {
    calls.length = 0
    parley.models.reset()
  })
  afterEach(() => parley.app.stopWorker(0))
  afterAll(async () => {
    service?.closeAllConnections()
    service?.close()
    await parley?.close()
  })

  /** Starts a run whose model first calls the tool, and then reports the result. */
  async function booking(name: string, input: object) {
    const url = `http://127.0.0.1:${(service.address() as AddressInfo).port}/`
    const book = { name: 'book', description: 'Books.', inputSchema: { type: 'object' }, execution: 'HTTP' as const }
    const { human, space } = await parley.room(name, { tools: [{ ...book, url, timeoutMs: 60_000 }] })
    const said = { toolCall: 'send_message', input: { text: 'Booked.' } }
    parley.models.script(steps([{ toolCall: 'book', input }], [said]))
    const { runs } = await parley.send(human, space.id, 'Book it')
    return { space, runId: runs[0]?.id ?? '' }
  }

  /** Resolves when the next worker has also called the tool. */
  async function startNext(): Promise<void> {
    const before = calls.length
    await parley.app.startWorker()
    await until(`worker ${before + 1} calls the tool`, () => calls.length > before)
  }

  const answer = () =>
    calls.at(-1)?.response.writeHead(200, { 'content-type': 'application/json' }).end('{"booked":true}')

  test(`${DEPLOYS} deployments during one slow tool call use no attempt, and the run ends as if there had been none`, async () => {
    const { space, runId } = await booking('Ada', {})
    for (let deploy = 1; deploy <= DEPLOYS; deploy++) {
      await startNext()
      await parley.app.stopWorker(0)
      expect(await parley.run(runId)).toMatchObject({ status: 'RUNNING', attempt: deploy, fruitlessAttempts: 0 })
    }
    await startNext()
    answer()
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED', error: null, fruitlessAttempts: 0 })
    expect(calls).toHaveLength(DEPLOYS + 1)
    expect(new Set(calls.map(({ key }) => key)).size).toBe(1)
    expect((await parley.messages(space.id)).map(({ status }) => status)).toEqual(['COMPLETE', 'COMPLETE'])
    expect(parley.models.requests.map(({ step }) => step)).toEqual([0, 1, 2])
    expect(parley.models.refusals).toEqual([])
  })

  test('a run that exceeds its time limit in a resumed tool fails for that reason, and does not call it again', async () => {
    const { runId } = await booking('Bea', {})
    await startNext()
    await parley.app.stopWorker(0)
    await startNext()
    await parley.app.platform.db.prisma.run.update({ where: { id: runId }, data: { deadlineAt: new Date(0) } })
    const error = expect.stringMatching(/^The run exceeded the time limit of 1800 s/)
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'FAILED', error, attempt: 2 })
    expect(calls).toHaveLength(2)
    expect(await parley.app.domain.toolCalls.ofRuns([runId])).toMatchObject(
      new Map([[runId, [{ status: 'CANCELED' }]]]),
    )
    expect(parley.models.requests).toHaveLength(1)
  })

  test('a repeated call has the same input as the first call and the journal, even if the database cannot store it exactly', async () => {
    const { runId } = await booking('Cleo', { where: 'here\0there', who: '\ud800Bob', how: ['\udc00', 1e21] })
    await startNext()
    await parley.app.stopWorker(0)
    await startNext()
    answer()
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED' })
    const [call] = (await parley.app.domain.toolCalls.ofRuns([runId])).get(runId) ?? []
    expect(calls.map(({ input }) => input)).toEqual([call?.input, call?.input])
    expect(call?.input).toEqual({ where: 'herethere', who: '\ufffdBob', how: ['\ufffd', 1e21] })
  })
})
