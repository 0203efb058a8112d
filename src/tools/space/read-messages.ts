import type { Discretion } from '../../confidentiality/discretion.ts'
import type { Marks } from '../../confidentiality/marks.ts'
import type { JsonObject } from '../../lib/json.ts'
import type { ClaimedRun } from '../../runs/claiming.ts'
import { type History, type HistoryLine, labelOf, RESULT_CHARACTERS, readable } from '../../spaces/history.ts'
import { defineTool } from '../define-tool.ts'
import type { RunContext } from '../run-context.ts'
import { ToolFailure } from '../tool.ts'
import { noActiveSpace, notAMember, orConfidential } from './failures.ts'

/**
 * Returns a hint that tells the model how to read the rest of a truncated message. `back`: the message's distance
 * from the newest message at the time of entry.
 */
export const readOnFrom = (back: number): string =>
  ` (all of it: read_messages with offset ${back} and limit 1, in that space)`

type OpenedSpace = NonNullable<Awaited<ReturnType<History['enter']>>>

/** Returns a space that the run may read. @throws ToolFailure */
export async function openSpace(
  { history, discretion }: { history: History; discretion: Pick<Discretion, 'toEnter'> },
  run: ClaimedRun,
  spaceId: string,
): Promise<OpenedSpace> {
  const space = await history.enter(spaceId, run.agentId)
  if (space === null) throw notAMember()
  if (space.confidential) orConfidential(await discretion.toEnter(run, spaceId))
  return space
}

/** Returns the sources that a run gets by reading these lines of a space. */
export function learnedFrom(
  spaceId: string,
  { confidential }: Pick<OpenedSpace, 'confidential'>,
  lines: HistoryLine[],
): Marks {
  return { places: [spaceId], label: [...labelOf(lines), ...(confidential ? [spaceId] : [])] }
}

/**
 * Reads messages in a space, oldest first. In the active space, the tool pages backwards. Offsets count from the
 * message that was newest when the run entered, so that new messages do not shift the pages. In a named space, the
 * tool reads the latest messages.
 */
export const readMessages = defineTool({
  names: { snake: 'read_messages', camel: 'readSpaceMessages' },
  create: ({ place, parts }) => {
    const { history } = parts
    return {
      ...(place === 'active' ? IN_ACTIVE_SPACE : IN_NAMED_SPACE),
      async execute(input, { context }) {
        const { run } = context
        const asked = place === 'active' ? pageOf(input, context) : lastOf(input)
        const space = await openSpace(parts, run, asked.spaceId)
        const lines = await history.read({ ...asked, readerId: run.agentId, characters: RESULT_CHARACTERS })
        const output = place === 'active' ? readable(lines) : lines.map(bareLine)
        return { output, effects: { learned: learnedFrom(asked.spaceId, space, lines) } }
      },
    }
  },
})

const MOST_AT_ONCE = 100
/** This is the maximum `seq`, so no space has more messages. */
const FARTHEST_BACK = 2_147_483_647

/** Returns the page of the active space that a call requests. @throws ToolFailure */
function pageOf({ offset = 0, limit = 50 }: JsonObject, { activeSpace }: RunContext) {
  if (activeSpace === null) throw noActiveSpace()
  if (Number(offset) > FARTHEST_BACK) throw new ToolFailure('BAD_INPUT', `offset must be <= ${FARTHEST_BACK}.`)
  return {
    spaceId: activeSpace.id,
    upToSeq: activeSpace.seq,
    offset: Number(offset),
    limit: Math.min(Number(limit), MOST_AT_ONCE),
    readOn: readOnFrom,
  }
}

const DEFAULT_OF_NAMED = 15
const MOST_OF_NAMED = 50

/** Returns the range of the newest messages that a call requests from a named space. */
function lastOf({ spaceId, limit = DEFAULT_OF_NAMED }: JsonObject) {
  return { spaceId: String(spaceId), limit: Math.max(1, Math.min(Math.trunc(Number(limit)), MOST_OF_NAMED)) }
}

const bareLine = ({ sender, type, text, timestamp, thread }: HistoryLine) => ({
  sender,
  type,
  text,
  timestamp,
  ...(thread === undefined ? {} : { thread }),
})

const IN_ACTIVE_SPACE = {
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
        description: `How many messages to read. Default 50, at most ${MOST_AT_ONCE}. If they are long, only the newest of them are returned.`,
      },
    },
  },
}

const IN_NAMED_SPACE = {
  description:
    'Read the latest messages in a space that you belong to, oldest first. Do this before you post there, so that you know the current topic.',
  inputSchema: {
    type: 'object',
    properties: {
      spaceId: { type: 'string', description: 'Id of the space to read, one of YOUR SPACES.' },
      limit: {
        type: 'number',
        description: `How many of the latest messages to return. Default ${DEFAULT_OF_NAMED}, at most ${MOST_OF_NAMED}.`,
        default: DEFAULT_OF_NAMED,
      },
    },
    required: ['spaceId'],
  },
}
