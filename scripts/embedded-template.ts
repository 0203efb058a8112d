// node scripts/embedded-template.ts, run by `npm ci`: creates the embedded database that a first start copies, and fills Node's
// compile cache. Both steps only save time, so a failure is printed and ignored.
import { enableCompileCache } from 'node:module'
import path from 'node:path'

enableCompileCache(path.resolve(import.meta.dirname, '../node_modules/.cache/parley/compiled'))
try {
  const { findEmbeddedTemplate } = await import('../src/platform/embedded-template.ts')
  const { makeEmbedded } = await import('../src/jobs/embedded.ts')
  await import('../src/server/server.ts')
  await (await findEmbeddedTemplate()).ensure(makeEmbedded)
} catch (error) {
  console.warn(`the first start will take some seconds longer: ${error}`)
}
process.exit(0)
