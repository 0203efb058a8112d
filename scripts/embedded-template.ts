// node scripts/embedded-template.ts, of `npm ci`: makes the embedded database that a first start copies, and has what a start loads
// compiled. Both only save time: what fails here is said, and nothing else fails for it.
import { enableCompileCache } from 'node:module'
import path from 'node:path'

enableCompileCache(path.resolve(import.meta.dirname, '../node_modules/.cache/parley/compiled'))
try {
  const { findEmbeddedTemplate } = await import('../src/platform/embedded-template.ts')
  const { makeEmbedded } = await import('../src/platform/jobs.ts')
  await import('../src/server/server.ts')
  await (await findEmbeddedTemplate()).ensure(makeEmbedded)
} catch (error) {
  console.warn(`first starts will take some seconds longer: ${error}`)
}
process.exit(0)
