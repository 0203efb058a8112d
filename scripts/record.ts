// parley record --space <id> --out <file>: writes a recording of a space, from which `parley replay` repeats what happened. Reads
// DATABASE_URL or DATA_DIR, and PARLEY_FILES, as the server does; stop an embedded server first.
import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { parseArgs } from 'node:util'
import { readConfig } from '../src/config.ts'
import { messageOf } from '../src/lib/errors.ts'
import { prefixOf } from '../src/lib/ids.ts'
import { oneLine } from '../src/lib/json.ts'
import { recordSpace } from '../src/operation/recording.ts'
import { openDatabase } from '../src/platform/db.ts'
import { openFileStorage } from '../src/platform/file-storage/open.ts'
import { releaseOf } from './release.ts'

const USAGE = 'usage: parley record --space <id> --out <file>'
const UNUSABLE = 2

function fail(message: string): never {
  console.error(message)
  process.exit(UNUSABLE)
}

const { values } = parseArgs({ options: { space: { type: 'string' }, out: { type: 'string' } } })
const { space: spaceId, out } = values
if (spaceId === undefined || out === undefined) fail(USAGE)
if (prefixOf(spaceId) !== 'spc') fail(`There is no space ${oneLine(spaceId)}.`)
try {
  const config = readConfig()
  const { databaseUrl: url, directDatabaseUrl: directUrl, dataDirectory, limits, prices } = config
  const db = await openDatabase({ url, directUrl, dataDirectory, poolSize: 1 })
  const files = openFileStorage(config.files)
  try {
    const recorded = recordSpace({ db, files }, spaceId, { release: releaseOf(), limits, prices })
    await pipeline(Readable.from(withBreaks(recorded)), createWriteStream(out, { mode: 0o600 }))
  } catch (error) {
    await rm(out, { force: true })
    throw error
  } finally {
    await files.close()
    await db.close()
  }
} catch (error) {
  fail(oneLine(messageOf(error)))
}

async function* withBreaks(lines: AsyncIterable<string>): AsyncGenerator<string> {
  for await (const line of lines) yield `${line}\n`
}
