import { readFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { startTestServer } from '../support/served.ts'

const MIGRATION = new URL('../../prisma/migrations/20261127111700_directory/migration.sql', import.meta.url)

const FOUND = `query ($search: String!, $id: ID!) {
  humans(search: $search) { edges { node { id name kind picture } } }
  node(id: $id) { ... on Human { id name kind picture role timeZone email externalId } } }`
const ADD = `mutation ($spaceId: ID!, $entityId: ID!) { addMember(input: { spaceId: $spaceId, entityId: $entityId }) {
  __typename } }`

describe('the directory of people', () => {
  /** Looks up a person by a unique name as a stranger, before and after the two share a space. */
  async function lookUp(directory: 'everyone' | 'shared') {
    const parley = await startTestServer({ worker: false, settings: { PARLEY_DIRECTORY: directory } })
    try {
      const name = `Zoe ${crypto.randomUUID()}`
      const [zoe, stranger] = [await parley.human(name), await parley.human('Stranger')]
      const data = { picture: 'https://example.com/zoe.png', timeZone: 'Europe/Berlin', role: 'ADMIN' as const }
      await parley.app.platform.db.prisma.entity.update({ where: { id: zoe.id }, data })
      const client = await parley.clientOf(stranger)
      // biome-ignore lint/suspicious/noExplicitAny: results of several operations
      const ask = async (query: string, variables: object) => (await client.ask<any>(query, variables)).data
      const found = await ask(FOUND, { search: name, id: zoe.id })
      const { addMember } = await ask(ADD, { spaceId: (await parley.space(stranger, [])).id, entityId: zoe.id })
      return { zoe: { id: zoe.id, name }, found, addMember, after: await ask(FOUND, { search: name, id: zoe.id }) }
    } finally {
      await parley.close()
    }
  }

  test('everyone: people find each other by name and may add each other, but see nothing else before they share a space', async () => {
    const { zoe, found, addMember, after } = await lookUp('everyone')
    const listed = { ...zoe, kind: 'HUMAN', picture: 'https://example.com/zoe.png' }
    expect(found.humans.edges).toEqual([{ node: listed }])
    expect(found.node).toEqual({ ...listed, role: 'MEMBER', timeZone: null, email: null, externalId: null })
    expect(addMember.__typename).toBe('AddMemberPayload')
    expect(after.node).toMatchObject({ role: 'ADMIN', timeZone: 'Europe/Berlin', email: null })
  })

  test('shared: people who share no space do not exist for each other', async () => {
    const { found, addMember } = await lookUp('shared')
    expect([found.humans.edges, found.node, addMember.__typename]).toEqual([[], null, 'NotFoundError'])
  })

  test('a new installation defaults to everyone; an upgraded one that has people keeps shared, permanently', async () => {
    const parley = await startTestServer({ worker: false, isFresh: true })
    try {
      const { prisma } = parley.app.platform.db
      const chosen = () => prisma.serverDefault.findMany()
      expect(await chosen()).toEqual([{ name: 'directory', value: 'everyone' }])
      await parley.human('First')
      expect(await chosen()).toEqual([{ name: 'directory', value: 'everyone' }])
      // The state of a database with people after an upgrade.
      await prisma.serverDefault.deleteMany()
      const sql = await readFile(MIGRATION, 'utf8')
      await prisma.$executeRawUnsafe(sql.slice(sql.indexOf('INSERT')))
      expect(await chosen()).toEqual([{ name: 'directory', value: 'shared' }])
    } finally {
      await parley.close()
    }
  })
})
