// Creates a new embedded database in the given directory and exits. db.ts runs this script as a separate process,
// because initdb would leave hundreds of megabytes of WebAssembly memory allocated in the server's process.
import { PGlite } from '@electric-sql/pglite'

const [directory] = process.argv.slice(2)
if (directory === undefined) throw new Error('name the directory')
const pglite = await PGlite.create(directory)
await pglite.close()
process.exit(0)
