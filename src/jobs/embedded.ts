import { openDatabase } from '../platform/db.ts'
import { openJobs } from './jobs.ts'

/** Creates an embedded database in the state after a server's first start. */
export async function makeEmbedded(dataDirectory: string): Promise<void> {
  const db = await openDatabase({ url: null, dataDirectory })
  const jobs = await openJobs(db, { supervise: false, onError: () => {} })
  await jobs.close()
  await db.close()
}
