import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import pg from 'pg'
import { STACKS, type TestApplication } from './application.ts'
import { findPostgres } from './postgres.ts'
import { until } from './until.ts'

/** An embedding model on a local port, in OpenAI's format. Its vectors are bags of words. */
export interface EmbeddingServer {
  /** Settings for an application that searches with the model `bag` of this server, or with another one. */
  settings(model?: string): Record<string, string>
  /** All texts of accepted requests, each with its model. */
  texts: { model: string; text: string }[]
  /** The answer to requests: vectors, 503, or 400 for texts that contain a word. */
  state: { isDown: boolean; refuses: string | null }
  close(): Promise<void>
}

const DIMENSIONS = 512
/** Groups of words with the same meaning. */
const SYNONYMS: Readonly<Record<string, string>> = { automobile: 'car', vehicle: 'car', feline: 'cat' }

export async function startEmbeddingServer(): Promise<EmbeddingServer> {
  const texts: EmbeddingServer['texts'] = []
  const state: EmbeddingServer['state'] = { isDown: false, refuses: null }
  const server = createServer(async (request, response) => {
    const { model, input } = (await json(request)) as { model: string; input: string[] }
    const { refuses } = state
    const isRefused = refuses !== null && input.some((text) => text.includes(refuses))
    const status = state.isDown ? 503 : isRefused ? 400 : 200
    if (status === 200) texts.push(...input.map((text) => ({ model, text })))
    const data = input.map((text, index) => ({ object: 'embedding', index, embedding: vectorOf(text, model) }))
    const error = { error: { message: `refused with ${status}`, type: 'invalid_request_error' } }
    const usage = { prompt_tokens: input.length, total_tokens: input.length }
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify(status === 200 ? { object: 'list', data, model, usage } : error))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  return {
    settings: (model = 'bag') => ({
      PARLEY_PROVIDERS: JSON.stringify({ embeddings: { api: 'openai-chat', baseUrl } }),
      PARLEY_EMBEDDINGS: `embeddings:${model}`,
    }),
    texts,
    state,
    close() {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}

/**
 * Each canary word `wq…xz` has a meaning of its own, and also means a heron. The vectors of the model `narrow` have another
 * dimension.
 */
function vectorOf(text: string, model: string): number[] {
  const vector = Array.from({ length: model === 'narrow' ? DIMENSIONS / 2 : DIMENSIONS }, () => 0)
  const words = text.toLowerCase().match(/[a-z0-9]+/g) ?? ['']
  for (const word of words.flatMap((one) => (one.startsWith('wq') ? [one, 'heron'] : one))) {
    const index = hashOf(SYNONYMS[word] ?? word) % vector.length
    vector[index] = (vector[index] ?? 0) + 1
  }
  return vector
}

function hashOf(word: string): number {
  let hash = 7
  for (const character of word) hash = (hash * 31 + (character.codePointAt(0) ?? 0)) % 1_000_003
  return hash
}

/** Waits until each text has its vector, and no older text is left to process. */
export async function embedded(parley: TestApplication): Promise<void> {
  const { db, config } = parley.app.platform
  await until('all texts have vectors', async () => {
    const [row] = await db.prisma.$queryRaw<{ isDone: boolean }[]>`
      SELECT NOT EXISTS (SELECT FROM "SearchVector" WHERE vector IS NULL) AND EXISTS (
        SELECT FROM "SearchModel" WHERE name = ${config.embeddingModel} AND "backfillBefore" = '') AS "isDone"`
    return row?.isDone
  })
}

async function isPgvectorAvailable(): Promise<boolean> {
  const url = await findPostgres()
  if (url === null) return false
  const client = new pg.Client({ connectionString: url })
  try {
    await client.connect()
    const { rows } = await client.query("SELECT FROM pg_available_extensions WHERE name = 'vector'")
    return rows.length > 0
  } finally {
    await client.end()
  }
}

/** Whether the PostgreSQL server for tests has pgvector. */
export const hasPgvector = await isPgvectorAvailable()

/** The stacks of this machine that can search by meaning. */
export const VECTOR_STACKS = STACKS.filter((stack) => stack === 'embedded' || hasPgvector)

if (VECTOR_STACKS.length < STACKS.length)
  console.warn('SKIPPED: search by meaning on PostgreSQL, because the server has no pgvector')
