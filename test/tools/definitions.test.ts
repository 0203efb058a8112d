import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Toolset } from '../../src/generated/prisma/client.ts'
import { TOOLS as DEFINED } from '../../src/tools/built-in-tools.ts'
import { toolOf } from '../../src/tools/define-tool.ts'
import type { Tool } from '../../src/tools/tool.ts'

/** The definitions of the tools from the design documents, made precise. Descriptions are not compared. */
const DEFINITIONS = JSON.parse(readFileSync(path.join(import.meta.dirname, 'definitions.json'), 'utf8')) as {
  name: string
  inputSchema: unknown
}[]

/** Returns all tools of a toolset. */
function toolsIn(toolset: Toolset): Tool[] {
  const input = { scene: { agent: { toolset, mind: 'PERSISTENT' }, spaces: [] }, speech: { composite: {} } } as never
  const parts = {} as never
  return DEFINED[toolset].flatMap(({ names, create }) => toolOf({ names, create }, parts, input) ?? [])
}

const TOOLS = [...toolsIn('ACTIVE_SPACE'), ...toolsIn('SPACE_TOOLS')]

/** Returns a schema without its descriptions. */
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
  test.each(DEFINITIONS)('$name has exactly the input schema of the design', ({ name, inputSchema }) => {
    const tool = TOOLS.find((candidate) => candidate.name === name)
    expect(bare(tool?.inputSchema)).toEqual(bare(inputSchema))
    expect(Object.keys((tool?.inputSchema.properties ?? {}) as object)).toEqual(
      Object.keys((inputSchema as { properties: object }).properties),
    )
  })

  test.each(TOOLS)('$name and each of its fields has a description', ({ description, inputSchema }) => {
    expect(description.length).toBeGreaterThan(40)
    const fields = JSON.stringify(bare(inputSchema)).match(/"type":/g)?.length ?? 0
    expect(descriptionsIn(inputSchema).length).toBeGreaterThanOrEqual(Math.min(fields - 2, 1))
  })
})
