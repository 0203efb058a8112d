// npm run migrate: brings the configured database to the newest migration, the job queue's tables included, and ends.
// The server does the same when it starts; this is for a step of a deployment before it.
import { readConfig } from '../src/config.ts'
import { openDatabase } from '../src/platform/db.ts'
import { openJobs } from '../src/platform/jobs.ts'

const { databaseUrl: url, dataDirectory } = readConfig(process.env)
const database = await openDatabase({ url, dataDirectory })
const jobs = await openJobs(database, { supervise: false, onError: (error) => console.error(error.message) })
await jobs.close()
await database.close()
console.log(`the ${database.kind} database is up to date with all migrations`)
