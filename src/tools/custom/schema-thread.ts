// A worker thread of schema-checks.ts: checks schemas and inputs that others wrote, and may be ended in the middle of it.
import { parentPort } from 'node:worker_threads'
import type { JsonObject } from '../../lib/json.ts'
import { checkInput, checkInputSchema, checkJson, checkSchema } from './json-schema.ts'

/** A schema by its JSON text, of what it is, and what is to be checked against it; the schema alone without that. */
export interface SchemaQuestion {
  schema: string
  of: 'input' | 'result'
  value?: unknown
}

const CHECKS = {
  input: { checkSchema: checkInputSchema, check: checkInput },
  result: { checkSchema, check: checkJson },
}

parentPort?.on('message', ({ schema, of, ...question }: SchemaQuestion) => {
  const parsed = JSON.parse(schema) as JsonObject
  const { checkSchema, check } = CHECKS[of]
  parentPort?.postMessage('value' in question ? check(parsed, question.value) : checkSchema(parsed))
})
parentPort?.postMessage('ready')
