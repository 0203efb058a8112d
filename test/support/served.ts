import type { Viewer } from '../../src/access/viewer.ts'
import type { PacesOptions } from '../../src/delivery/backpressure.ts'
import { type RunningServer, startServer } from '../../src/server/server.ts'
import { startApplication, type TestApplication, type TestApplicationOptions } from './application.ts'
import { createParleyClient, type ParleyClient } from './parley-client.ts'

/** The application with its server, in this process. */
export interface TestServer extends TestApplication {
  server: RunningServer
  /** `http://127.0.0.1:<port>`, without a path. */
  origin: string
  /** Creates a token of a human, a service or an admin. */
  tokenOf(viewer: Viewer): Promise<string>
  /** Creates a client with its own new token. It is closed together with the server. */
  clientOf(viewer: Viewer): Promise<ParleyClient>
}

export interface TestServerOptions extends TestApplicationOptions {
  keepAliveMs?: number
  pacing?: PacesOptions
}

export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  const { keepAliveMs, pacing, ...others } = options
  const parley = await startApplication(others)
  const { app } = parley
  const config = app.platform.config
  const server = await startServer({
    app,
    config,
    ...(keepAliveMs === undefined ? {} : { keepAliveMs }),
    ...(pacing === undefined ? {} : { pacing }),
  })
  const origin = `http://127.0.0.1:${server.port}`
  const clients: ParleyClient[] = []

  async function tokenOf(viewer: Viewer): Promise<string> {
    const { secret } = await parley.app.domain.tokens.create(parley.admin, { grant: grantOf(viewer) })
    return secret
  }

  return {
    ...parley,
    server,
    origin,
    tokenOf,
    async clientOf(viewer) {
      const client = createParleyClient({ origin, token: await tokenOf(viewer) })
      clients.push(client)
      return client
    },
    async close() {
      await Promise.all(clients.map((client) => client.close()))
      await server.close({ drain: false })
      await parley.close()
    },
  }
}

function grantOf(viewer: Viewer) {
  if (viewer.scope === 'HUMAN') return { humanId: viewer.id }
  return viewer.scope === 'ADMIN' ? { admin: {} } : { service: { name: viewer.name, agentIds: viewer.agentIds } }
}
