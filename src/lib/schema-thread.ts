// The worker thread of schema-checks.ts. It checks untrusted schemas and inputs, and can be terminated during a check.
import { parentPort } from 'node:worker_threads'
import type { JsonObject } from './json.ts'
import { checkInput, checkInputSchema, checkJson, checkSchema } from './json-schema.ts'

/** A request to check a schema, which is JSON text. If `value` is set, that value is checked against the schema. */
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
