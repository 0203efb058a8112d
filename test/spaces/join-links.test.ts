import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer, Viewer } from '../../src/access/viewer.ts'
import type { Space } from '../../src/generated/prisma/client.ts'
import { resealAll } from '../../src/operation/key-rotation.ts'
import { createSecretBox } from '../../src/platform/secret-box.ts'
import { RULE_STACKS } from '../support/application.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const CREATE = `mutation ($input: CreateJoinLinkInput!) { createJoinLink(input: $input) {
  __typename
  ... on CreateJoinLinkPayload { joinLink { id url maxUses uses expiresAt space { id } createdBy { id } } }
  ... on Error { message } } }`
const JOIN = `mutation ($code: String!) { joinSpace(input: { code: $code }) {
  __typename ... on JoinSpacePayload { space { id members { id } unreadCount } } ... on Error { message } } }`
const DESCRIBE = `query ($code: String!) { joinableSpace(code: $code) { name inviterName memberCount spaceId } }`
const REVOKE = `mutation ($id: ID!) { revokeJoinLink(input: { id: $id }) {
  __typename ... on RevokeJoinLinkPayload { revokedId } ... on Error { message } } }`
const LINKS = '{ spaces(first: 50) { edges { node { id joinLinks { id url uses } } } } }'

interface Link {
  id: string
  url: string
}

describe.each(RULE_STACKS)('join links, on the %s stack', (stack) => {
  let parley: TestServer
  let ada: HumanViewer
  let space: Space
  beforeAll(async () => {
    parley = await startTestServer({ stack, worker: false, isFresh: true })
    ada = await parley.human('Ada')
    space = await parley.space(ada, [])
  })
  afterAll(() => parley?.close())

  async function ask(viewer: Viewer, query: string, variables: object = {}): Promise<Record<string, unknown>> {
    const client: ParleyClient = await parley.clientOf(viewer)
    const { data, errors } = await client.ask<Record<string, unknown>>(query, variables)
    expect(errors).toBeUndefined()
    return Object.values(data ?? {})[0] as Record<string, unknown>
  }

  async function linkBy(viewer: Viewer, input: object = {}): Promise<Link> {
    const made = await ask(viewer, CREATE, { input: { spaceId: space.id, ...input } })
    expect(made).toMatchObject({ __typename: 'CreateJoinLinkPayload' })
    return made['joinLink'] as Link
  }

  const codeOf = ({ url }: Link) => url.split('/').at(-1) ?? ''

  async function linksOf(viewer: Viewer): Promise<Link[]> {
    const { edges } = (await ask(viewer, LINKS)) as unknown as { edges: { node: { id: string; joinLinks: Link[] } }[] }
    return edges.find(({ node }) => node.id === space.id)?.node.joinLinks ?? []
  }

  test('a member creates one, a stranger joins with it, and has no unread messages', async () => {
    await parley.send(ada, space.id, 'Before.')
    const made = await linkBy(ada)
    expect(made).toMatchObject({ maxUses: null, uses: 0, space: { id: space.id }, createdBy: { id: ada.id } })
    expect(made.url).toMatch(new RegExp(`^${parley.origin}/join/[\\w-]{43}$`))
    const bob = await parley.human('Bob')
    const joined = await ask(bob, JOIN, { code: codeOf(made) })
    expect(joined).toMatchObject({ __typename: 'JoinSpacePayload', space: { id: space.id, unreadCount: 0 } })
    expect(await linksOf(bob)).toEqual([{ id: made.id, url: made.url, uses: 1 }])
    expect(await ask(bob, JOIN, { code: codeOf(made) })).toMatchObject({ __typename: 'ConflictError' })
    expect(await linksOf(bob)).toMatchObject([{ uses: 1 }])
    expect((await fetch(made.url)).status).toBe(200)
    await ask(bob, REVOKE, { id: made.id })
  })

  test('describes its space to signed-in people, who do not join by that, as long as it works', async () => {
    const made = await linkBy(ada)
    const [nils, { memberCount }] = [await parley.human('Nils'), await ask(ada, DESCRIBE, { code: codeOf(made) })]
    const shown = { name: space.name, inviterName: 'Ada', memberCount, spaceId: null }
    for (let n = 0; n < 2; n += 1) expect(await ask(nils, DESCRIBE, { code: codeOf(made) })).toEqual(shown)
    expect(await ask(parley.admin, DESCRIBE, { code: codeOf(made) })).toBeNull()
    await ask(nils, JOIN, { code: codeOf(made) })
    const joined = { ...shown, memberCount: Number(memberCount) + 1, spaceId: space.id }
    expect(await ask(nils, DESCRIBE, { code: codeOf(made) })).toEqual(joined)
    await ask(ada, REVOKE, { id: made.id })
    for (const code of [codeOf(made), 'nonsense', '']) expect(await ask(nils, DESCRIBE, { code })).toBeNull()
  })

  test('a stranger, a service and an admin: who may create, see, revoke and use a link', async () => {
    const made = await linkBy(parley.admin)
    expect(made).toMatchObject({ createdBy: null })
    const cleo = await parley.human('Cleo')
    expect(await ask(cleo, CREATE, { input: { spaceId: space.id } })).toMatchObject({ __typename: 'NotFoundError' })
    expect(await ask(cleo, REVOKE, { id: made.id })).toMatchObject({ __typename: 'NotFoundError' })
    const node = await ask(cleo, 'query ($id: ID!) { nodes(ids: [$id]) { id } }', { id: made.id })
    expect(node).toEqual([null])
    const service = { scope: 'SERVICE', id: '', name: 'Jira', agentIds: null, tokenId: null, expiresAt: null } as const
    for (const viewer of [service, parley.admin])
      expect(await ask(viewer, JOIN, { code: codeOf(made) })).toMatchObject({ __typename: 'ForbiddenError' })
    expect(await ask(parley.admin, REVOKE, { id: made.id })).toMatchObject({ revokedId: made.id })
    for (const code of [codeOf(made), 'nonsense', ''])
      expect(await ask(cleo, JOIN, { code })).toMatchObject({ __typename: 'NotFoundError' })
  })

  test('a link expires after its uses, even if many people race for it, and after its time', async () => {
    const made = await linkBy(ada, { maxUses: 2 })
    const people = await Promise.all(['D', 'E', 'F', 'G'].map((name) => parley.human(name)))
    const results = await Promise.all(people.map((person) => ask(person, JOIN, { code: codeOf(made) })))
    expect(results.map(({ __typename }) => __typename).sort()).toEqual([
      'JoinSpacePayload',
      'JoinSpacePayload',
      'NotFoundError',
      'NotFoundError',
    ])
    expect(await linksOf(ada)).toEqual([])
    const late = await linkBy(ada, { expiresInSeconds: 1 })
    const { prisma } = parley.app.platform.db
    await prisma.joinLink.updateMany({ where: { id: late.id }, data: { expiresAt: new Date(0) } })
    expect(await linksOf(ada)).toEqual([])
    const stranger = await parley.human('H')
    expect(await ask(stranger, JOIN, { code: codeOf(late) })).toMatchObject({ __typename: 'NotFoundError' })
  })

  test('a link ends for good when its creator leaves the space', async () => {
    const maker = await parley.human('Iris')
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: maker.id })
    const made = await linkBy(maker)
    await parley.app.domain.members.remove(maker, { spaceId: space.id, entityId: maker.id })
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: maker.id })
    const stranger = await parley.human('Jon')
    expect(await ask(stranger, JOIN, { code: codeOf(made) })).toMatchObject({ __typename: 'NotFoundError' })
  })

  test('all links end when a member removes a human, who cannot return with one', async () => {
    const [eve, mallory] = [await parley.human('Eve'), await parley.human('Mallory')]
    for (const { id } of [eve, mallory])
      await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: id })
    const agent = await parley.agent('Helper')
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: agent.id })
    const made = await linkBy(ada)
    await parley.app.domain.members.remove(ada, { spaceId: space.id, entityId: agent.id })
    await parley.app.domain.members.remove(eve, { spaceId: space.id, entityId: eve.id })
    expect(await linksOf(ada)).toMatchObject([{ id: made.id }])
    await parley.app.domain.members.remove(ada, { spaceId: space.id, entityId: mallory.id })
    expect(await linksOf(ada)).toEqual([])
    expect(await ask(mallory, JOIN, { code: codeOf(made) })).toMatchObject({ __typename: 'NotFoundError' })
  })

  test('a link that has ended reveals nothing about the space', async () => {
    const late = await linkBy(ada)
    const { prisma } = parley.app.platform.db
    await prisma.joinLink.updateMany({ where: { id: late.id }, data: { expiresAt: new Date(0) } })
    expect(await ask(ada, JOIN, { code: codeOf(late) })).toMatchObject({ __typename: 'NotFoundError' })
    const used = await linkBy(ada, { maxUses: 1 })
    await ask(await parley.human('K'), JOIN, { code: codeOf(used) })
    expect(await ask(ada, JOIN, { code: codeOf(used) })).toMatchObject({ __typename: 'NotFoundError' })
  })

  test('links whose code cannot be decrypted let nobody in, and do not count towards the limit', async () => {
    const own = (await parley.space(ada, [])).id
    const made: Link[] = []
    for (let n = 0; n < 20; n++) made.push(await linkBy(ada, { spaceId: own }))
    const { prisma } = parley.app.platform.db
    const other = createSecretBox('the-secret-key-of-another-server-of-32-or-more')
    for (const link of made)
      await prisma.joinLink.update({ where: { id: link.id }, data: { codeSealed: other.seal(codeOf(link), link.id) } })
    const stranger = await parley.human('L')
    expect(await ask(stranger, JOIN, { code: codeOf(made[0] as Link) })).toMatchObject({ __typename: 'NotFoundError' })
    const next = await linkBy(ada, { spaceId: own })
    expect(await prisma.joinLink.findMany({ where: { spaceId: own }, select: { id: true } })).toEqual([{ id: next.id }])
  })

  test('the audit log names each created link, and each revocation once', async () => {
    const { id } = await linkBy(ada)
    const revoked = await Promise.all(Array.from({ length: 5 }, () => ask(ada, REVOKE, { id })))
    expect(revoked.filter(({ __typename }) => __typename === 'RevokeJoinLinkPayload')).toHaveLength(1)
    const query = 'query ($id: ID) { auditLog(targetId: $id) { edges { node { action } } } }'
    expect(await ask(parley.admin, query, { id })).toEqual({
      edges: [{ node: { action: 'revokeJoinLink' } }, { node: { action: 'createJoinLink' } }],
    })
  })

  test.each([
    ['no uses', { maxUses: 0 }],
    ['too many uses', { maxUses: 501 }],
    ['too long', { expiresInSeconds: 30 * 86_400 + 1 }],
  ])('a link with %s is refused', async (_, input) => {
    const refused = await ask(ada, CREATE, { input: { spaceId: space.id, ...input } })
    expect(refused).toMatchObject({ __typename: 'BadInputError' })
  })

  test('a space has at most 20 links; the code is stored encrypted, and survives a rotation of the key', async () => {
    for (let n = 0; n < 20; n++) await linkBy(ada)
    expect(await ask(ada, CREATE, { input: { spaceId: space.id } })).toMatchObject({ __typename: 'LimitExceededError' })
    const [link] = await linksOf(ada)
    const { prisma } = parley.app.platform.db
    const row = await prisma.joinLink.findUniqueOrThrow({ where: { id: link?.id ?? '' } })
    expect(JSON.stringify(row)).not.toContain(codeOf(link as Link))
    const key = createSecretBox('another-secret-key-of-32-or-more-chars', 'a-secret-key-for-tests-of-32-or-more')
    expect((await resealAll(parley.app.platform.db, key)).failed).toEqual([])
    expect(key.open((await prisma.joinLink.findUniqueOrThrow({ where: { id: row.id } })).codeSealed, row.id)).toBe(
      codeOf(link as Link),
    )
  })
})
