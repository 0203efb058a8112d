import type { Application } from '../app.ts'
import type { RunningServer } from '../server/server.ts'

/**
 * Ends a process in order. At the same time no new requests and no new work: requests may finish, sockets are closed with
 * 1001, runs have `graceMs` and are handed back. Only then goes what both of them need: database, queue and realtime.
 */
export async function shutDown(app: Application, server: RunningServer, graceMs: number): Promise<void> {
  await Promise.all([server.close(), app.stopWorker(graceMs)])
  await app.close(0)
}
