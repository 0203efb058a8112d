// Makes a new embedded database in the directory that is given, and ends. Run as a process of its own by db.ts: initdb leaves
// hundreds of megabytes of WebAssembly memory behind, which would stay with the server for as long as it lives.
import { PGlite } from '@electric-sql/pglite'

const [directory] = process.argv.slice(2)
if (directory === undefined) throw new Error('name the directory')
const pglite = await PGlite.create(directory)
await pglite.close()
process.exit(0)
