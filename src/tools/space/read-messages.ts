import type { Discretion } from '../../confidence/discretion.ts'
import { take } from '../../confidence/marks.ts'
import { type History, labelOf, RESULT_CHARACTERS, readable } from '../../spaces/history.ts'
import { type Tool, ToolFailure } from '../tool.ts'
import { noActiveSpace, notAMember, orConfidential } from './failures.ts'

/** Tells the model how to read the whole of a truncated message, `back` messages before the newest at entry. */
export const readOnFrom = (back: number): string =>
  ` (all of it: read_messages with offset ${back} and limit 1, in that space)`

const MOST_AT_ONCE = 100
/** The maximum `seq`: no space has more messages. */
const FARTHEST_BACK = 2_147_483_647

/** The dependencies of tools that read spaces. */
export interface ReadingParts {
  history: History
  discretion: Pick<Discretion, 'toEnter'>
}

/**
 * Pages back through the active space. Offsets count from the newest message at entry, so that new messages
 * do not shift them.
 */
export function readMessagesTool({ history, discretion }: ReadingParts): Tool {
  return {
    name: 'read_messages',
    description:
      'Read messages of your active space, oldest first. `offset` counts back from the newest message when you entered: 50 skips the 50 that you have seen already.',
    inputSchema: {
      type: 'object',
      properties: {
        offset: {
          type: 'integer',
          minimum: 0,
          default: 0,
          description: 'How many of the newest messages to skip. Default 0.',
        },
        limit: {
          type: 'integer',
          minimum: 1,
          default: 50,
          description: `How many to read. Default 50, at most ${MOST_AT_ONCE}; fewer of long ones, the newest of them.`,
        },
      },
    },
    presence: { type: 'hidden' },
    execution: null,
    async execute({ offset = 0, limit = 50 }, { run }) {
      if (run.activeSpace === null) throw noActiveSpace()
      if (Number(offset) > FARTHEST_BACK) throw new ToolFailure('BAD_INPUT', `offset must be <= ${FARTHEST_BACK}.`)
      const { id, seq } = run.activeSpace
      const space = await history.enter(id, run.agent.id)
      if (space === null) throw notAMember()
      if (space.confidential) orConfidential(await discretion.toEnter(run.claim.run, id))
      const lines = await history.read({
        spaceId: id,
        readerId: run.agent.id,
        upToSeq: seq,
        offset: Number(offset),
        limit: Math.min(Number(limit), MOST_AT_ONCE),
        characters: RESULT_CHARACTERS,
        readOn: readOnFrom,
      })
      take(run.claim.run, { places: [id], label: [...labelOf(lines), ...(space.confidential ? [id] : [])] })
      return readable(lines)
    },
  }
}
