import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'

/** A child process that ends together with the test. */
export interface Child {
  process: ChildProcess
  /** Returns the child's next message. @throws if the child exits first */
  message<T>(): Promise<T>
  stop(): Promise<void>
}

/** Starts a file of this folder as a child process. */
export function startChild(file: string, args: string[] = []): Child {
  const child = fork(path.join(import.meta.dirname, file), args, { serialization: 'advanced', execArgv: [] })
  const ended = once(child, 'exit')
  const killWithUs = () => child.kill('SIGKILL')
  process.on('exit', killWithUs)
  return {
    process: child,
    async message<T>() {
      const gone = ended.then(([code, signal]) => {
        throw new Error(`${file} ended with ${code ?? signal}`)
      })
      const [message] = (await Promise.race([once(child, 'message'), gone])) as [T]
      return message
    },
    async stop() {
      child.kill('SIGKILL')
      await ended
      process.off('exit', killWithUs)
    },
  }
}
