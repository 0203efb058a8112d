import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import type { Agent } from '../../src/agents/agents.ts'
import { idPageRequest } from '../../src/graphql/connections.ts'
import { encodeIdCursor } from '../../src/lib/id-cursor.ts'
import { newId } from '../../src/lib/ids.ts'
import { type Domain, openDomain } from '../support/domain.ts'
import { hasPostgres } from '../support/postgres.ts'

describe.skipIf(!hasPostgres)('spaces', () => {
  let domain: Domain
  let ada: HumanViewer
  let bob: HumanViewer
  let stranger: HumanViewer
  let helper: Agent
  let scribe: Agent

  beforeAll(async () => {
    domain = await openDomain()
    ada = await domain.human('Ada')
    bob = await domain.human('Bob')
    stranger = await domain.human('Stranger')
    helper = await domain.agent('Helper')
    scribe = await domain.agent('Scribe')
    await domain.space(domain.admin, [ada.id, bob.id])
  })
  afterAll(() => domain.close())

  const namesIn = async (spaceId: string) =>
    ((await domain.members.listMany([spaceId])).get(spaceId) ?? []).map(({ name }) => name)

  describe('creating', () => {
    test('a human becomes the first member of the space that they create', async () => {
      const { id } = await domain.space(ada, [scribe.id, helper.id, bob.id])
      expect(await namesIn(id)).toEqual(['Ada', 'Scribe', 'Helper', 'Bob'])
    })

    test('an admin creates a space with the given members only', async () => {
      const { id } = await domain.space(domain.admin, [bob.id, helper.id])
      expect(await namesIn(id)).toEqual(['Bob', 'Helper'])
      const empty = await domain.space(domain.admin)
      expect(await namesIn(empty.id)).toEqual([])
    })

    test('a member given twice counts once, the creator included', async () => {
      const { id } = await domain.space(ada, [ada.id, helper.id, helper.id])
      expect(await namesIn(id)).toEqual(['Ada', 'Helper'])
    })

    test('a service cannot create spaces', async () => {
      const service = await domain.service('Jira', null)
      const creating = domain.spaces.create(service, { name: 'x', routing: 'BROADCAST' })
      await expect(creating).rejects.toMatchObject({ code: 'FORBIDDEN' })
    })

    test('a human without a shared space is reported like one that does not exist', async () => {
      const foreign = domain.space(ada, [stranger.id]).catch((error) => error)
      const unknown = domain.space(ada, [newId('hum')]).catch((error) => error)
      expect(await foreign).toMatchObject({ code: 'NOT_FOUND' })
      expect((await foreign).message).toBe((await unknown).message)
    })

    test('an admin cannot add unknown entities either', async () => {
      await expect(domain.space(domain.admin, [newId('agt')])).rejects.toMatchObject({ code: 'NOT_FOUND' })
    })

    test.each(['', '   ', 'x'.repeat(201), 'nul\0'])('the name %j is refused with its field', async (name) => {
      const creating = domain.spaces.create(ada, { name, routing: 'BROADCAST' })
      await expect(creating).rejects.toMatchObject({ code: 'BAD_INPUT', field: 'input.name' })
    })

    test('501 members are too many, whether they exist or not', async () => {
      const ids = Array.from({ length: 500 }, () => newId('hum'))
      await expect(domain.space(ada, ids)).rejects.toMatchObject({ code: 'LIMIT_EXCEEDED' })
    })
  })

  describe('ADMIN routing', () => {
    const refused = { code: 'BAD_INPUT', field: 'input.adminAgentId' }

    test('several agents without an admin agent are refused', async () => {
      await expect(domain.space(ada, [helper.id, scribe.id], { routing: 'ADMIN' })).rejects.toMatchObject(refused)
    })

    test('no agent, or a single one, needs no admin agent', async () => {
      await domain.space(ada, [], { routing: 'ADMIN' })
      const { id } = await domain.space(ada, [helper.id], { routing: 'ADMIN' })
      expect((await domain.spaces.adminAgentsOf([id])).get(id)).toBe(helper.id)
    })

    test('the admin agent must be a member, and an agent', async () => {
      await expect(domain.space(ada, [helper.id], { adminAgentId: scribe.id })).rejects.toMatchObject(refused)
      await expect(domain.space(ada, [bob.id], { adminAgentId: bob.id })).rejects.toMatchObject(refused)
    })

    test('an invisible admin agent is not found', async () => {
      const ids = [newId('agt'), stranger.id]
      for (const adminAgentId of ids) {
        await expect(domain.space(ada, [], { adminAgentId })).rejects.toMatchObject({ code: 'NOT_FOUND' })
      }
    })

    test('the same applies to an update, and to an admin', async () => {
      const { id } = await domain.space(ada, [helper.id])
      for (const [viewer, adminAgentId] of [
        [ada, stranger.id],
        [domain.admin, newId('agt')],
      ] as const) {
        const changing = domain.spaces.update(viewer, { id, adminAgentId })
        await expect(changing).rejects.toMatchObject({ code: 'NOT_FOUND' })
      }
    })

    test('an update to ADMIN is refused if it would leave several agents without an admin agent', async () => {
      const { id } = await domain.space(ada, [helper.id, scribe.id])
      await expect(domain.spaces.update(ada, { id, routing: 'ADMIN' })).rejects.toMatchObject(refused)
      const space = await domain.spaces.update(ada, { id, routing: 'ADMIN', adminAgentId: scribe.id })
      expect(space).toMatchObject({ routing: 'ADMIN', adminAgentId: scribe.id })
      await expect(domain.spaces.update(ada, { id, adminAgentId: null })).rejects.toMatchObject(refused)
      await domain.spaces.update(ada, { id, routing: 'BROADCAST', adminAgentId: null })
    })

    test('after the admin agent leaves there is none, and the space can still be renamed', async () => {
      const { id } = await domain.space(ada, [helper.id, scribe.id], { routing: 'ADMIN', adminAgentId: helper.id })
      await domain.members.remove(ada, { spaceId: id, entityId: helper.id })
      expect((await domain.spaces.adminAgentsOf([id])).has(id)).toBe(false)
      expect(await domain.spaces.update(ada, { id, name: 'Still here' })).toMatchObject({ name: 'Still here' })
      await domain.members.add(ada, { spaceId: id, entityId: helper.id })
      expect((await domain.spaces.adminAgentsOf([id])).get(id)).toBe(helper.id)
    })
  })

  describe('changing', () => {
    test('an omitted field stays, and null clears optional fields', async () => {
      const { id } = await domain.space(ada, [helper.id], { adminAgentId: helper.id })
      await domain.spaces.update(ada, { id, description: 'About it' })
      expect(await domain.spaces.update(ada, { id, name: 'New' })).toMatchObject({
        name: 'New',
        description: 'About it',
        adminAgentId: helper.id,
      })
      const cleared = await domain.spaces.update(ada, { id, description: null, adminAgentId: null })
      expect(cleared).toMatchObject({ name: 'New', description: null, adminAgentId: null })
    })

    test.each(['name', 'routing'])('%s cannot be null', async (field) => {
      const { id } = await domain.space(ada)
      const changing = domain.spaces.update(ada, { id, [field]: null })
      await expect(changing).rejects.toMatchObject({ code: 'BAD_INPUT', field: `input.${field}` })
    })

    test('a foreign space does not exist, for humans and services', async () => {
      const { id } = await domain.space(ada)
      const service = await domain.service('Jira', null)
      for (const viewer of [stranger, service]) {
        await expect(domain.spaces.update(viewer, { id, name: 'x' })).rejects.toMatchObject({ code: 'NOT_FOUND' })
      }
    })

    test('a string that cannot be an id is not a space, member or agent', async () => {
      const { id } = await domain.space(ada)
      expect(await domain.spaces.getMany(['\0', '', id])).toMatchObject([null, null, { id }])
      const notFound = { code: 'NOT_FOUND' }
      for (const viewer of [ada, domain.admin]) {
        await expect(domain.spaces.update(viewer, { id: '\0', name: 'x' })).rejects.toMatchObject(notFound)
        await expect(domain.spaces.update(viewer, { id, adminAgentId: '\0' })).rejects.toMatchObject(notFound)
        await expect(domain.space(viewer, ['\0'])).rejects.toMatchObject(notFound)
        for (const input of [
          { spaceId: id, entityId: '\0' },
          { spaceId: '\0', entityId: ada.id },
        ]) {
          await expect(domain.members.add(viewer, input)).rejects.toMatchObject(notFound)
          await expect(domain.members.remove(viewer, input)).rejects.toMatchObject(notFound)
        }
      }
    })

    test('a change is an event of the space', async () => {
      const { platform } = domain
      const { id } = await domain.space(ada)
      const [head] = await platform.log.heads([`space:${id}`])
      await domain.spaces.update(ada, { id, name: 'x' })
      expect(await platform.log.read(`space:${id}`, head!, 10)).toMatchObject({
        type: 'publications',
        publications: [{ event: { type: 'SpaceUpdated' } }],
      })
    })
  })

  describe('the list', () => {
    test('a human sees their own spaces, newest first; an admin sees all; a service none', async () => {
      const carl = await domain.human('Carl')
      const first = await domain.space(carl)
      const second = await domain.space(carl)
      const other = await domain.space(ada)
      const own = await domain.spaces.page(carl, idPageRequest('spc', {}))
      expect(own.items.map(({ id }) => id)).toEqual([second.id, first.id])
      expect(own).toMatchObject({ hasNextPage: false, hasPreviousPage: false })
      const all = await domain.spaces.page(domain.admin, idPageRequest('spc', { first: 3 }))
      expect(all.items.map(({ id }) => id)).toEqual([other.id, second.id, first.id])
      expect(all).toMatchObject({ hasNextPage: true, hasPreviousPage: false })
      const service = await domain.service('Jira', null)
      expect((await domain.spaces.page(service, idPageRequest('spc', {}))).items).toEqual([])
    })

    test('a cursor continues where the page ended, even if the viewer has left that space since', async () => {
      const dora = await domain.human('Dora')
      const ids: string[] = []
      for (let i = 0; i < 5; i++) ids.unshift((await domain.space(dora)).id)
      const page = await domain.spaces.page(dora, idPageRequest('spc', { first: 2 }))
      expect(page.items.map(({ id }) => id)).toEqual(ids.slice(0, 2))
      await domain.members.remove(dora, { spaceId: ids[1]!, entityId: dora.id })
      const next = await domain.spaces.page(dora, idPageRequest('spc', { first: 2, after: encodeIdCursor(ids[1]!) }))
      expect(next.items.map(({ id }) => id)).toEqual(ids.slice(2, 4))
      expect(next).toMatchObject({ hasNextPage: true, hasPreviousPage: true })
    })

    test('cursors of other connections are refused', () => {
      const others = [encodeIdCursor(helper.id), newId('msg'), 'nonsense', encodeIdCursor('')]
      for (const after of others)
        expect(() => idPageRequest('spc', { after })).toThrow(expect.objectContaining({ code: 'BAD_INPUT' }))
    })
  })
})
