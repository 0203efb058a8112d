// The worker thread of reader.ts. It parses an untrusted document, and can be terminated at any time.
import { parentPort, workerData } from 'node:worker_threads'
import { parse } from 'yaml'
import { messageOf } from '../../lib/errors.ts'
import type { Json } from '../../lib/json.ts'
import { DocumentFault, type OpenApiTool, toolsOfDocument } from './operations.ts'

/** The document as text, and its URL. */
export interface DocumentQuestion {
  text: string
  address: string | null
}

export type DocumentAnswer = { type: 'tools'; tools: OpenApiTool[] } | { type: 'fault'; message: string }

function answerTo({ text, address }: DocumentQuestion): DocumentAnswer {
  try {
    return { type: 'tools', tools: toolsOfDocument(parsed(text), address) }
  } catch (error) {
    if (error instanceof DocumentFault) return { type: 'fault', message: error.message }
    throw error
  }
}

function parsed(text: string): Json {
  const isJson = /^\s*\{/.test(text)
  try {
    // JSON is parsed by JSON.parse, which is much faster than the YAML parser. The YAML parser refuses aliases that
    // expand exponentially.
    return (isJson ? JSON.parse(text) : parse(text, { logLevel: 'error', merge: true })) as Json
  } catch (error) {
    const [line] = messageOf(error).split('\n')
    throw new DocumentFault(`The document is not ${isJson ? 'JSON' : 'YAML'}: ${(line ?? '').slice(0, 300)}`)
  }
}

parentPort?.postMessage(answerTo(workerData as DocumentQuestion))
