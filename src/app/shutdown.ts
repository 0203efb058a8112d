import type { Application } from '../app.ts'
import type { RunningServer } from '../server/server.ts'

/**
 * Shuts the process down. First, it stops accepting requests and claiming runs. Requests in progress can finish,
 * sockets are closed with 1001, and runs get `graceMs` before they are released. Then it closes the database, the queue
 * and the broker, because requests and runs need these until then.
 */
export async function shutDown(app: Application, server: RunningServer, graceMs: number): Promise<void> {
  await Promise.all([server.close(), app.stopWorker(graceMs)])
  await app.close(0)
}
