// Takes the directory it is given and says so, or why it cannot; holds it until it is killed.
import { lockDirectory } from '../../src/platform/directory-lock.ts'

try {
  lockDirectory(process.argv[2] ?? '')
  process.stdout.write(`held by ${process.pid}\n`)
  setInterval(() => {}, 1000)
} catch (error) {
  process.stdout.write(`${(error as Error).message}\n`)
}
