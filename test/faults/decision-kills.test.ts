import { afterEach, describe, expect, test } from 'vitest'
import { STACKS } from '../support/application.ts'
import { decideOverRestarts } from '../support/decision-restarts.ts'
import { openStores } from '../support/far-stage.ts'
import { type ModelServer, startModelServer } from '../support/model-server.ts'
import { startParley } from '../support/parley-process.ts'
import { canStartRedis } from '../support/throwaway-redis.ts'

describe.skipIf(!canStartRedis()).each(STACKS)('decisions, on the %s stack', (stack) => {
  let models: ModelServer
  afterEach(() => models?.close())

  test('survive kill -9 between two approvals, during the tool calls, and before a result', {
    timeout: 240_000,
  }, async () => {
    models = await startModelServer()
    const stores = await openStores(stack, models)
    await decideOverRestarts({
      models,
      async start() {
        const { origin, adminToken, kill: end } = await startParley({ settings: stores.settings })
        return { origin, adminToken, end }
      },
    })
    expect(models.refusals).toEqual([])
    await stores.dispose()
  })
})
