import { BadInputError, DomainError } from '../../lib/errors.ts'
import { ToolFailure } from '../tool.ts'

/**
 * Runs a tool's action. Converts a refusal by the domain layer to a failure that tells the model which input is
 * wrong.
 */
export async function refusable<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof DomainError)) throw error
    const field = error instanceof BadInputError ? error.field?.replace(/^input\./, '') : undefined
    throw new ToolFailure(error.code, field ? `${field}: ${error.message}` : error.message)
  }
}

/** Returns the strings in an input list. */
export function textsOf(input: unknown): string[] {
  return Array.isArray(input) ? input.map(String) : []
}

/** Returns the requested entries that were not found. */
export function missingOf(asked: readonly string[], found: readonly string[]): string[] {
  return [...new Set(asked)].filter((text) => !found.includes(text))
}
