import { BadInputError, DomainError } from '../../lib/errors.ts'
import { ToolFailure } from '../tool.ts'

/** Does what a tool is for; what the domain refuses is a failure that tells the model where its input is at fault. */
export async function refusable<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof DomainError)) throw error
    const field = error instanceof BadInputError ? error.field?.replace(/^input\./, '') : undefined
    throw new ToolFailure(error.code, field ? `${field}: ${error.message}` : error.message)
  }
}

/** Texts of an input's list. */
export function textsOf(input: unknown): string[] {
  return Array.isArray(input) ? input.map(String) : []
}

/** Those of a list that there were not. */
export function missingOf(asked: readonly string[], found: readonly string[]): string[] {
  return [...new Set(asked)].filter((text) => !found.includes(text))
}
