import { rm } from 'node:fs/promises'
import path from 'node:path'
import { findEmbeddedTemplate } from '../../src/platform/embedded-template.ts'
import { makeEmbedded } from '../../src/platform/jobs.ts'
import { makeScratchFolder } from './scratch.ts'

/** A data directory of a test's own, with an embedded database in which every migration is applied: a copy of one made once. */
export async function createTestDataDirectory(): Promise<{ path: string; remove(): Promise<void> }> {
  const template = await findEmbeddedTemplate()
  await template.ensure(makeEmbedded)
  const folder = await makeScratchFolder('parley-data-')
  template.copyTo(path.join(folder, 'database'))
  return { path: folder, remove: () => rm(folder, { recursive: true, force: true }) }
}
