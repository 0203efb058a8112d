import { readFile } from 'node:fs/promises'
import { messageOf } from '../lib/errors.ts'
import { type Comparison, compare } from './compare.ts'
import { blockNetwork } from './no-network.ts'
import { play } from './player.ts'
import { type Recording, readRecording, UnusableRecordingError } from './recording.ts'

/** The result of a replay. */
export interface Replayed extends Comparison {
  /** Whether the replay equals the recording. */
  isEqual: boolean
  /** The number of messages and runs that were compared. */
  messages: number
  runs: number
}

/** Reads a recording from a file. @throws UnusableRecordingError */
export async function openRecording(file: string): Promise<Recording> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new UnusableRecordingError(`${file} cannot be read: ${messageOf(error)}`)
  })
  return readRecording(file, text)
}

/**
 * Replays a recording on the real engine, without network, keys or a server. Uses the recorded answers of models and
 * tools, and an embedded database that is deleted afterwards. Does not change the file. New connections of this process
 * fail during the replay.
 * @param file a path, or a recording that has been read
 * @throws UnusableRecordingError if the file is truncated, edited or newer, is not a recording, or does not contain
 * everything that influenced the outcome
 */
export async function replay(file: string | Recording): Promise<Replayed> {
  const recording = typeof file === 'string' ? await openRecording(file) : file
  const network = blockNetwork()
  try {
    const played = await play(recording)
    const compared = compare(recording, played)
    return {
      ...compared,
      isEqual: compared.divergence === null,
      messages: recording.messages.length,
      runs: recording.runs.length,
    }
  } finally {
    network.unblock()
  }
}

const LONGEST_SIDE = 600

/** Describes a replay in lines for the terminal. */
export function describeReplay(name: string, { isEqual, divergence, notes, messages, runs }: Replayed): string {
  const cut = (text: string) => (text.length > LONGEST_SIDE ? `${text.slice(0, LONGEST_SIDE)}…` : text)
  const lines = isEqual
    ? [`${name}: equal (${messages} messages, ${runs} runs)`]
    : [
        `${name}: different, first in: ${divergence?.kind}`,
        `  where     ${divergence?.where}`,
        `  recorded  ${cut(divergence?.recorded ?? '')}`,
        `  replayed  ${cut(divergence?.replayed ?? '')}`,
        `  cause     ${divergence?.cause}`,
      ]
  return [...lines, ...notes.map((note) => `  note      ${note}`)].join('\n')
}
