// npm run export -- --space <id> [--out <file>]: writes a space with its members, messages, files and runs as JSON lines to the file
// or standard output. `<space id> [file]` without the options does the same. Reads DATABASE_URL or DATA_DIR, and PARLEY_FILES, as
// the server does; stop an embedded server first.
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { parseArgs } from 'node:util'
import { readConfig } from '../src/config.ts'
import { messageOf } from '../src/lib/errors.ts'
import { prefixOf } from '../src/lib/ids.ts'
import { oneLine } from '../src/lib/json.ts'
import { exportSpace } from '../src/operation/moving.ts'
import { openDatabase } from '../src/platform/db.ts'
import { openFileStorage } from '../src/platform/file-storage/open.ts'
import { EXPORT_OPTIONS } from './command-options.ts'
import { withBreaks, writeLines } from './output-file.ts'

const USAGE = 'usage: npm run export -- --space <id> [--out <file>]'

function fail(message: string): never {
  console.error(message)
  process.exit(1)
}

function readArguments(): { spaceId: string; file: string | undefined } {
  try {
    const { values, positionals } = parseArgs({ allowPositionals: true, options: EXPORT_OPTIONS })
    const rest = [...positionals]
    const spaceId = values.space ?? rest.shift()
    const file = values.out ?? rest.shift()
    if (spaceId === undefined || rest.length > 0) return fail(USAGE)
    return { spaceId, file }
  } catch (error) {
    return fail(`${oneLine(messageOf(error)).split('. ')[0]}. ${USAGE}`)
  }
}

const { spaceId, file } = readArguments()
try {
  if (prefixOf(spaceId) !== 'spc') fail(`There is no space ${oneLine(spaceId)}.`)
  const config = readConfig()
  const { databaseUrl: url, directDatabaseUrl: directUrl, dataDirectory } = config
  const db = await openDatabase({ url, directUrl, dataDirectory, poolSize: 1 })
  const files = openFileStorage(config.files)
  try {
    const lines = exportSpace({ db, files }, spaceId)
    if (file === undefined) await pipeline(Readable.from(withBreaks(lines)), process.stdout)
    else await writeLines(file, lines)
  } finally {
    await files.close()
    await db.close()
  }
} catch (error) {
  fail(oneLine(messageOf(error)))
}
