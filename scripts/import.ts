// npm run import -- [file]: writes a space from an export, of the file or of standard input, and says what was written.
// Reads DATABASE_URL or DATA_DIR as the server does; an embedded server has to be stopped meanwhile.
import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { readConfig } from '../src/config.ts'
import { messageOf } from '../src/lib/errors.ts'
import { importSpace } from '../src/operation/import.ts'
import { openDatabase } from '../src/platform/db.ts'

const [file] = process.argv.slice(2)
const { databaseUrl: url, dataDirectory } = readConfig()
try {
  const db = await openDatabase({ url, dataDirectory, poolSize: 1 })
  const input = file === undefined ? process.stdin : createReadStream(file)
  const { spaceId, counts } = await importSpace(db, createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY }))
  console.log(`imported ${spaceId}: ${JSON.stringify(counts)}`)
  await db.close()
} catch (error) {
  console.error(messageOf(error))
  process.exit(1)
}
