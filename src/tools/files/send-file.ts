import { DomainError } from '../../lib/errors.ts'
import type { JsonObject } from '../../lib/json.ts'
import { defineTool } from '../define-tool.ts'
import { noActiveSpace } from '../space/failures.ts'
import { ToolFailure } from '../tool.ts'
import { orStorageFailure } from './read-file.ts'

/** Creates a file and posts it as a message in the active space or in a named space. */
export const sendFile = defineTool({
  names: { snake: 'send_file', camel: 'sendFile' },
  yieldsToOwn: true,
  create: ({ place, parts: { files }, speech }) => ({
    description:
      'Send a file to a space as a separate message. Pass its content as text, or in base64 if it is not text. People see the name of the file and can download it.',
    inputSchema: {
      type: 'object',
      properties: {
        ...(place === 'named'
          ? {
              spaceId: {
                type: 'string',
                description: 'Id of the space to send it to, one of YOUR SPACES. Default: the space that woke you.',
              },
            }
          : {}),
        name: { type: 'string', description: 'The name of the file, with its extension.' },
        mediaType: { type: 'string', description: 'The media type, such as text/csv.' },
        text: { type: 'string', description: 'The content of a text file.' },
        base64: { type: 'string', description: 'The content of any other file, in base64.' },
      },
      required: ['name', 'mediaType'],
    },
    async execute(input, use) {
      const { run, activeSpace } = use.context
      const spaceId = place === 'active' ? activeSpace?.id : String(input['spaceId'] || (run.triggerSpaceId ?? ''))
      if (spaceId === undefined || spaceId === '') throw noActiveSpace()
      const bytes = bytesOf(input)
      const file = await files.createBy(run.agentId, { name: String(input['name']), bytes }).catch((error) => {
        if (error instanceof DomainError) throw new ToolFailure(error.code, error.message)
        return orStorageFailure(error)
      })
      const { message, fileId } = await speech.postFile(use, spaceId, file)
      return { output: { success: true, messageId: message.id, fileId } }
    },
  }),
})

/**
 * Returns the content of the file.
 * @throws ToolFailure unless exactly one of `text` and `base64` is given and well-formed
 */
function bytesOf({ text, base64 }: JsonObject): Buffer {
  // Some models write empty strings for omitted fields.
  const [written, encoded] = [text || null, base64 || null]
  if ((written === null) === (encoded === null)) throw new ToolFailure('BAD_INPUT', 'Pass either text or base64.')
  if (written !== null) return Buffer.from(String(written))
  const compact = String(encoded).replaceAll(/\s/g, '')
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(compact)) throw new ToolFailure('BAD_INPUT', 'base64 is not well-formed.')
  return Buffer.from(compact, 'base64')
}
