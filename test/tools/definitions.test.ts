import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { delegateTool } from '../../src/tools/routing/delegate.ts'
import { delegateToAgentTool } from '../../src/tools/routing/delegate-to-agent.ts'
import { mentionAgentTool } from '../../src/tools/routing/mention-agent.ts'
import { skipTool } from '../../src/tools/routing/skip.ts'
import { getMyRunsTool as getOwnRunsTool } from '../../src/tools/runs/get-my-runs.ts'
import { stopRunTool } from '../../src/tools/runs/stop-run.ts'
import { enterSpaceTool } from '../../src/tools/space/enter-space.ts'
import { readMessagesTool } from '../../src/tools/space/read-messages.ts'
import { sendMessageTool } from '../../src/tools/space/send-message.ts'
import { getMyRunsTool } from '../../src/tools/space-tools/get-my-runs.ts'
import { readSpaceMessagesTool } from '../../src/tools/space-tools/read-space-messages.ts'
import { sendSpaceMessageTool } from '../../src/tools/space-tools/send-space-message.ts'
import type { Tool } from '../../src/tools/tool.ts'

/** The tools' definitions as the design documents give them, made definite; the words of their descriptions are not ours. */
const DEFINITIONS = JSON.parse(readFileSync(path.join(import.meta.dirname, 'definitions.json'), 'utf8')) as {
  name: string
  inputSchema: unknown
}[]

const nothing = {} as never
const TOOLS: Tool[] = [
  readSpaceMessagesTool(nothing),
  sendSpaceMessageTool(nothing),
  delegateToAgentTool(nothing),
  getMyRunsTool(nothing, nothing, nothing),
  getOwnRunsTool(nothing, nothing),
  stopRunTool(nothing, nothing),
  mentionAgentTool(nothing, false),
  delegateTool(nothing, false),
  enterSpaceTool(nothing, 50),
  sendMessageTool(nothing),
  readMessagesTool(nothing),
  skipTool(nothing, 'PERSISTENT'),
]

/** A schema without its descriptions. */
function bare(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(bare)
  if (typeof schema !== 'object' || schema === null) return schema
  const entries = Object.entries(schema).filter(([name, value]) => name !== 'description' || typeof value !== 'string')
  return Object.fromEntries(entries.map(([name, value]) => [name, bare(value)]))
}

function descriptionsIn(schema: unknown): string[] {
  if (typeof schema !== 'object' || schema === null) return []
  return Object.entries(schema).flatMap(([name, value]) =>
    name === 'description' && typeof value === 'string' ? [value] : descriptionsIn(value),
  )
}

describe('the definitions of the tools', () => {
  test.each(DEFINITIONS)('$name has the input schema of the design to the letter', ({ name, inputSchema }) => {
    const tool = TOOLS.find((candidate) => candidate.name === name)
    expect(bare(tool?.inputSchema)).toEqual(bare(inputSchema))
    expect(Object.keys((tool?.inputSchema.properties ?? {}) as object)).toEqual(
      Object.keys((inputSchema as { properties: object }).properties),
    )
  })

  test.each(TOOLS)('$name and each of its fields is described', ({ description, inputSchema }) => {
    expect(description.length).toBeGreaterThan(40)
    const fields = JSON.stringify(bare(inputSchema)).match(/"type":/g)?.length ?? 0
    expect(descriptionsIn(inputSchema).length).toBeGreaterThanOrEqual(Math.min(fields - 2, 1))
  })
})
