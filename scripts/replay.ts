// parley replay <file>…: replays recordings on the engine of this release, without network and keys. Exit code 0: all replays
// equal their recordings. 1: a replay differs, and its first divergence is printed. 2: a file cannot be replayed. Several
// processes share a large number of files.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { messageOf } from '../src/lib/errors.ts'
import { UnusableRecordingError } from '../src/replay/recording.ts'
import { describeReplay, replay } from '../src/replay/replay.ts'

interface Outcome {
  code: 0 | 1 | 2
  text: string
}

/** The number of files that justifies starting another process. */
const FILES_PER_PROCESS = 6
const MOST_PROCESSES = 4
/** The environment variable that marks a process that gets its files from its parent. */
const IS_HELPER = 'PARLEY_REPLAYS_FOR_PARENT'

async function outcomeOf(file: string): Promise<Outcome> {
  try {
    const replayed = await replay(file)
    return { code: replayed.isEqual ? 0 : 1, text: describeReplay(file, replayed) }
  } catch (error) {
    return { code: 2, text: error instanceof UnusableRecordingError ? error.message : `${file}: ${messageOf(error)}` }
  }
}

/** Replays files in this process and in child processes, each of which takes the next file when it has finished one. */
function outcomesOf(files: readonly string[]): Promise<Outcome>[] {
  const outcomes = files.map(() => Promise.withResolvers<Outcome>())
  let next = 0

  async function work(perform: (file: string) => Promise<Outcome>): Promise<void> {
    for (let index = next++; index < files.length; index = next++)
      outcomes[index]?.resolve(await perform(files[index] ?? ''))
  }

  const processes = Math.min(availableParallelism(), MOST_PROCESSES, Math.ceil(files.length / FILES_PER_PROCESS))
  for (let index = 1; index < processes; index++) {
    const env = { ...process.env, [IS_HELPER]: '1' }
    const child = fork(import.meta.filename, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'], env })
    const ended = once(child, 'exit').then(() => ({
      code: 2 as const,
      text: 'A helper process of the replay ended unexpectedly.',
    }))
    void work(async (file) => {
      child.send(file)
      const [outcome] = await Promise.race([once(child, 'message'), ended.then((one) => [one])])
      return outcome as Outcome
    })
  }
  void work(outcomeOf)
  return outcomes.map(({ promise }) => promise)
}

if (process.env[IS_HELPER] === undefined) {
  let code = 0
  for (const outcome of outcomesOf(process.argv.slice(2))) {
    const { code: one, text } = await outcome
    if (one === 2) console.error(text)
    else console.log(text)
    code = Math.max(code, one)
  }
  process.exit(code)
} else {
  process.on('message', async (file: string) => process.send?.(await outcomeOf(file)))
  process.on('disconnect', () => process.exit(0))
}
