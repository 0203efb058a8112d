import { rm } from 'node:fs/promises'
import path from 'node:path'
import { makeEmbedded } from '../../src/jobs/embedded.ts'
import { findEmbeddedTemplate } from '../../src/platform/embedded-template.ts'
import { makeScratchFolder } from './scratch.ts'

/**
 * Creates a data directory for one test, with an embedded database and every migration applied, as a copy of one that is
 * created once.
 */
export async function createTestDataDirectory(): Promise<{ path: string; remove(): Promise<void> }> {
  const template = await findEmbeddedTemplate()
  await template.ensure(makeEmbedded)
  const folder = await makeScratchFolder('parley-data-')
  template.copyTo(path.join(folder, 'database'))
  return { path: folder, remove: () => rm(folder, { recursive: true, force: true }) }
}
