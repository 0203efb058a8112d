import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { shutDown } from '../../src/app/shutdown.ts'
import { type RunningServer, startServer } from '../../src/server/server.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { createParleyClient } from '../support/parley-client.ts'

describe('a process that is shutting down', () => {
  let parley: TestApplication
  let server: RunningServer

  beforeAll(async () => {
    parley = await startApplication({ settings: { PORT: '0' } })
    server = await startServer({ app: parley.app, config: parley.app.platform.config })
  })
  afterAll(async () => {
    await parley?.models.close()
    await parley?.stores.close()
  })

  test('keeps its database open until pending requests are answered', async () => {
    const { domain, platform } = parley.app
    const { secret: token } = await domain.tokens.create(parley.admin, { grant: { admin: {} } })
    const client = createParleyClient({ origin: `http://127.0.0.1:${server.port}`, token })
    const [asked, goesOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const { page } = domain.spaces
    domain.spaces.page = async (...input) => {
      asked.resolve()
      await goesOn.promise
      return page(...input)
    }
    const { close } = platform.db
    platform.db.close = () => close().finally(goesOn.resolve)
    const { stopWorker } = parley.app
    parley.app.stopWorker = (graceMs) => stopWorker(graceMs).finally(goesOn.resolve)

    const answer = client.ask('{ spaces { edges { cursor } } }')
    await asked.promise
    const over = shutDown(parley.app, server, 0)
    expect(await answer).toEqual({ status: 200, data: { spaces: { edges: [] } } })
    await over
    await client.close()
  })
})
