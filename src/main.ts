// The server's process. What Node has compiled is kept from one start to the next, which takes a third of the time then: in
// NODE_COMPILE_CACHE, where that is set, else with the packages, where only who installed them can write.
import { enableCompileCache } from 'node:module'
import path from 'node:path'

enableCompileCache(path.resolve(import.meta.dirname, '../node_modules/.cache/parley/compiled'))
await import('./app/process.ts')
