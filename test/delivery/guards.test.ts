import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Viewer } from '../../src/access/viewer.ts'
import { tokenChannel } from '../../src/broker/topics.ts'
import { createLifeline } from '../../src/delivery/feed.ts'
import { createGuards, type Guards } from '../../src/delivery/guards.ts'
import { createPeriodicRecheck, type PeriodicRecheck } from '../../src/delivery/recheck.ts'
import { STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { until } from '../support/until.ts'

/** Signals that reach nobody until the connection is restored. Signals that were sent before that are lost. */
function deafSignals() {
  const reconnects = new Set<() => void>()
  const counts = { listeners: 0 }
  return {
    counts,
    reconnect: () => {
      for (const listener of reconnects) listener()
    },
    signals: {
      publish: async () => {},
      async subscribe() {
        counts.listeners += 1
        return () => {
          counts.listeners -= 1
        }
      },
      onReconnect(listener: () => void) {
        reconnects.add(listener)
        counts.listeners += 1
        return () => {
          reconnects.delete(listener)
          counts.listeners -= 1
        }
      },
      async close() {},
    },
  }
}

describe('an end that was never published because the process died', () => {
  let parley: TestApplication
  let guards: Guards
  let recheck: PeriodicRecheck

  beforeAll(async () => {
    parley = await startApplication({ worker: false })
    const { platform, domain } = parley.app
    recheck = createPeriodicRecheck(platform, domain, 50)
    guards = createGuards({ ...platform, signals: deafSignals().signals }, domain, recheck)
  })
  afterAll(async () => {
    recheck?.close()
    await parley?.close()
  })

  /** Starts an active subscription of a viewer, and reports how it ends. */
  async function watching(guard: (live: ReturnType<typeof createLifeline>) => Promise<unknown>) {
    const live = createLifeline()
    const end = new Promise<string>((resolve) =>
      live.onEnd(() => queueMicrotask(() => resolve(live.failure()?.name ?? 'completed'))),
    )
    await guard(live)
    return () => end
  }

  test.each(['HUMAN', 'ADMIN'] as const)('the unpublished end of a deleted space is detected for %s', async (scope) => {
    const ada = await parley.human('Ada')
    const space = await parley.space(ada, [])
    const viewer = scope === 'HUMAN' ? ada : parley.admin
    const ended = await watching((live) => guards.space(viewer, space.id, live))
    await parley.app.domain.deletion.deleteSpace(parley.admin, { id: space.id })
    expect(await ended()).toBe('NotFoundError')
  })

  test('the unpublished end of a membership, a token or a human is detected too', async () => {
    const [ada, eve] = [await parley.human('Ada'), await parley.human('Eve')]
    const space = await parley.space(ada, [])
    const { accessToken } = await parley.app.domain.tokens.create(parley.admin, { grant: { humanId: ada.id } })
    const removed = await watching((live) => guards.space(ada, space.id, live))
    const revoked = await watching((live) => guards.viewer({ ...ada, tokenId: accessToken.id }, live))
    const erased = await watching((live) => guards.viewer(eve, live))
    await parley.app.domain.members.remove(parley.admin, { spaceId: space.id, entityId: ada.id })
    await parley.app.domain.tokens.revoke(parley.admin, { id: accessToken.id })
    await parley.app.domain.deletion.eraseHuman(parley.admin, { id: eve.id, messages: false })
    const ends = await Promise.all([removed(), revoked(), erased()])
    expect(ends).toEqual(['ForbiddenError', 'UnauthenticatedError', 'UnauthenticatedError'])
  })
})

describe('while signals are lost', () => {
  let parley: TestApplication
  let guards: Guards
  let recheck: PeriodicRecheck
  const deaf = deafSignals()

  beforeAll(async () => {
    parley = await startApplication({ worker: false })
    const { platform, domain } = parley.app
    recheck = createPeriodicRecheck(platform, domain, 600_000)
    guards = createGuards({ ...platform, signals: deaf.signals }, domain, recheck)
  })
  afterAll(async () => {
    recheck?.close()
    await parley?.close()
  })

  /** Starts a waiting subscription, and reports how it ends. */
  function watching() {
    const live = createLifeline()
    const ended = new Promise<string>((resolve) =>
      live.onEnd(() => queueMicrotask(() => resolve(live.failure()?.name ?? 'completed'))),
    )
    return { live, ended, leave: live.end }
  }

  test('the removal of a member is detected when they return', async () => {
    const ada = await parley.human('Ada')
    const space = await parley.space(ada, [])
    const { live, ended } = watching()
    await guards.space(ada, space.id, live)
    deaf.reconnect()
    await parley.app.domain.members.remove(ada, { spaceId: space.id, entityId: ada.id })
    expect(live.signal.aborted).toBe(false)
    deaf.reconnect()
    expect(await ended).toBe('ForbiddenError')
    expect(deaf.counts.listeners).toBe(0)
  })

  test('a revoked token is detected too, even for a subscriber that starts at the same time', async () => {
    const ada = await parley.human('Ada')
    const { accessToken } = await parley.app.domain.tokens.create(parley.admin, { grant: { humanId: ada.id } })
    const viewer: Viewer = { ...ada, tokenId: accessToken.id }
    const one = watching()
    await guards.viewer(viewer, one.live)
    await parley.app.domain.tokens.revoke(parley.admin, { id: accessToken.id })
    deaf.reconnect()
    expect(await one.ended).toBe('UnauthenticatedError')
    const late = watching()
    await guards.viewer(viewer, late.live)
    expect(await late.ended).toBe('UnauthenticatedError')
    expect(deaf.counts.listeners).toBe(0)
  })

  test('a database that does not respond is polled until it does', async () => {
    const ada = await parley.human('Ada')
    const space = await parley.space(ada, [])
    const { live, ended } = watching()
    await guards.space(ada, space.id, live)
    const { visibility } = parley.app.domain
    const { spaces } = visibility
    let refused = 0
    visibility.spaces = async () => {
      refused += 1
      throw new Error('the database is away')
    }
    deaf.reconnect()
    await until('a lookup has failed', () => refused > 1)
    expect(live.signal.aborted).toBe(false)
    // There is no signal for this change, so only the next lookup finds it.
    await parley.app.platform.db.prisma.membership.deleteMany({ where: { spaceId: space.id, entityId: ada.id } })
    visibility.spaces = spaces
    expect(await ended).toBe('ForbiddenError')
  })

  test('a subscriber that started while the database was unreachable leaves no resources behind', async () => {
    const ada = await parley.human('Ada')
    const { accessToken } = await parley.app.domain.tokens.create(parley.admin, { grant: { humanId: ada.id } })
    const { tokens } = parley.app.domain
    const { stands } = tokens
    const { listeners } = deaf.counts
    tokens.stands = async () => {
      throw new Error('the database is away')
    }
    const { live, leave } = watching()
    await expect(guards.viewer({ ...ada, tokenId: accessToken.id }, live)).rejects.toThrow('away')
    await leave()
    tokens.stands = stands
    expect(deaf.counts.listeners).toBe(listeners)
  })

  test('an expiry years away does not end a subscription, a past one does', async () => {
    const ada = await parley.human('Ada')
    const far = watching()
    await guards.viewer({ ...ada, expiresAt: new Date('2099-01-01') }, far.live)
    const past = watching()
    await guards.viewer({ ...ada, expiresAt: new Date(Date.now() - 1) }, past.live)
    expect(await past.ended).toBe('UnauthenticatedError')
    expect(far.live.signal.aborted).toBe(false)
    await far.leave()
    expect(await far.ended).toBe('completed')
  })
})

describe.each(STACKS)('a signal on the channel of a token, on the %s stack', (stack) => {
  let parley: TestApplication
  beforeAll(async () => {
    parley = await startApplication({ stack, worker: false })
  })
  afterAll(() => parley?.close())

  test("ends its viewer's subscriptions only if the database has the token as revoked", async () => {
    const { platform, domain } = parley.app
    const guards = createGuards(platform, domain, createPeriodicRecheck(platform, domain, 600_000))
    const ada = await parley.human('Ada')
    const { accessToken } = await domain.tokens.create(parley.admin, { grant: { humanId: ada.id } })
    const viewer: Viewer = { ...ada, tokenId: accessToken.id }
    const watching = async () => {
      const live = createLifeline()
      const ended = new Promise<string>((resolve) => live.onEnd(() => resolve(live.failure()?.name ?? 'completed')))
      await guards.viewer(viewer, live)
      return { live, ended }
    }
    const first = await watching()
    const { stands } = domain.tokens
    let looks = 0
    domain.tokens.stands = (asked) => {
      looks += 1
      return stands(asked)
    }
    const channel = tokenChannel(accessToken.id)
    for (const payload of [null, 1, 'revoked', [], {}, { type: 'other' }])
      await platform.signals.publish(channel, payload as never)
    await platform.signals.publish(channel, { type: 'revoked' })
    await until('the last one was looked up', () => looks === 1)
    const second = await watching()
    expect([first, second].map(({ live }) => live.signal.aborted)).toEqual([false, false])
    await domain.tokens.revoke(parley.admin, { id: accessToken.id })
    expect(await Promise.all([first.ended, second.ended])).toEqual(['UnauthenticatedError', 'UnauthenticatedError'])
    domain.tokens.stands = stands
  })
})
