import { writeSync } from 'node:fs'
import type { PGlite } from '@electric-sql/pglite'

/** The WebAssembly module of PGlite. PGlite's types do not declare it. */
interface Internals {
  Module: { _PostgresMainLoopOnce(): void }
  POSTGRES_MAIN_LONGJMP: number
}

/**
 * Ends this process if the WebAssembly of the embedded database crashes. PGlite 0.4.6 ignores such an error and sends
 * the same message to the crashed database forever, without yielding to the event loop (electric-sql/pglite#1058). The
 * next start recovers the database from its write-ahead log.
 */
export function exitOnCrash(pglite: PGlite): void {
  const { Module: module, POSTGRES_MAIN_LONGJMP } = pglite as unknown as Internals
  const loopOnce = module._PostgresMainLoopOnce
  module._PostgresMainLoopOnce = () => {
    try {
      loopOnce()
    } catch (error) {
      // PostgreSQL reports a statement's error in this form. This is not a crash.
      if ((error as { status?: unknown }).status === POSTGRES_MAIN_LONGJMP) throw error
      writeSync(
        process.stderr.fd,
        `The embedded database crashed, so the server stops. Start it again. ${String(error)}\n`,
      )
      try {
        process.exit(1)
      } finally {
        // Reached only if `process.exit` was replaced, as in Vitest.
        process.kill(process.pid, 'SIGKILL')
      }
    }
  }
}
