// Locks the given directory and reports success, or the reason why it cannot. Holds the lock until the process is killed.
import { lockDirectory } from '../../src/platform/directory-lock.ts'

try {
  lockDirectory(process.argv[2] ?? '')
  process.stdout.write(`held by ${process.pid}\n`)
  setInterval(() => {}, 1000)
} catch (error) {
  process.stdout.write(`${(error as Error).message}\n`)
}
