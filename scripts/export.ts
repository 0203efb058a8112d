// npm run export -- <space id> [file]: a space with its members, messages and runs as JSON lines, to the file or to standard output.
// Reads DATABASE_URL or DATA_DIR as the server does; an embedded server has to be stopped meanwhile.
import { createWriteStream } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { readConfig } from '../src/config.ts'
import { messageOf } from '../src/lib/errors.ts'
import { exportSpace } from '../src/operation/moving.ts'
import { openDatabase } from '../src/platform/db.ts'

const [spaceId, file] = process.argv.slice(2)
if (spaceId === undefined) {
  console.error('usage: npm run export -- <space id> [file]')
  process.exit(1)
}
const { databaseUrl: url, dataDirectory } = readConfig()
try {
  const db = await openDatabase({ url, dataDirectory, poolSize: 1 })
  const lines = Readable.from(withBreaks(exportSpace(db, spaceId)))
  await pipeline(lines, file === undefined ? process.stdout : createWriteStream(file, { mode: 0o600 }))
  await db.close()
} catch (error) {
  console.error(messageOf(error))
  process.exit(1)
}

async function* withBreaks(lines: AsyncIterable<string>): AsyncGenerator<string> {
  for await (const line of lines) yield `${line}\n`
}
