import type { ReadableFile } from '../../files/file-reading.ts'
import { prefixOf } from '../../lib/ids.ts'
import type { JsonObject } from '../../lib/json.ts'
import { toolFile } from '../../lib/tool-file.ts'
import { StorageUnavailableError } from '../../platform/file-storage/file-storage.ts'
import type { ClaimedRun } from '../../runs/claiming.ts'
import { defineTool, type ToolParts } from '../define-tool.ts'
import { ToolFailure, type ToolOutput } from '../tool.ts'

const DEFAULT_CHARACTERS = 20_000
const MOST_CHARACTERS = 40_000

/**
 * Reads a file of a message in one of the agent's spaces, or of one of the agent's calls. Returns the text, or the
 * image if the model accepts images.
 */
export const readFile = defineTool({
  names: { snake: 'read_file', camel: 'readFile' },
  yieldsToOwn: true,
  create: ({ parts }) => ({
    description:
      'Read a file that a message or a tool result shows as [file "name", type, id]. Returns the text of text and PDF files, and shows pictures to you if you can see them. A long text is returned in parts: continue at nextOffset.',
    inputSchema: {
      type: 'object',
      properties: {
        fileId: { type: 'string', description: 'The id of the file, fil_….' },
        offset: { type: 'integer', minimum: 0, default: 0, description: 'The first character to read. Default 0.' },
        limit: {
          type: 'integer',
          minimum: 1,
          default: DEFAULT_CHARACTERS,
          description: `How many characters to read. Default ${DEFAULT_CHARACTERS}, at most ${MOST_CHARACTERS}.`,
        },
      },
      required: ['fileId'],
    },
    async execute({ fileId, offset = 0, limit = DEFAULT_CHARACTERS }, { context: { run } }) {
      const file = await fileFor(parts, run, String(fileId))
      const { id, name, mediaType, size, width, spaceId, places } = file
      const about = { fileId: id, name, mediaType, size }
      const own = spaceId === null ? [] : [spaceId]
      const learned = { places: [...places, ...own], label: [...file.label, ...(file.confidential ? own : [])] }
      if (width !== null) return { ...(await pictureOutput(parts, file, about)), effects: { learned } }
      const first = Math.min(Number(offset), Number.MAX_SAFE_INTEGER)
      const part = await parts.files.textPart(id, first, Math.min(Number(limit), MOST_CHARACTERS))
      if (part === null) return { output: { ...about, ...NO_TEXT }, effects: { learned } }
      const next = first + part.text.length
      const output: JsonObject = { ...about, text: part.text, totalCharacters: part.length }
      if (next < part.length) output['nextOffset'] = next
      return { output, effects: { learned } }
    },
  }),
})

type Parts = Pick<ToolParts, 'files' | 'discretion'>

/**
 * Returns a file that the run may read.
 * @throws ToolFailure, which is the same for a missing file and for one that the run may not read
 */
async function fileFor({ files, discretion }: Parts, run: ClaimedRun, id: string): Promise<ReadableFile> {
  const file = prefixOf(id) === 'fil' ? await files.readableBy(run.agentId, id) : null
  if (file === null || !(await mayRead(discretion, run, file)))
    throw new ToolFailure('NOT_FOUND', 'There is no such file, or you may not read it.')
  return file
}

/**
 * Whether the run may read the file. A file of a call may be read only if the call's label is already part of the
 * run's label or sources.
 */
async function mayRead(
  discretion: Parts['discretion'],
  run: ClaimedRun,
  { spaceId, confidential, label }: ReadableFile,
): Promise<boolean> {
  if (spaceId === null) return label.every((source) => run.label.includes(source) || run.places.includes(source))
  return !confidential || (await discretion.toEnter(run, spaceId)) === null
}

async function pictureOutput(
  { files }: Parts,
  { id, width, height }: ReadableFile,
  about: JsonObject,
): Promise<ToolOutput> {
  const picture = await files.pictureOf(id).catch(orStorageFailure)
  const shown = picture === null ? null : toolFile('image/jpeg', picture)
  const output = { ...about, width, height, ...(shown === null ? NO_PICTURE : {}) }
  return { output, files: shown === null ? [] : [shown] }
}

const NO_PICTURE = { note: 'The picture cannot be shown.' }
const NO_TEXT = { note: 'No text was found in this file.' }

/** @throws ToolFailure if the storage is unavailable; `error` if it has another cause */
export function orStorageFailure(error: unknown): never {
  if (error instanceof StorageUnavailableError) throw new ToolFailure('UNAVAILABLE', error.message)
  throw error
}
