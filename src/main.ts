// The server's entry point. Keeps Node's compile cache between starts, which reduces the start time to a third: in
// NODE_COMPILE_CACHE if set, or else next to the packages, where only the user who installed them can write.
import { enableCompileCache } from 'node:module'
import path from 'node:path'

enableCompileCache(path.resolve(import.meta.dirname, '../node_modules/.cache/parley/compiled'))
await import('./app/process.ts')
