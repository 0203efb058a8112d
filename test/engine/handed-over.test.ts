import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'
import { until } from '../support/until.ts'

const DEPLOYS = 5

describe.each(RULE_STACKS)('a call that is handed over from worker to worker, on the %s stack', (stack) => {
  let parley: TestApplication
  let service: Server
  const keys: string[] = []
  const held: ServerResponse[] = []

  beforeAll(async () => {
    parley = await startApplication({ stack, worker: false })
    service = createServer((request, response) => {
      keys.push(String(request.headers['idempotency-key']))
      held.push(response)
    })
    await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve))
  })
  afterAll(async () => {
    service?.closeAllConnections()
    service?.close()
    await parley?.close()
  })

  test(`${DEPLOYS} deploys during one slow tool cost nothing, and the run ends as if there had been none`, async () => {
    const url = `http://127.0.0.1:${(service.address() as AddressInfo).port}/`
    const book = { name: 'book', description: 'Books.', inputSchema: { type: 'object' }, execution: 'HTTP' as const }
    const { human, space } = await parley.room('Ada', { tools: [{ ...book, url, timeoutMs: 60_000 }] })
    parley.models.script(
      steps([{ toolCall: 'book', input: {} }], [{ toolCall: 'send_message', input: { text: 'Booked.' } }]),
    )
    const { runs } = await parley.send(human, space.id, 'Book it')
    const runId = runs[0]?.id ?? ''
    const startWorker = () => parley.app.startWorker()
    for (let deploy = 1; deploy <= DEPLOYS; deploy++) {
      await startWorker()
      await until(`worker ${deploy} calls the tool`, () => keys.length === deploy)
      await parley.app.stopWorker(0)
      expect(await parley.run(runId)).toMatchObject({ status: 'RUNNING', attempt: deploy, fruitlessAttempts: 0 })
    }
    await startWorker()
    await until('the last worker calls the tool', () => keys.length === DEPLOYS + 1)
    held.at(-1)?.writeHead(200, { 'content-type': 'application/json' }).end('{"booked":true}')
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED', error: null, fruitlessAttempts: 0 })
    expect(new Set(keys).size).toBe(1)
    expect((await parley.messages(space.id)).map(({ status }) => status)).toEqual(['COMPLETE', 'COMPLETE'])
    expect(parley.models.requests.map(({ step }) => step)).toEqual([0, 1, 2])
    expect(parley.models.refusals).toEqual([])
  })
})
