// What the embedded database costs alone: the reference of bench/idle.ts.
import { PGlite } from '@electric-sql/pglite'

const pglite = await PGlite.create()
await pglite.query('SELECT 1')
process.send?.('ready')
// Nothing else keeps the process: PGlite has no sockets.
setInterval(() => {}, 60_000)
