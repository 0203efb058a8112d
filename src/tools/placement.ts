import type { Json, JsonObject } from '../lib/json.ts'
import { type Tool, ToolFailure } from './tool.ts'

/** The place where the model wants a call to be shown. Used with the toolset SPACE_TOOLS. */
export interface Placement {
  /** The space; null if the call is not shown. */
  spaceId: string | null
  /** An agent to wake once the call is shown. */
  mention: string | null
}

/** The input fields for the placement. Every visible tool of SPACE_TOOLS has them. */
export const PLACEMENT_FIELDS = ['targetSpaceId', 'mention'] as const

/** Separates the placement from the rest of the tool's input. The placement becomes part of the call's state. */
export function takePlacement(
  tool: Pick<Tool, 'placement'> | undefined,
  input: Json,
): { input: Json; state: JsonObject } {
  const fields = tool?.placement ?? []
  if (fields.length === 0 || typeof input !== 'object' || input === null || Array.isArray(input))
    return { input, state: {} }
  const entries = Object.entries(input)
  const placement = Object.fromEntries(entries.filter(([name]) => fields.includes(name)))
  return {
    input: Object.fromEntries(entries.filter(([name]) => !fields.includes(name))),
    state: { placement },
  }
}

/** Reads the placement from a call's state. Ignores a mention without a space. @throws ToolFailure for an invalid id */
export function placementOf({ placement }: JsonObject): Placement {
  const { targetSpaceId, mention } = (placement ?? {}) as JsonObject
  const spaceId = idIn(targetSpaceId, 'targetSpaceId')
  return { spaceId, mention: spaceId === null ? null : idIn(mention, 'mention') }
}

/**
 * Reads the placement from an input that the model is still writing. Returns null if the placement is absent, may
 * be incomplete, or has an invalid id. Invalid ids are reported once the input is complete.
 */
export function placementSoFar(written: JsonObject): Placement | null {
  const fields = Object.keys(written)
  const last = fields.at(-1)
  const isWritten = fields.includes('targetSpaceId') && !PLACEMENT_FIELDS.some((field) => field === last)
  if (!isWritten) return null
  try {
    return placementOf({ placement: written })
  } catch {
    return null
  }
}

function idIn(value: Json | undefined, field: string): string | null {
  if (value == null || value === '') return null
  if (typeof value !== 'string') throw new ToolFailure('BAD_INPUT', `${field} must be a string: an id.`)
  return value
}
