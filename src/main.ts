// The server's entry point. Keeps Node's compile cache between starts, which reduces the start time to a third. The
// cache is in NODE_COMPILE_CACHE if this variable is set. Otherwise it is next to the packages, where only the user who
// installed them can write.
import { enableCompileCache } from 'node:module'
import path from 'node:path'

enableCompileCache(path.resolve(import.meta.dirname, '../node_modules/.cache/parley/compiled'))
await import('./app/process.ts')
