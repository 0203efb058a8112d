// parley record --space <id> --out <file>: writes a recording of a space, which `parley replay` can replay. Reads DATABASE_URL
// or DATA_DIR, PARLEY_FILES and PARLEY_EMBEDDINGS, as the server does. Stop an embedded server first. Exit code 0: the
// recording is written. 2: nothing is written, or the written recording cannot be replayed; one line gives the reason.
import { readFile, stat } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { readConfig } from '../src/config.ts'
import { messageOf } from '../src/lib/errors.ts'
import { prefixOf } from '../src/lib/ids.ts'
import { oneLine } from '../src/lib/json.ts'
import { recordSpace } from '../src/operation/recording.ts'
import { openDatabase } from '../src/platform/db.ts'
import { openFileStorage } from '../src/platform/file-storage/open.ts'
import { readRecording, UnusableRecordingError } from '../src/replay/recording.ts'
import { writeLines } from './output-file.ts'
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
  const { databaseUrl: url, directDatabaseUrl: directUrl, dataDirectory, limits, prices, embeddingModel } = config
  const db = await openDatabase({ url, directUrl, dataDirectory, poolSize: 1 })
  const files = openFileStorage(config.files)
  try {
    const options = { release: releaseOf(), limits, prices, embeddingModel }
    await writeLines(out, recordSpace({ db, files }, spaceId, options))
  } finally {
    await files.close()
    await db.close()
  }
  if ((await stat(out)).isFile()) readRecording(out, await readFile(out, 'utf8'))
} catch (error) {
  if (error instanceof UnusableRecordingError) fail(`The recording was written, but ${error.message}`)
  fail(oneLine(messageOf(error)))
}
