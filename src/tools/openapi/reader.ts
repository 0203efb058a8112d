import { once } from 'node:events'
import path from 'node:path'
import { Worker } from 'node:worker_threads'
import type { Viewer } from '../../access/viewer.ts'
import { checkUrl } from '../../agents/outgoing-request.ts'
import { isBuiltInTool, LONGEST_TOOL_NAME } from '../../agents/tool-names.ts'
import { contentTypeOf, decodedText } from '../../lib/decoded-text.ts'
import { BadInputError, messageOf } from '../../lib/errors.ts'
import { createFairQueue } from '../../lib/fair-queue.ts'
import { requireAdmin } from '../../rules/permissions.ts'
import type { GuardedHttp } from '../custom/guarded-http.ts'
import type { OpenApiTool } from './operations.ts'
import type { DocumentAnswer, DocumentQuestion } from './thread.ts'

export type { OpenApiTool } from './operations.ts'

export interface ReadOpenApiInput {
  document?: string | null
  url?: string | null
}

/** Reads OpenAPI documents. */
export interface OpenApiReader {
  /**
   * Admins only: returns the operations of a document as tools, with unique names.
   * @throws ForbiddenError, or BadInputError with the field at fault
   */
  readOpenApi(viewer: Viewer, input: ReadOpenApiInput): Promise<OpenApiTool[]>
}

export interface OpenApiReaderParts {
  /** Must limit a response to `LARGEST_DOCUMENT_BYTES`. */
  http: GuardedHttp
}

export const LARGEST_DOCUMENT_BYTES = 5 * 1024 * 1024
const FETCH_TIMEOUT_MS = 20_000
const READ_TIMEOUT_MS = 20_000

export function createOpenApiReader({ http }: OpenApiReaderParts): OpenApiReader {
  /** Documents are read one at a time, because each is read in a thread that may use much memory. */
  const queue = createFairQueue({
    mostWaiting: 10,
    refusal: 'Too many documents are waiting to be read. Wait, then try again.',
  })

  async function fetched(url: string): Promise<string> {
    const headers = { accept: 'application/json, application/yaml, text/yaml, */*' }
    const outcome = await http.send({ method: 'GET', url, headers, timeoutMs: FETCH_TIMEOUT_MS })
    if (outcome.type === 'failure') throw new BadInputError(outcome.message, 'input.url')
    return decodedText(outcome.body, contentTypeOf(outcome.contentType).charset)
  }

  return {
    async readOpenApi(viewer, { document, url }) {
      requireAdmin(viewer, 'read OpenAPI documents')
      if ((document == null) === (url == null))
        throw new BadInputError('Pass either the document or its URL.', 'input.document')
      if (document != null && Buffer.byteLength(document) > LARGEST_DOCUMENT_BYTES)
        throw new BadInputError('A document has at most 5 MB.', 'input.document')
      const field = document == null ? 'input.url' : 'input.document'
      const address = url == null ? null : checkUrl(url, 'input.url')
      const text = address === null ? (document ?? '') : await fetched(address)
      const answer = await queue.run({ id: viewer.scope, isPatient: false }, () => readInThread({ text, address }))
      if (answer.type === 'fault') throw new BadInputError(answer.message, field)
      return withUniqueNames(answer.tools)
    },
  }
}

/** Reads a document in a thread with limits on time and memory. */
async function readInThread(question: DocumentQuestion): Promise<DocumentAnswer> {
  const worker = new Worker(new URL(`./thread${path.extname(import.meta.url)}`, import.meta.url), {
    workerData: question,
    execArgv: ['--disable-warning=ExperimentalWarning'],
    resourceLimits: { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 64 },
  })
  try {
    const [answer] = await once(worker, 'message', { signal: AbortSignal.timeout(READ_TIMEOUT_MS) })
    return answer as DocumentAnswer
  } catch (error) {
    const { name, code } = error as { name?: string; code?: string }
    if (name === 'AbortError') return { type: 'fault', message: 'Reading the document took too long.' }
    if (code === 'ERR_WORKER_OUT_OF_MEMORY')
      return { type: 'fault', message: 'Reading the document took too much memory.' }
    return { type: 'fault', message: `The document could not be read: ${messageOf(error)}` }
  } finally {
    await worker.terminate()
  }
}

function withUniqueNames(tools: OpenApiTool[]): OpenApiTool[] {
  const taken = new Set<string>()
  return tools.map((tool) => {
    let name = tool.name
    for (let count = 2; taken.has(name) || isBuiltInTool(name); count += 1) {
      const end = `_${count}`
      name = `${tool.name.slice(0, LONGEST_TOOL_NAME - end.length)}${end}`
    }
    taken.add(name)
    return { ...tool, name }
  })
}
