import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Viewer } from '../../src/access/viewer.ts'
import { createGoals, type Goals } from '../../src/agents/goals.ts'
import { createMemories, type Memories } from '../../src/agents/memories.ts'
import { type Marks, UNMARKED } from '../../src/confidentiality/marks.ts'
import { newId } from '../../src/lib/ids.ts'
import type { Tx } from '../../src/platform/db.ts'
import { type Domain, openDomain, RULE_DATABASES } from '../support/domain.ts'

describe.each(RULE_DATABASES)('memories and goals on %s', (database) => {
  let domain: Domain
  let memories: Memories
  let goals: Goals
  let others: Viewer[]
  beforeAll(async () => {
    domain = await openDomain(database)
    memories = createMemories(domain.platform)
    goals = createGoals(domain.platform)
    others = [await domain.human('Ada'), await domain.service('Jira', null)]
  })
  afterAll(() => domain.close())

  const agent = async () => (await domain.agent('Helper')).id
  const recalled = async (agentId: string) =>
    Object.fromEntries(((await memories.listMany([agentId])).get(agentId) ?? []).map(({ key, value }) => [key, value]))

  describe('memories', () => {
    test('are written by key: a new key is added, an existing one replaced', async () => {
      const id = await agent()
      await memories.set(id, [
        { key: 'name', value: 'Ada' },
        { key: 'city', value: 'London' },
      ])
      const all = await memories.set(id, [
        { key: 'city', value: 'Paris' },
        { key: 'city', value: 'Rome' },
      ])
      expect(all.map(({ key, value }) => [key, value])).toEqual([
        ['city', 'Rome'],
        ['name', 'Ada'],
      ])
    })

    test('concurrent edits by an admin and the agent are both kept', async () => {
      const id = await agent()
      const writers = Array.from({ length: 10 }, (_, index) => {
        const entry = [{ key: `key ${index}`, value: String(index) }]
        return index % 2 ? memories.set(id, entry) : memories.setAs(domain.admin, { agentId: id, memories: entry })
      })
      await Promise.all([...writers, memories.delete(id, ['nothing'])])
      expect(Object.keys(await recalled(id))).toHaveLength(10)
    })

    test('are deleted by key, and the existing keys are returned', async () => {
      const id = await agent()
      await memories.set(id, [{ key: 'a', value: '1' }])
      await memories.set(id, [{ key: 'b', value: '2' }])
      expect(await memories.delete(id, ['a', 'never', '\0'])).toEqual(['a'])
      expect(await memories.deleteAs(domain.admin, { agentId: id, keys: ['b'] })).toEqual(['b'])
      expect(await recalled(id)).toEqual({})
    })

    test('an error contains the invalid entry, and none of the others is written', async () => {
      const id = await agent()
      const bad = [
        { key: ' ', value: 'x' },
        { key: 'x'.repeat(201), value: 'x' },
        { key: 'k', value: 'x'.repeat(10_001) },
        { key: 'k', value: '\0' },
      ]
      for (const entry of bad) {
        const setting = memories.set(id, [{ key: 'fine', value: 'x' }, entry])
        await expect(setting).rejects.toMatchObject({ code: 'BAD_INPUT' })
      }
      expect(await recalled(id)).toEqual({})
    })

    test('are at most 500', async () => {
      const id = await agent()
      const many = Array.from({ length: 500 }, (_, index) => ({ key: `key ${index}`, value: '' }))
      await memories.set(id, many)
      const more = memories.set(id, [{ key: 'one more', value: '' }])
      await expect(more).rejects.toMatchObject({ code: 'LIMIT_EXCEEDED' })
      await memories.set(id, [{ key: 'key 1', value: 'changed' }])
      expect(await recalled(id)).toMatchObject({ 'key 1': 'changed' })
    })
  })

  describe('entries that a run may not see', () => {
    const marks = { places: [], label: [] }
    const confidential = async () => {
      const space = await domain.space(domain.admin)
      await domain.platform.db.prisma.space.update({ where: { id: space.id }, data: { confidential: true } })
      return { places: [space.id], label: [space.id] }
    }
    const full = <T>(make: (index: number) => T) => Array.from({ length: 500 }, (_, index) => make(index))
    const inTx = <T>(work: (tx: Tx) => Promise<T>) => domain.platform.db.transaction(work)

    test('do not count towards the limits of its memories and goals, so others cannot use up its limit', async () => {
      const id = await agent()
      const hidden = await confidential()
      const key = (index: number) => ({ key: `key ${index}`, value: '' })
      const goal = (index: number) => ({ description: `Goal ${index}` })
      await inTx((tx) => memories.set(id, full(key), { tx, marks: hidden }))
      await inTx((tx) => goals.set(id, full(goal), { tx, marks: hidden }))
      const full1 = inTx((tx) => memories.set(id, [{ key: 'one more', value: '' }], { tx, marks: hidden }))
      await expect(full1).rejects.toMatchObject({ code: 'LIMIT_EXCEEDED' })
      const full2 = inTx((tx) => goals.set(id, [{ description: 'One more' }], { tx, marks: hidden }))
      await expect(full2).rejects.toMatchObject({ code: 'LIMIT_EXCEEDED' })
      for (const open of [marks, await confidential()]) {
        expect(await inTx((tx) => memories.set(id, [{ key: 'mine', value: '1' }], { tx, marks: open }))).toHaveLength(
          open === marks ? 1 : 2,
        )
        expect(await inTx((tx) => goals.set(id, [{ description: 'Mine' }], { tx, marks: open }))).toHaveLength(1)
      }
    })
  })

  test('an agent has at most 10,000 memories in all spaces together, of which each space can have ten', async () => {
    const id = await agent()
    const confidential = async () => {
      const space = await domain.space(domain.admin)
      await domain.platform.db.prisma.space.update({ where: { id: space.id }, data: { confidential: true } })
      return { places: [space.id], label: [space.id] }
    }
    const write = (marks: Marks, keys: number, from = 0) => {
      const given = Array.from({ length: keys }, (_, index) => ({ key: `key ${from + index}`, value: '' }))
      return domain.platform.db.transaction((tx) => memories.set(id, given, { tx, marks }))
    }
    const first = await confidential()
    await write(first, 499)
    for (let space = 1; space < 20; space++) await write(await confidential(), 500)
    await write(first, 1, 499)
    const last = await confidential()
    expect(await write(last, 10)).toHaveLength(10)
    await expect(write(last, 1, 10)).rejects.toMatchObject({ code: 'LIMIT_EXCEEDED' })
    expect(await write(UNMARKED, 500)).toHaveLength(500)
  })

  describe('goals', () => {
    const pursued = async (agentId: string) => (await goals.listMany([agentId])).get(agentId) ?? []

    test('a new goal is ACTIVE, and an update changes only the given fields', async () => {
      const id = await agent()
      const [goal] = await goals.set(id, [{ description: 'Tidy up' }])
      expect(goal).toMatchObject({ description: 'Tidy up', status: 'ACTIVE' })
      await goals.set(id, [{ id: goal!.id, status: 'COMPLETED' }, { description: 'Rest' }])
      const known = (await pursued(id)).map(({ description, status }) => [description, status])
      expect(known).toEqual([
        ['Tidy up', 'COMPLETED'],
        ['Rest', 'ACTIVE'],
      ])
      expect(await goals.getMany([newId('gol'), goal!.id])).toMatchObject([null, { status: 'COMPLETED' }])
    })

    test('concurrent edits by an admin and the agent are both kept', async () => {
      const id = await agent()
      const [goal] = await goals.set(id, [{ description: 'Tidy up' }])
      await Promise.all([
        goals.setAs(domain.admin, { agentId: id, goals: [{ id: goal!.id, description: 'Tidy up well' }] }),
        goals.set(id, [{ id: goal!.id, status: 'COMPLETED' }]),
        goals.set(id, [{ description: 'Another' }]),
      ])
      const known = (await pursued(id)).map(({ description, status }) => [description, status])
      expect(known).toEqual([
        ['Tidy up well', 'COMPLETED'],
        ['Another', 'ACTIVE'],
      ])
    })

    test("another agent's goal is not found, and then nothing is written", async () => {
      const [id, other] = [await agent(), await agent()]
      const [theirs] = await goals.set(other, [{ description: 'Theirs' }])
      for (const goalId of [theirs!.id, newId('gol'), '\0']) {
        const setting = goals.set(id, [{ description: 'Mine' }, { id: goalId, status: 'ABANDONED' }])
        await expect(setting).rejects.toMatchObject({ code: 'NOT_FOUND' })
        expect(await goals.delete(id, [goalId])).toEqual([])
      }
      expect([await pursued(id), await pursued(other)]).toMatchObject([[], [{ status: 'ACTIVE' }]])
    })

    test('are deleted by id, and the existing ids are returned', async () => {
      const id = await agent()
      const [first, second] = await goals.set(id, [{ description: 'a' }, { description: 'b' }])
      expect(await goals.delete(id, [first!.id, newId('gol')])).toEqual([first!.id])
      expect(await goals.deleteAs(domain.admin, { agentId: id, ids: [second!.id] })).toEqual([second!.id])
      expect(await pursued(id)).toEqual([])
    })

    test.each([[{}], [{ description: ' ' }], [{ description: 'x'.repeat(4001) }]])('%j is refused', async (goal) => {
      const id = await agent()
      await expect(goals.set(id, [goal])).rejects.toMatchObject({
        code: 'BAD_INPUT',
        field: 'input.goals.0.description',
      })
    })
  })

  test('only admins edit memories and goals, and an agent that does not exist has none', async () => {
    const agentId = await agent()
    for (const viewer of others) {
      const input = { agentId, memories: [], keys: [], goals: [], ids: [] }
      const edits = [memories.setAs, memories.deleteAs, goals.setAs, goals.deleteAs]
      for (const edit of edits) await expect(edit(viewer, input)).rejects.toMatchObject({ code: 'FORBIDDEN' })
    }
    const { admin } = domain
    for (const nobody of [newId('agt'), '\0']) {
      const unknown = { agentId: nobody, memories: [], keys: [], goals: [], ids: [] }
      const edits = [memories.setAs, memories.deleteAs, goals.setAs, goals.deleteAs]
      for (const edit of edits) await expect(edit(admin, unknown)).rejects.toMatchObject({ code: 'NOT_FOUND' })
    }
  })
})
