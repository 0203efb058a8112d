import { createHash } from 'node:crypto'
import { cpSync, existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { openDatabase } from '../../src/platform/db.ts'
import { openJobs } from '../../src/platform/jobs.ts'
import { makeScratchFolder } from './scratch.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')

/** A data directory of a test's own, with an embedded database in which every migration is applied: a copy of one made once. */
export async function createTestDataDirectory(): Promise<{ path: string; remove(): Promise<void> }> {
  const template = await ensureTemplate()
  const folder = await makeScratchFolder('parley-data-')
  // A thousand files: one call takes a tenth of what a promise for each takes.
  cpSync(path.join(template, 'database'), path.join(folder, 'database'), { recursive: true })
  return { path: folder, remove: () => rm(folder, { recursive: true, force: true }) }
}

/** Starting a new PGlite and migrating it takes seconds: once for each state of the migrations and packages is enough. */
async function ensureTemplate(): Promise<string> {
  const template = path.join(tmpdir(), `parley-embedded-${await fingerprint()}`)
  if (existsSync(template)) return template
  const draft = await mkdtemp(path.join(tmpdir(), 'parley-embedded-draft-'))
  const db = await openDatabase({ url: null, dataDirectory: draft })
  const jobs = await openJobs(db, { supervise: false, onError: () => {} })
  await jobs.close()
  await db.close()
  // Another test file may have been faster: one of the two stays.
  await rename(draft, template).catch(() => rm(draft, { recursive: true, force: true }))
  return template
}

async function fingerprint(): Promise<string> {
  const hash = createHash('sha256').update(await readFile(path.join(ROOT, 'package-lock.json')))
  const migrations = path.join(ROOT, 'prisma/migrations')
  for (const name of (await readdir(migrations)).sort()) {
    const file = path.join(migrations, name, 'migration.sql')
    if (existsSync(file)) hash.update(await readFile(file))
  }
  return hash.digest('hex').slice(0, 16)
}
