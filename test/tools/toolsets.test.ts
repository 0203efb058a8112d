import { describe, expect, test } from 'vitest'
import { BUILT_IN_TOOL_NAMES, isBuiltInTool } from '../../src/agents/tool-names.ts'
import type { Mind, Toolset } from '../../src/generated/prisma/client.ts'
import { TOOLS_WITHOUT_EFFECT } from '../../src/rules/run-end.ts'
import { TOOLS } from '../../src/tools/built-in-tools.ts'
import { createToolbox } from '../../src/tools/toolbox.ts'

const AGENT_ID = 'agt_1'
const OTHERS = [
  { id: AGENT_ID, name: 'Ada', kind: 'AGENT', description: null },
  { id: 'agt_2', name: 'Bea', kind: 'AGENT', description: null },
]

/** The built-in tools of an agent that has all of them, in the order in which its model sees them. */
async function toolsOf(toolset: Toolset, mind: Mind) {
  const parts = { historyLimit: 50, mcp: { toolsFor: async () => [] }, remotes: { toolFor: () => null } }
  const spaces = [
    { id: 'spc_1', routing: 'ADMIN', adminAgentId: AGENT_ID, members: OTHERS },
    { id: 'spc_2', routing: 'MENTION_CHAIN', adminAgentId: null, members: OTHERS },
  ]
  const tools = await createToolbox(parts as never).toolsFor({
    run: { triggerSpaceId: 'spc_1' },
    scene: { agent: { id: AGENT_ID, toolset, mind, tools: [], mcpServers: [] }, spaces },
    speech: { composite: toolset === 'SPACE_TOOLS' ? {} : null },
  } as never)
  return [...tools.values()].map(({ name, description, inputSchema, presence, execution }) => ({
    name,
    description,
    inputSchema,
    execution,
    presence: { ...presence, refuse: undefined },
  }))
}

test('the names that custom tools must not use are those of the built-in tools', () => {
  const defined = Object.values(TOOLS).flatMap((tools) => tools.flatMap(({ names }) => Object.values(names)))
  expect(new Set(BUILT_IN_TOOL_NAMES)).toEqual(new Set(defined))
})

test('the tools that let a think cycle be forgotten after it skips are built-in ones', () => {
  expect(TOOLS_WITHOUT_EFFECT.filter((name) => !isBuiltInTool(name))).toEqual([])
})

describe.each(['ACTIVE_SPACE', 'SPACE_TOOLS'] as const)('the definitions of the toolset %s', (toolset) => {
  test.each(['STATELESS', 'PERSISTENT'] as const)('are unchanged for a %s agent', async (mind) => {
    const definitions = JSON.stringify(await toolsOf(toolset, mind), null, 2)
    await expect(definitions).toMatchFileSnapshot(`toolsets/${toolset}-${mind}.snap`)
  })
})
