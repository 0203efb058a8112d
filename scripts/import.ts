// npm run import -- [--dry-run] [--trust-external-ids] [file]: writes a space from an export, read from the file or
// standard input. --dry-run writes nothing; it prints the agents that would be created, with the addresses of their
// tools, and what would be left out. Reads DATABASE_URL or DATA_DIR, and PARLEY_FILES, as the server does; stop an embedded server first.
import { createReadStream } from 'node:fs'
import { parseArgs } from 'node:util'
import { readConfig } from '../src/config.ts'
import { messageOf } from '../src/lib/errors.ts'
import { oneLine } from '../src/lib/json.ts'
import { boundedLines } from '../src/operation/bounded-lines.ts'
import { importSpace } from '../src/operation/import.ts'
import { importReport } from '../src/operation/import-report.ts'
import { openDatabase } from '../src/platform/db.ts'
import { openFileStorage } from '../src/platform/file-storage/open.ts'

const USAGE = 'usage: npm run import -- [--dry-run] [--trust-external-ids] [file]'

function fail(message: string): never {
  console.error(message)
  process.exit(1)
}

function readArguments() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { 'dry-run': { type: 'boolean' }, 'trust-external-ids': { type: 'boolean' } },
    })
    if (positionals.length > 1) return fail(`Give one file. ${USAGE}`)
    const [file] = positionals
    return { file, dryRun: values['dry-run'] === true, trustExternalIds: values['trust-external-ids'] === true }
  } catch (error) {
    return fail(`${oneLine(messageOf(error)).split('. ')[0]}. ${USAGE}`)
  }
}

const { file, dryRun, trustExternalIds } = readArguments()
try {
  const config = readConfig()
  const { databaseUrl: url, directDatabaseUrl: directUrl, dataDirectory } = config
  const db = await openDatabase({ url, directUrl, dataDirectory, poolSize: 1 })
  const files = openFileStorage(config.files)
  try {
    const input = file === undefined ? process.stdin : createReadStream(file)
    const imported = await importSpace({ db, files, config }, boundedLines(input), { dryRun, trustExternalIds })
    for (const line of importReport(imported, dryRun)) console.log(line)
  } finally {
    await files.close()
    await db.close()
  }
} catch (error) {
  fail(oneLine(messageOf(error)))
}
