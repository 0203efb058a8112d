import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Viewer } from '../../src/access/viewer.ts'
import type { CreateAgentInput, UpdateAgentInput } from '../../src/agents/agent-input.ts'
import { idPageRequest } from '../../src/graphql/connections.ts'
import { encodeIdCursor } from '../../src/lib/id-cursor.ts'
import { newId } from '../../src/lib/ids.ts'
import { type Domain, openDomain } from '../support/domain.ts'
import { hasPostgres } from '../support/postgres.ts'

describe.skipIf(!hasPostgres)('agents', () => {
  let domain: Domain
  beforeAll(async () => {
    domain = await openDomain()
  })
  afterAll(() => domain.close())

  const fault = (field: string) => ({ code: 'BAD_INPUT', field: `input.${field}` })
  const update = (id: string, changes: Omit<UpdateAgentInput, 'id'>) =>
    domain.agents.update(domain.admin, { id, ...changes })

  describe('creating', () => {
    test('an omitted field has the default of its mind', async () => {
      const stateless = await domain.agent('Stateless')
      expect(stateless).toMatchObject({
        kind: 'AGENT',
        name: 'Stateless',
        description: null,
        model: 'demo',
        maxSteps: 20,
        tokenBudget: null,
        maxConcurrentRuns: 5,
        phases: [],
        cycle: null,
      })
      const persistent = await domain.agent('Persistent', { mind: 'PERSISTENT' })
      expect(persistent).toMatchObject({
        tokenBudget: 50_000,
        cycle: {
          maxConsciousnessTokens: 100_000,
          minRecentCycles: 10,
          inboxPreview: true,
          urgentInjection: true,
          urgentFrom: [],
          stopWhenAllAnswered: false,
        },
      })
    })

    test('null is also the default, except that it removes the token budget', async () => {
      const nothing = { model: null, maxSteps: null, maxConcurrentRuns: null, tools: null, phases: null, cycle: null }
      const agent = await domain.agent('Null', { ...nothing, mind: 'PERSISTENT', tokenBudget: null, mcpServers: null })
      expect(agent).toMatchObject({ model: 'demo', maxSteps: 20, maxConcurrentRuns: 5, tokenBudget: null })
    })

    test('only admins create and change agents, and others learn nothing by trying', async () => {
      const { id } = await domain.agent('Theirs')
      const viewers: Viewer[] = [await domain.human('Ada'), await domain.service('Jira', null)]
      for (const viewer of viewers) {
        const input = { name: 'x', instructions: '', mind: 'STATELESS', toolset: 'ACTIVE_SPACE' } as const
        await expect(domain.agents.create(viewer, input)).rejects.toMatchObject({ code: 'FORBIDDEN' })
        for (const target of [id, newId('agt')]) {
          const changing = domain.agents.update(viewer, { id: target, name: 'x' })
          await expect(changing).rejects.toMatchObject({ code: 'FORBIDDEN' })
        }
      }
    })

    test.each<[string, Partial<CreateAgentInput>]>([
      ['name', { name: ' ' }],
      ['name', { name: 'x'.repeat(201) }],
      ['description', { description: 'x'.repeat(4001) }],
      ['instructions', { instructions: 'x'.repeat(64_001) }],
      ['instructions', { instructions: 'nul\0' }],
      ['model', { model: 'nonsense' }],
      ['maxSteps', { maxSteps: 0 }],
      ['tokenBudget', { tokenBudget: -1 }],
      ['maxConcurrentRuns', { maxConcurrentRuns: 101 }],
      ['cycle', { cycle: { minRecentCycles: 1 } }],
      ['cycle.maxConsciousnessTokens', { mind: 'PERSISTENT', cycle: { maxConsciousnessTokens: 0 } }],
      ['cycle.urgentFrom', { mind: 'PERSISTENT', cycle: { urgentFrom: [newId('hum')] } }],
      ['phases.0.fromStep', { phases: [{ fromStep: -1, toolChoice: 'AUTO' }] }],
      ['phases.0.model', { phases: [{ fromStep: 0, model: 'nonsense', toolChoice: 'AUTO' }] }],
      ['phases.0.activeTools', { phases: [{ fromStep: 0, activeTools: ['nonsense'], toolChoice: 'AUTO' }] }],
      ['phases.0.activeTools', { phases: [{ fromStep: 0, activeTools: [], toolChoice: 'REQUIRED' }] }],
      [
        'phases.1.fromStep',
        {
          phases: [
            { fromStep: 0, toolChoice: 'AUTO' },
            { fromStep: 0, toolChoice: 'NONE' },
          ],
        },
      ],
    ])('an invalid %s is refused with the name of the field: %j', async (field, input) => {
      await expect(domain.agent('Some agent', input)).rejects.toMatchObject(fault(field))
    })

    test('phases are stored in the order of their steps and may name built-in, own and MCP tools', async () => {
      const tool = { name: 'lookup', description: '', inputSchema: { type: 'object' }, execution: 'INTERNAL' as const }
      const agent = await domain.agent('Phased', {
        tools: [tool],
        mcpServers: [{ name: 'jira', url: 'https://mcp.example' }],
        phases: [
          { fromStep: 3, toolChoice: 'NONE', model: 'openai:gpt-5' },
          { fromStep: 0, toolChoice: 'REQUIRED', activeTools: ['enter_space', 'lookup', 'jira__search', 'lookup'] },
        ],
      })
      expect(agent.phases).toEqual([
        { fromStep: 0, model: null, activeTools: ['enter_space', 'lookup', 'jira__search'], toolChoice: 'REQUIRED' },
        { fromStep: 3, model: 'openai:gpt-5', activeTools: null, toolChoice: 'NONE' },
      ])
    })

    test('a refused agent leaves nothing behind', async () => {
      const before = await domain.platform.db.prisma.entity.count()
      const input = { mind: 'PERSISTENT' as const, cycle: { urgentFrom: [newId('spc')] } }
      await expect(domain.agent('Half', input)).rejects.toMatchObject({ code: 'BAD_INPUT' })
      expect(await domain.platform.db.prisma.entity.count()).toBe(before)
    })
  })

  describe('changing', () => {
    test('an omitted field stays unchanged', async () => {
      const { id, ...before } = await domain.agent('Same', { description: 'd', instructions: 'i', tokenBudget: 9 })
      expect(await update(id, {})).toEqual({ id, ...before })
      const after = await update(id, { name: 'Other', instructions: 'j', model: 'openai:gpt-5', maxSteps: 3 })
      expect(after).toEqual({
        id,
        ...before,
        name: 'Other',
        instructions: 'j',
        version: 2,
        model: 'openai:gpt-5',
        maxSteps: 3,
        maxToolCalls: 15,
      })
    })

    test('null clears description and token budget, and nothing else', async () => {
      const { id } = await domain.agent('Cleared', { description: 'd', tokenBudget: 9 })
      const cleared = await update(id, { description: null, tokenBudget: null, cycle: null })
      expect(cleared).toMatchObject({ description: null, tokenBudget: null })
      const fields = ['name', 'instructions', 'model', 'maxSteps', 'maxConcurrentRuns', 'tools', 'phases', 'mcpServers']
      for (const field of fields) await expect(update(id, { [field]: null })).rejects.toMatchObject(fault(field))
    })

    test('a cycle changes field by field', async () => {
      const ada = await domain.human('Ada')
      const { id, cycle } = await domain.agent('Thinker', { mind: 'PERSISTENT', cycle: { minRecentCycles: 3 } })
      const urgent = await update(id, { cycle: { urgentFrom: [ada.id, ada.id], inboxPreview: false } })
      expect(urgent.cycle).toEqual({ ...cycle, minRecentCycles: 3, urgentFrom: [ada.id], inboxPreview: false })
      expect((await update(id, { cycle: {} })).cycle).toEqual(urgent.cycle)
      await expect(update(id, { cycle: null })).rejects.toMatchObject(fault('cycle'))
      await expect(update(id, { cycle: { minRecentCycles: null } })).rejects.toMatchObject(
        fault('cycle.minRecentCycles'),
      )
    })

    test('urgentFrom accepts only existing humans and spaces', async () => {
      const { id: spaceId } = await domain.space(domain.admin)
      const { id } = await domain.agent('Thinker', { mind: 'PERSISTENT' })
      expect((await update(id, { cycle: { urgentFrom: [spaceId] } })).cycle?.urgentFrom).toEqual([spaceId])
      for (const other of [id, newId('spc'), 'nonsense', '\0']) {
        await expect(update(id, { cycle: { urgentFrom: [other] } })).rejects.toMatchObject(fault('cycle.urgentFrom'))
      }
    })

    test('an agent that does not exist is not found', async () => {
      const human = await domain.human('Not an agent')
      for (const id of [newId('agt'), human.id, '\0']) {
        await expect(update(id, { name: 'x' })).rejects.toMatchObject({ code: 'NOT_FOUND' })
      }
    })

    test('two concurrent changes both count', async () => {
      const { id } = await domain.agent('Busy', { mind: 'PERSISTENT' })
      await Promise.all([
        update(id, { cycle: { minRecentCycles: 1 } }),
        update(id, { cycle: { inboxPreview: false } }),
        update(id, { cycle: { urgentInjection: false } }),
        update(id, { name: 'Renamed' }),
      ])
      const [agent] = await domain.agents.getMany([id])
      expect(agent).toMatchObject({
        name: 'Renamed',
        cycle: { minRecentCycles: 1, inboxPreview: false, urgentInjection: false },
      })
    })
  })

  describe('the directory', () => {
    const names = async (viewer: Viewer, search: string | null, page = {}) =>
      (await domain.agents.page(viewer, idPageRequest('agt', page), search)).items.map(({ name }) => name)

    test('search finds text in name and description, ignoring case, newest first', async () => {
      const ada = await domain.human('Ada')
      await domain.agent('Zebra One', { description: 'stripes' })
      await domain.agent('Second', { description: 'about a ZEBRA' })
      expect(await names(ada, 'zebra')).toEqual(['Second', 'Zebra One'])
      expect(await names(ada, ' Stripes ')).toEqual(['Zebra One'])
      expect(await names(ada, 'zebra', { last: 1 })).toEqual(['Zebra One'])
    })

    test('a percent sign, an underscore and a backslash are literal', async () => {
      await domain.agent('Discount 50% _off_ a\\b')
      for (const search of ['50%', '_off_', 'a\\b']) expect(await names(domain.admin, search)).toHaveLength(1)
      for (const search of ['5%0', '5_%', 'D%t', 'a_b']) expect(await names(domain.admin, search)).toEqual([])
      expect((await names(domain.admin, '  ')).length).toBeGreaterThan(1)
    })

    test('a service sees the agents that its token grants', async () => {
      const agents = [await domain.agent('Mine'), await domain.agent('Mine too')]
      await domain.agent('Not mine')
      const service = await domain.service(
        'Jira',
        agents.map(({ id }) => id),
      )
      expect(await names(service, null)).toEqual(['Mine too', 'Mine'])
      expect(await names(await domain.service('Nothing', []), null)).toEqual([])
    })

    test('pages are consecutive', async () => {
      for (const name of ['a', 'b', 'c', 'd', 'e']) await domain.agent(`paged ${name}`)
      const first = await domain.agents.page(domain.admin, idPageRequest('agt', { first: 2 }), 'paged')
      expect(first.items.map(({ name }) => name)).toEqual(['paged e', 'paged d'])
      expect([first.hasPreviousPage, first.hasNextPage]).toEqual([false, true])
      const after = encodeIdCursor(first.items[1]!.id)
      const second = await domain.agents.page(domain.admin, idPageRequest('agt', { first: 3, after }), 'paged')
      expect(second.items.map(({ name }) => name)).toEqual(['paged c', 'paged b', 'paged a'])
      expect([second.hasPreviousPage, second.hasNextPage]).toEqual([true, false])
      const before = encodeIdCursor(second.items[0]!.id)
      const back = await domain.agents.page(domain.admin, idPageRequest('agt', { last: 1, before }), 'paged')
      expect(back.items.map(({ name }) => name)).toEqual(['paged d'])
      expect([back.hasPreviousPage, back.hasNextPage]).toEqual([true, true])
    })

    test('an invalid search or cursor is refused', async () => {
      const page = domain.agents.page(domain.admin, idPageRequest('agt', {}), 'x'.repeat(201))
      await expect(page).rejects.toMatchObject({ code: 'BAD_INPUT', field: 'search' })
      for (const after of [encodeIdCursor(newId('spc')), newId('agt')]) {
        expect(() => idPageRequest('agt', { after })).toThrow(expect.objectContaining({ code: 'BAD_INPUT' }))
      }
    })
  })

  describe('humans', () => {
    test('only admins create humans; their names and external ids have rules', async () => {
      const { humans, admin } = domain
      const ada = await humans.create(admin, { name: ' Ada ', externalId: 'auth0|ada' })
      expect(ada).toMatchObject({ kind: 'HUMAN', name: 'Ada', externalId: 'auth0|ada' })
      const again = humans.create(admin, { name: 'Eve', externalId: 'auth0|ada' })
      await expect(again).rejects.toMatchObject({ code: 'CONFLICT' })
      await expect(humans.create(admin, { name: '' })).rejects.toMatchObject(fault('name'))
      for (const externalId of ['', ada.id, 'x'.repeat(256)]) {
        await expect(humans.create(admin, { name: 'x', externalId })).rejects.toMatchObject(fault('externalId'))
      }
      const asAda: Viewer = { scope: 'HUMAN', id: ada.id, tokenId: null, expiresAt: null }
      await expect(humans.create(asAda, { name: 'x' })).rejects.toMatchObject({ code: 'FORBIDDEN' })
    })

    test('humans are found by id, agents are not', async () => {
      const ada = await domain.human('Ada')
      const agent = await domain.agent('Agent')
      const found = await domain.humans.getMany([agent.id, ada.id, newId('hum'), '\0'])
      expect(found.map((human) => human?.id)).toEqual([undefined, ada.id, undefined, undefined])
    })
  })
})
