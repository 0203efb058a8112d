import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * Collects the garbage that the startup has left. V8 then returns about fifty megabytes to the operating system, much
 * earlier than it otherwise would. Blocks for about a tenth of a second.
 */
export function giveBackMemory(): void {
  setFlagsFromString('--expose-gc')
  const collect: NodeJS.GCFunction = runInNewContext('gc')
  collect({ type: 'major', flavor: 'last-resort', execution: 'sync' })
}
