// Measures the embedded database alone, as the reference of bench/idle.ts.
import { PGlite } from '@electric-sql/pglite'

const pglite = await PGlite.create()
await pglite.query('SELECT 1')
process.send?.('ready')
// Keeps the process alive, because PGlite has no sockets.
setInterval(() => {}, 60_000)
