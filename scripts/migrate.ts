// npm run migrate: applies all migrations to the configured database, including the job queue's tables, and exits. The
// server does the same when it starts; use this for a separate step of a deployment.
import { readConfig } from '../src/config.ts'
import { openJobs } from '../src/jobs/jobs.ts'
import { messageOf } from '../src/lib/errors.ts'
import { openDatabase } from '../src/platform/db.ts'

try {
  const { databaseUrl: url, directDatabaseUrl: directUrl, dataDirectory } = readConfig(process.env)
  const database = await openDatabase({ url, directUrl, dataDirectory })
  const jobs = await openJobs(database, { supervise: false, onError: (error) => console.error(error.message) })
  await jobs.close()
  await database.close()
  console.log(`the ${database.kind} database is up to date with all migrations`)
} catch (error) {
  console.error(messageOf(error))
  process.exit(1)
}
