import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const CREATE = `mutation ($input: CreateSpaceInput!) { createSpace(input: $input) {
  __typename ... on CreateSpacePayload { space { id } } ... on Error { message } } }`
const DELETE = 'mutation ($id: ID!) { deleteSpace(input: { id: $id }) { __typename } }'
type Created = { createSpace: { __typename: string; message?: string; space?: { id: string } } }

async function create(client: ParleyClient, memberIds: string[] = []): Promise<Created['createSpace']> {
  const { data } = await client.ask<Created>(CREATE, { input: { name: 'Mine', memberIds } })
  if (data == null) throw new Error('no data')
  return data.createSpace
}

describe.each(RULE_STACKS)('spaces that one human creates in a day, on the %s stack', (stack) => {
  const settings = { PARLEY_MAX_NEW_SPACES_PER_DAY: '5' }
  const servers: TestServer[] = []

  beforeAll(async () => {
    const first = await startTestServer({ stack, settings, worker: false })
    servers.push(first)
    if (stack === 'postgres') servers.push(await startTestServer({ stack, settings, worker: false, beside: first }))
  })
  afterAll(async () => {
    for (const server of servers.toReversed()) await server.close()
  })

  const first = () => servers[0] as TestServer
  async function person(name: string) {
    const human = await first().human(name)
    return { human, clients: await Promise.all(servers.map((server) => server.clientOf(human))) }
  }
  const typesOf = (results: readonly Created['createSpace'][]) => results.map(({ __typename }) => __typename).sort()

  test('are limited by the setting, even if several processes create many at once', async () => {
    const { human, clients } = await person('Busy')
    const results = await Promise.all(
      Array.from({ length: 20 }, (_, index) => create(clients[index % clients.length]!)),
    )
    expect(typesOf(results).filter((type) => type === 'CreateSpacePayload')).toHaveLength(5)
    expect(results.find(({ __typename }) => __typename === 'LimitExceededError')?.message).toMatch(
      /^You have created 5 spaces within a day \(PARLEY_MAX_NEW_SPACES_PER_DAY\): try again later, or ask an admin/,
    )
    expect(await first().app.platform.db.prisma.space.count({ where: { creatorId: human.id } })).toBe(5)
    const asAdmin = await first().clientOf(first().admin)
    expect((await create(asAdmin, [human.id])).__typename).toBe('CreateSpacePayload')
    const others = await person('Calm')
    expect((await create(others.clients[0]!)).__typename).toBe('CreateSpacePayload')
  })

  test('count for one day, even after they are deleted', async () => {
    const { human, clients } = await person('Tidy')
    const asAdmin = await first().clientOf(first().admin)
    const [client] = clients
    for (let index = 0; index < 5; index++) {
      const { space } = await create(client!)
      await asAdmin.ask(DELETE, { id: space?.id })
    }
    expect((await create(client!)).__typename).toBe('LimitExceededError')
    await first().app.platform.db.prisma.$executeRaw`
      UPDATE "SpaceCreator" SET "createdAt" = ARRAY(SELECT t - interval '1 day' FROM unnest("createdAt") t)
      WHERE "humanId" = ${human.id}`
    await first().app.platform.db.prisma.space.updateMany({
      where: { creatorId: human.id },
      data: { createdAt: new Date(0) },
    })
    expect((await create(client!)).__typename).toBe('CreateSpacePayload')
    const kept = await first().app.platform.db.prisma.spaceCreator.findUnique({ where: { humanId: human.id } })
    expect(kept?.createdAt).toHaveLength(1)
  })

  test('are unlimited if the setting is 0', async () => {
    const parley = await startTestServer({
      worker: false,
      settings: { PARLEY_MAX_NEW_SPACES_PER_DAY: '0' },
    })
    const client = await parley.clientOf(await parley.human('Eager'))
    const results = await Promise.all(Array.from({ length: 120 }, () => create(client)))
    expect(new Set(typesOf(results))).toEqual(new Set(['CreateSpacePayload']))
    await parley.close()
  })
})
