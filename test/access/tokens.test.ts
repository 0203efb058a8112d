import { SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTokens } from '../../src/access/tokens.ts'
import { type HumanViewer, OPERATOR_ID } from '../../src/access/viewer.ts'
import type { SignalPayload } from '../../src/broker/topics.ts'
import { newId } from '../../src/lib/ids.ts'
import { ADMIN_TOKEN, type Domain, openDomain } from '../support/domain.ts'
import { hasPostgres } from '../support/postgres.ts'

describe.skipIf(!hasPostgres)('access tokens', () => {
  let domain: Domain
  let ada: HumanViewer

  beforeAll(async () => {
    domain = await openDomain()
    ada = await domain.human('Ada')
  })
  afterAll(() => domain.close())

  const minutes = (count: number) => new Date(domain.clock.now() + count * 60_000)

  test("the operator's token belongs to an admin and cannot be read or revoked", async () => {
    const viewer = await domain.tokens.authenticate(ADMIN_TOKEN)
    expect(viewer).toEqual({ scope: 'ADMIN', id: OPERATOR_ID, tokenId: null, expiresAt: null })
    expect(await domain.tokens.getMany(domain.admin, [OPERATOR_ID])).toEqual([null])
    await expect(domain.tokens.revoke(domain.admin, { id: OPERATOR_ID })).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })

  test('each grant gives its scope', async () => {
    const helper = await domain.agent('Helper')
    const grants = [
      [{ admin: { label: 'CI' } }, { scope: 'ADMIN' }],
      [{ humanId: ada.id }, { scope: 'HUMAN', id: ada.id }],
      [{ service: { name: ' Jira ' } }, { scope: 'SERVICE', name: 'Jira', agentIds: null }],
      [
        { service: { name: 'Jira', agentIds: [helper.id, helper.id] } },
        { scope: 'SERVICE', name: 'Jira', agentIds: [helper.id] },
      ],
      [{ service: { name: 'Jira', agentIds: [] } }, { scope: 'SERVICE', agentIds: [] }],
    ] as const
    for (const [grant, expected] of grants) {
      const { accessToken, secret } = await domain.tokens.create(domain.admin, {
        grant: structuredClone(grant) as never,
      })
      expect(secret).toMatch(/^prl_[A-Za-z0-9_-]{43}$/)
      const viewer = await domain.tokens.authenticate(secret)
      expect(viewer).toMatchObject({ ...expected, tokenId: accessToken.id, expiresAt: null })
      expect(accessToken).toMatchObject({ scope: expected.scope })
    }
  })

  test('only a hash of the secret is stored, and the hash is never returned', async () => {
    const { accessToken, secret } = await domain.tokens.create(domain.admin, { grant: { admin: {} } })
    const rows = await domain.platform.db.prisma.$queryRaw`SELECT row_to_json(t)::text AS text FROM "AccessToken" t`
    expect(JSON.stringify(rows)).not.toContain(secret.slice(4))
    const [read] = await domain.tokens.getMany(domain.admin, [accessToken.id])
    expect(read).toEqual(accessToken)
    expect(read).not.toHaveProperty('hash')
  })

  test('only admins create, read and revoke them', async () => {
    const { accessToken } = await domain.tokens.create(domain.admin, { grant: { humanId: ada.id } })
    const service = await domain.service('Jira', null)
    for (const viewer of [ada, service]) {
      await expect(domain.tokens.create(viewer, { grant: { admin: {} } })).rejects.toMatchObject({ code: 'FORBIDDEN' })
      for (const id of [accessToken.id, newId('acc')]) {
        await expect(domain.tokens.revoke(viewer, { id })).rejects.toMatchObject({ code: 'FORBIDDEN' })
      }
      expect(await domain.tokens.getMany(viewer, [accessToken.id])).toEqual([null])
    }
  })

  test.each([
    ['nothing', {}, 'BAD_INPUT'],
    ['two things', { admin: {}, humanId: 'x' }, 'BAD_INPUT'],
    ['a human that does not exist', { humanId: newId('hum') }, 'NOT_FOUND'],
    ['what is no id', { humanId: '\0' }, 'NOT_FOUND'],
    ['an agent as a human', { humanId: 'agent' }, 'NOT_FOUND'],
    ['an agent that does not exist', { service: { name: 'x', agentIds: [newId('agt')] } }, 'NOT_FOUND'],
    ['a human as an agent', { service: { name: 'x', agentIds: ['human'] } }, 'NOT_FOUND'],
    ['a service without a name', { service: { name: ' ' } }, 'BAD_INPUT'],
  ])('a grant to %s is refused', async (_, grant, code) => {
    const agent = await domain.agent('Some agent')
    const filled = JSON.parse(
      JSON.stringify(grant).replace('"agent"', `"${agent.id}"`).replace('"human"', `"${ada.id}"`),
    )
    await expect(domain.tokens.create(domain.admin, { grant: filled })).rejects.toMatchObject({ code })
  })

  test('an expiry in the past, or now, is refused; an expired token is invalid', async () => {
    const create = (expiresAt: Date) => domain.tokens.create(domain.admin, { grant: { humanId: ada.id }, expiresAt })
    domain.clock.set(Date.now())
    const refused = { code: 'BAD_INPUT', field: 'input.expiresAt' }
    for (const expiresAt of [minutes(-1), minutes(0), new Date(Number.NaN)]) {
      await expect(create(expiresAt)).rejects.toMatchObject(refused)
    }
    const { secret } = await create(minutes(5))
    const viewer = await domain.tokens.authenticate(secret)
    expect(viewer).toMatchObject({ expiresAt: minutes(5) })
    expect(await domain.tokens.stands(viewer!)).toBe(true)
    domain.clock.set(minutes(5).getTime())
    expect(await domain.tokens.authenticate(secret)).toBeNull()
    expect(await domain.tokens.stands(viewer!)).toBe(false)
  })

  test('a revoked token is invalid, the revocation is published, and repeating it keeps the first time', async () => {
    const { accessToken, secret } = await domain.tokens.create(domain.admin, { grant: { humanId: ada.id } })
    const viewer = await domain.tokens.authenticate(secret)
    const heard: SignalPayload[] = []
    await domain.platform.signals.subscribe(`token:${accessToken.id}`, (payload) => void heard.push(payload))
    const revoked = await domain.tokens.revoke(domain.admin, { id: accessToken.id })
    expect(revoked.revokedAt).not.toBeNull()
    await expect.poll(() => heard).toEqual([{ type: 'revoked' }])
    expect(await domain.tokens.authenticate(secret)).toBeNull()
    expect(await domain.tokens.stands(viewer!)).toBe(false)
    domain.clock.set(minutes(1).getTime())
    expect(await domain.tokens.revoke(domain.admin, { id: accessToken.id })).toEqual(revoked)
    for (const id of [newId('acc'), '\0']) {
      await expect(domain.tokens.revoke(domain.admin, { id })).rejects.toMatchObject({ code: 'NOT_FOUND' })
    }
  })

  test.each(['', 'prl_', 'prl_unknown', 'x'.repeat(9000), 'a.b.c', `${ADMIN_TOKEN} `])(
    '%j identifies nobody',
    async (bearer) => {
      expect(await domain.tokens.authenticate(bearer)).toBeNull()
    },
  )

  describe('sign-in by JWT', () => {
    const secret = 'a-shared-secret-of-32-characters-or-more'
    const tokens = () => {
      const jwt = { secret, jwksUrl: null, issuer: 'https://login.example', audience: 'parley', allowUnbounded: false }
      const platform = { ...domain.platform, config: { ...domain.platform.config, jwt } }
      return createTokens(platform, ADMIN_TOKEN)
    }
    const signed = (subject: string, alg = 'HS256', end: Date | null = minutes(10)) => {
      const jwt = new SignJWT()
        .setProtectedHeader({ alg })
        .setSubject(subject)
        .setIssuer('https://login.example')
        .setAudience('parley')
      return end === null ? jwt : jwt.setExpirationTime(end)
    }
    const sign = (jwt: SignJWT, key = secret) => jwt.sign(new TextEncoder().encode(key))

    test("the subject is the human's id or externalId; the id has precedence", async () => {
      domain.clock.set(Date.now())
      const bob = await domain.humans.create(domain.admin, { name: 'Bob', externalId: 'auth0|bob' })
      expect(await tokens().authenticate(await sign(signed(ada.id)))).toEqual({
        scope: 'HUMAN',
        id: ada.id,
        role: 'MEMBER',
        tokenId: null,
        expiresAt: new Date(Math.floor(minutes(10).getTime() / 1000) * 1000),
      })
      expect(await tokens().authenticate(await sign(signed('auth0|bob')))).toMatchObject({ scope: 'HUMAN', id: bob.id })
    })

    test('it ends when the token expires', async () => {
      const viewer = await tokens().authenticate(await sign(signed(ada.id)))
      expect(await tokens().stands(viewer!)).toBe(true)
      domain.clock.set(minutes(11).getTime())
      expect(await tokens().stands(viewer!)).toBe(false)
    })

    test.each([
      ['an unknown human', () => sign(signed(newId('hum')))],
      ['an agent', async () => sign(signed((await domain.agent('An agent')).id))],
      ['no subject', () => sign(signed(''))],
      ['another issuer', () => sign(signed(ada.id).setIssuer('https://evil.example'))],
      ['another audience', () => sign(signed(ada.id).setAudience('another'))],
      ['another key', () => sign(signed(ada.id), 'another-shared-secret-of-32-characters')],
      ['an expiry in the past', () => sign(signed(ada.id).setExpirationTime(minutes(-1)))],
      ['no expiry', () => sign(signed(ada.id, 'HS256', null))],
      ['a start in the future', () => sign(signed(ada.id).setNotBefore(minutes(5)))],
      ['another algorithm', () => sign(signed(ada.id, 'HS512'))],
      ['no signature', async () => `${(await sign(signed(ada.id))).split('.').slice(0, 2).join('.')}.`],
    ])('a token with %s identifies nobody', async (_, make) => {
      expect(await tokens().authenticate(await make())).toBeNull()
    })

    test('is off without its settings', async () => {
      expect(await domain.tokens.authenticate(await sign(signed(ada.id)))).toBeNull()
    })
  })
})
