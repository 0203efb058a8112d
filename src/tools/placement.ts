import type { Json, JsonObject } from '../lib/json.ts'
import { type Tool, ToolFailure } from './tool.ts'

/** Where a call shows, as the model asked: for a toolset whose calls name their space. */
export interface Placement {
  /** Null: nowhere. */
  spaceId: string | null
  /** An agent to wake once the call shows there. */
  mention: string | null
}

/** The input fields that every visible tool gets with such a toolset. */
export const PLACEMENT_FIELDS = ['targetSpaceId', 'mention'] as const

/** Takes the placement out of what the model wrote: the rest is the tool's input, the placement goes into the call's state. */
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

/** The placement in a call's state. Without a space there is nobody to mention. @throws ToolFailure for what is no id */
export function placementOf({ placement }: JsonObject): Placement {
  const { targetSpaceId, mention } = (placement ?? {}) as JsonObject
  const spaceId = idIn(targetSpaceId, 'targetSpaceId')
  return { spaceId, mention: spaceId === null ? null : idIn(mention, 'mention') }
}

/**
 * Where a call shows, by what is written of its input, in the order in which the model wrote it. Null where that is not known yet, as
 * a placement may still be written, and where it is nowhere or no id: what is said of that waits until the input is whole.
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
