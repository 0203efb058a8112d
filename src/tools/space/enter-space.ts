import type { Discretion } from '../../confidence/discretion.ts'
import { take } from '../../confidence/marks.ts'
import { type History, labelOf, RESULT_CHARACTERS, readable } from '../../spaces/history.ts'
import type { Tool } from '../tool.ts'
import { notAMember, orConfidential } from './failures.ts'
import { readOnFrom } from './read-messages.ts'

/** Makes a space the active one and returns its recent messages. Members are not notified. */
export function enterSpaceTool(
  { history, discretion }: { history: History; discretion: Pick<Discretion, 'toEnter'> },
  historyLimit: number,
): Tool {
  return {
    name: 'enter_space',
    description:
      'Enter a space that you are a member of: it becomes your active space, and what you say or show from now on goes there. Returns its recent messages.',
    inputSchema: {
      type: 'object',
      properties: { spaceId: { type: 'string', description: 'Id of the space to enter, one of YOUR SPACES.' } },
      required: ['spaceId'],
    },
    presence: { type: 'hidden' },
    execution: null,
    async execute({ spaceId }, { run }) {
      const id = String(spaceId)
      const space = await history.enter(id, run.agent.id)
      if (space === null) throw notAMember()
      const isConfidential = space.confidential
      if (isConfidential) orConfidential(await discretion.toEnter(run.claim.run, id))
      take(run.claim.run, { places: [id], label: isConfidential ? [id] : [] })
      await run.enter({ id, seq: space.lastSeq })
      const lines = await history.read({
        spaceId: id,
        readerId: run.agent.id,
        upToSeq: space.lastSeq,
        limit: historyLimit,
        characters: RESULT_CHARACTERS,
        readOn: readOnFrom,
      })
      take(run.claim.run, { label: labelOf(lines) })
      return {
        success: true,
        spaceId: id,
        spaceName: space.name,
        history: readable(lines),
        totalMessages: space.lastSeq,
      }
    },
  }
}
