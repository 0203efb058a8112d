import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createGoals, type Goals } from '../../../src/agents/goals.ts'
import { createMemories, type Memories } from '../../../src/agents/memories.ts'
import { isBuiltInTool } from '../../../src/agents/tool-names.ts'
import type { Toolset } from '../../../src/generated/prisma/client.ts'
import type { JsonObject } from '../../../src/lib/json.ts'
import { checkInput, checkInputSchema } from '../../../src/lib/json-schema.ts'
import type { Plans } from '../../../src/plans/plans.ts'
import type { Platform } from '../../../src/platform/platform.ts'
import { builtInTools } from '../../../src/tools/built-in-tools.ts'
import type { ToolInput, ToolParts } from '../../../src/tools/define-tool.ts'
import type { Tool, ToolUse } from '../../../src/tools/tool.ts'
import { type Domain, openDomain } from '../../support/domain.ts'
import { createPlanning, withJobs } from '../../support/planning.ts'
import { hasPostgres } from '../../support/postgres.ts'

const NOW = Date.parse('2030-01-01T10:00:00Z')

describe.skipIf(!hasPostgres)('an agent', () => {
  let domain: Domain
  let platform: Platform
  let parts: { memories: Memories; goals: Goals; plans: Plans }
  let agentId: string

  beforeAll(async () => {
    domain = await openDomain()
    domain.clock.set(NOW)
    platform = await withJobs(domain.platform)
    const { plans } = createPlanning(platform)
    parts = { memories: createMemories(platform), goals: createGoals(platform), plans }
  })
  beforeEach(async () => {
    agentId = (await domain.agent('Helper')).id
  })
  afterAll(async () => {
    await platform.jobs.close()
    await domain.close()
  })

  /** The knowledge tools of an agent that is not a member of any space. */
  function knowledgeTools(toolset: Toolset): Tool[] {
    const scene = { agent: { toolset, mind: 'STATELESS' }, spaces: [] }
    const input = { run: { triggerSpaceId: null }, scene, speech: { composite: {} } } as unknown as ToolInput
    return builtInTools(parts as unknown as ToolParts, input).filter(({ name }) => /memories|goals|plans/i.test(name))
  }

  /** Makes a call as the engine does, with its input checked first. */
  async function call(name: string, input: JsonObject, toolset: Toolset = 'ACTIVE_SPACE') {
    const tool = knowledgeTools(toolset).find((one) => one.name === name) as Tool
    expect(checkInput(tool.inputSchema, input)).toBe(null)
    const inTransaction: ToolUse['inTransaction'] = (work) => platform.db.transaction((tx) => work(tx, () => {}))
    const use = {
      context: { run: { agentId, rootId: 'trg_one', places: [], label: [], askers: [] } },
      callId: 'tcl_1',
      inTransaction,
    } as unknown as ToolUse
    const { output } = await tool.execute(input, use)
    return output as JsonObject
  }
  const memoriesOf = async (id: string) =>
    ((await parts.memories.listMany([id])).get(id) ?? []).map(({ key, value }) => [key, value])
  const goalsOf = async (id: string) =>
    ((await parts.goals.listMany([id])).get(id) ?? []).map(({ description, status }) => [description, status])
  const plansOf = async (id: string) => ((await parts.plans.listMany([id])).get(id) ?? []).map(({ name }) => name)

  test.each<[Toolset, string[]]>([
    [
      'ACTIVE_SPACE',
      ['set_memories', 'delete_memories', 'set_goals', 'delete_goals', 'set_plans', 'get_plans', 'delete_plans'],
    ],
    [
      'SPACE_TOOLS',
      ['setMemories', 'deleteMemories', 'setGoals', 'deleteGoals', 'setPlans', 'getPlans', 'deletePlans'],
    ],
  ])('have the names of the toolset: %s', (toolset, names) => {
    const tools = knowledgeTools(toolset)
    expect(tools.map(({ name }) => name)).toEqual(names)
    for (const { name, description, inputSchema, presence } of tools) {
      expect(isBuiltInTool(name)).toBe(true)
      expect(description.length).toBeGreaterThan(40)
      expect(checkInputSchema(inputSchema)).toBe(null)
      expect(presence).toEqual({ type: 'hidden' })
    }
  })

  test('set memories by key, and delete them', async () => {
    const fact = { key: 'language', value: 'French' }
    expect(await call('set_memories', { memories: [fact, { key: 'city', value: 'Paris' }] })).toEqual({
      success: true,
      keys: ['city', 'language'],
    })
    await call('setMemories', { memories: [{ key: 'city', value: 'Lyon' }] }, 'SPACE_TOOLS')
    expect(await memoriesOf(agentId)).toEqual([
      ['city', 'Lyon'],
      ['language', 'French'],
    ])
    expect(await call('delete_memories', { keys: ['city', 'county'] })).toEqual({
      success: true,
      deleted: ['city'],
      notFound: ['county'],
    })
    expect(await memoriesOf(agentId)).toEqual([['language', 'French']])
  })

  test('set goals, complete them, and delete them', async () => {
    const added = await call('set_goals', { goals: [{ description: 'Ship it.' }, { description: 'Rest.' }] })
    const [ship, rest] = added.goals as { id: string }[]
    expect(added).toEqual({
      success: true,
      goals: [
        { id: expect.stringMatching(/^gol_/), description: 'Ship it.', status: 'active' },
        { id: expect.stringMatching(/^gol_/), description: 'Rest.', status: 'active' },
      ],
    })
    expect(await call('set_goals', { goals: [{ id: ship?.id ?? '', status: 'completed' }] })).toEqual({
      success: true,
      goals: [{ id: ship?.id, description: 'Ship it.', status: 'completed' }],
    })
    expect(await call('delete_goals', { ids: [rest?.id ?? '', 'gol_none'] })).toEqual({
      success: true,
      deleted: [rest?.id],
      notFound: ['gol_none'],
    })
    expect(await goalsOf(agentId)).toEqual([['Ship it.', 'COMPLETED']])
  })

  test('set plans, list them, and delete them by name or id', async () => {
    const made = await call('set_plans', {
      plans: [
        { name: 'Report', instruction: 'Write it.', cron: '0 6 * * 1-5' },
        { name: 'Call back', instruction: 'Call Ada.', at: '2030-01-01T12:00:00+01:00' },
        { name: 'Look again', instruction: 'Look.', afterSeconds: 90 },
      ],
    })
    const plan = (name: string, instruction: string, cron: string | null, nextRunAt: string) => ({
      id: expect.stringMatching(/^pln_/),
      name,
      instruction,
      cron,
      nextRunAt,
      enabled: true,
    })
    expect(made).toEqual({
      success: true,
      plans: [
        plan('Report', 'Write it.', '0 6 * * 1-5', '2030-01-02T06:00:00.000Z'),
        plan('Call back', 'Call Ada.', null, '2030-01-01T11:00:00.000Z'),
        plan('Look again', 'Look.', null, '2030-01-01T10:01:30.000Z'),
      ],
    })
    expect(await call('get_plans', {})).toEqual(made)
    const lookAgain = (made.plans as { id: string }[])[2]?.id ?? ''
    expect(await call('delete_plans', { names: [' Report', lookAgain, 'Lunch'] })).toEqual({
      success: true,
      deleted: ['Report', 'Look again'],
      notFound: ['Lunch'],
    })
    expect(await plansOf(agentId)).toEqual(['Call back'])
  })

  test('change nothing of another agent', async () => {
    const own = agentId
    await call('set_memories', { memories: [{ key: 'secret', value: 'x' }] })
    await call('set_plans', { plans: [{ name: 'Report', instruction: 'Write it.', afterSeconds: 1 }] })
    const { goals } = await call('set_goals', { goals: [{ description: 'Ship it.' }] })
    const goalId = (goals as { id: string }[])[0]?.id ?? ''
    agentId = (await domain.agent('Other')).id
    expect(await call('delete_memories', { keys: ['secret'] })).toMatchObject({ notFound: ['secret'] })
    expect(await call('delete_plans', { names: ['Report'] })).toMatchObject({ notFound: ['Report'] })
    expect(await call('delete_goals', { ids: [goalId] })).toMatchObject({ notFound: [goalId] })
    await expect(call('set_goals', { goals: [{ id: goalId, status: 'abandoned' }] })).rejects.toMatchObject({
      name: 'ToolFailure',
      code: 'NOT_FOUND',
    })
    expect([await memoriesOf(own), await goalsOf(own), await plansOf(own)]).toEqual([
      [['secret', 'x']],
      [['Ship it.', 'ACTIVE']],
      ['Report'],
    ])
  })

  test.each<[string, string, JsonObject, string]>([
    ['a memory without a key', 'set_memories', { memories: [{ key: ' ', value: 'x' }] }, 'memories.0.key: '],
    ['a goal without a description', 'set_goals', { goals: [{ status: 'active' }] }, 'goals.0.description: '],
    ['a plan without a schedule', 'set_plans', { plans: [{ name: 'a', instruction: 'b' }] }, 'plans.0: '],
    [
      'a cron of six fields',
      'set_plans',
      { plans: [{ name: 'a', instruction: 'b', cron: '* * * * * *' }] },
      'plans.0.cron: ',
    ],
    [
      'a time without a zone',
      'set_plans',
      { plans: [{ name: 'a', instruction: 'b', at: '2031-01-01T06:00' }] },
      'plans.0.at: ',
    ],
    [
      'a past time',
      'set_plans',
      { plans: [{ name: 'a', instruction: 'b', at: '2020-01-01T06:00:00Z' }] },
      'plans.0.at: ',
    ],
  ])('name the invalid field: %s', async (_, name, input, fault) => {
    await expect(call(name, input)).rejects.toMatchObject({
      name: 'ToolFailure',
      code: 'BAD_INPUT',
      message: expect.stringContaining(fault),
    })
  })

  test('refuse more than the maximum of a kind', async () => {
    const memories = Array.from({ length: 500 }, (_, index) => ({ key: `key ${index}`, value: 'x' }))
    await call('set_memories', { memories })
    await expect(call('set_memories', { memories: [{ key: 'one more', value: 'x' }] })).rejects.toMatchObject({
      name: 'ToolFailure',
      code: 'LIMIT_EXCEEDED',
    })
  })
})
