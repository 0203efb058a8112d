import { RESULT_CHARACTERS, readable } from '../../spaces/history.ts'
import { defineTool } from '../define-tool.ts'
import { learnedFrom, openSpace, readOnFrom } from './read-messages.ts'

/** Makes a space the active space and returns its recent messages. The members are not notified. */
export const enterSpace = defineTool({
  names: { snake: 'enter_space' },
  create: ({ parts }) => ({
    description:
      'Enter a space that you are a member of: it becomes your active space, in which you post and show everything from now on. Returns its recent messages.',
    inputSchema: {
      type: 'object',
      properties: { spaceId: { type: 'string', description: 'Id of the space to enter, one of YOUR SPACES.' } },
      required: ['spaceId'],
    },
    async execute({ spaceId }, { context: { run } }) {
      const id = String(spaceId)
      const space = await openSpace(parts, run, id)
      const { lastSeq } = space
      const lines = await parts.history.read({
        spaceId: id,
        readerId: run.agentId,
        upToSeq: lastSeq,
        limit: parts.historyLimit,
        characters: RESULT_CHARACTERS,
        readOn: readOnFrom,
      })
      return {
        output: {
          success: true,
          spaceId: id,
          spaceName: space.name,
          history: readable(lines),
          totalMessages: lastSeq,
        },
        effects: { learned: learnedFrom(id, space, lines), entered: { id, seq: lastSeq } },
      }
    },
  }),
})
