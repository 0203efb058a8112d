import type { Discretion } from '../../confidence/discretion.ts'
import { take } from '../../confidence/marks.ts'
import { type History, labelOf, RESULT_CHARACTERS } from '../../spaces/history.ts'
import { notAMember, orConfidential } from '../space/failures.ts'
import type { Tool } from '../tool.ts'

const DEFAULT_LIMIT = 15
const MOST = 50

/** Reads the last messages of a space by its id, oldest first, with senders and times. */
export function readSpaceMessagesTool({
  history,
  discretion,
}: {
  history: History
  discretion: Pick<Discretion, 'toEnter'>
}): Tool {
  return {
    name: 'readSpaceMessages',
    description:
      'Look at the last messages of a space that you belong to, oldest first. Do so before you write there, so that you know what is being talked about.',
    inputSchema: {
      type: 'object',
      properties: {
        spaceId: { type: 'string', description: 'Id of the space to look at, one of YOUR SPACES.' },
        limit: {
          type: 'number',
          description: `How many of the last messages. Default ${DEFAULT_LIMIT}, at most ${MOST}.`,
          default: DEFAULT_LIMIT,
        },
      },
      required: ['spaceId'],
    },
    presence: { type: 'hidden' },
    execution: null,
    async execute({ spaceId, limit = DEFAULT_LIMIT }, { run }) {
      const id = String(spaceId)
      const readerId = run.agent.id
      const space = await history.enter(id, readerId)
      if (space === null) throw notAMember()
      if (space.confidential) orConfidential(await discretion.toEnter(run.claim.run, id))
      const wanted = Math.max(1, Math.min(Math.trunc(Number(limit)), MOST))
      const lines = await history.read({ spaceId: id, readerId, limit: wanted, characters: RESULT_CHARACTERS })
      take(run.claim.run, { places: [id], label: [...labelOf(lines), ...(space.confidential ? [id] : [])] })
      return lines.map(({ sender, type, text, timestamp }) => ({ sender, type, text, timestamp }))
    },
  }
}
