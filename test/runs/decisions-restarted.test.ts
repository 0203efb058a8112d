import { expect, test } from 'vitest'
import { openStores, RULE_STACKS, type TestApplication } from '../support/application.ts'
import { decideOverRestarts } from '../support/decision-restarts.ts'
import { startModelServer } from '../support/model-server.ts'
import { startTestServer } from '../support/served.ts'

test.each(RULE_STACKS)(
  'decisions survive three restarts of the server, on the %s stack',
  {
    timeout: 120_000,
  },
  async (stack) => {
    const [models, stores] = await Promise.all([startModelServer(), openStores(stack)])
    const beside = { models, stores } as TestApplication
    const adminToken = 'an-admin-token-of-a-server-that-ends-often'
    await decideOverRestarts({
      models,
      async start() {
        const { origin, close: end } = await startTestServer({
          stack,
          beside,
          settings: { PARLEY_ADMIN_TOKEN: adminToken },
        })
        return { origin, adminToken, end }
      },
    })
    expect(models.refusals).toEqual([])
    await models.close()
    await stores.close()
  },
)
