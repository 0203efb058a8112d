import { expect, test } from 'vitest'
import { createMemorySignals } from '../../src/broker/memory/signals.ts'
import { createPresence } from '../../src/spaces/presence.ts'

const PEOPLE = 5000
const SPACES = 500
const SECONDS = 10

/**
 * Everybody is connected, follows a space, and sends a heartbeat once a minute, and a tenth of them are typing. The fake
 * database answers at once, so this measures only the cost of presence in the process.
 */
test('5,000 people present in 500 spaces take at most 5 % of a core and 20 MiB', async () => {
  const signals = createMemorySignals({ info: () => {}, warn: () => {} })
  const spaceOf = (id: string) => `spc_${Number(id.slice(4)) % SPACES}`
  const rowsOf = (ids: string[]) =>
    ids.map((id) => ({ id, kind: 'HUMAN', name: id, createdAt: new Date(), sharePresence: true, spaceId: spaceOf(id) }))
  const prisma = { $queryRaw: async (_: TemplateStringsArray, ids: string[]) => rowsOf(ids) }
  const viewers = Array.from({ length: PEOPLE }, (_, n) => {
    const id = `hum_${String(n).padStart(32, '0')}`
    return { scope: 'HUMAN' as const, id, tokenId: null, expiresAt: null }
  })
  globalThis.gc?.()
  const before = process.memoryUsage().heapUsed
  const presence = createPresence({ db: { prisma }, signals, clock: { now: Date.now }, logger: console } as never, {
    visibility: { spaces: async (_, ids) => new Set(ids) },
  })
  const close = presence.open()
  const watched = Array.from({ length: SPACES }, (_, n) => presence.watch(`spc_${n}`))
  let events = 0
  for (const { presence: space } of watched) {
    let version = 0
    space.listen(() => {
      if (space.version === version) return
      events += space.changesSince(version).length
      version = space.version
    })
  }
  for (const viewer of viewers) presence.connect(viewer)
  await expect.poll(() => events, { timeout: 10_000 }).toBe(PEOPLE)
  globalThis.gc?.()
  const usedBytes = process.memoryUsage().heapUsed - before
  const began = process.cpuUsage()
  const beganAt = performance.now()
  for (let second = 0; second < SECONDS; second++) {
    for (const [n, viewer] of viewers.entries()) {
      if (n % 60 === second) presence.noteActive(viewer)
      if (n % 30 === second % 3) await presence.setTyping(viewer, { spaceId: spaceOf(viewer.id) })
    }
    await new Promise((resolve) => setTimeout(resolve, 1000))
  }
  const { user, system } = process.cpuUsage(began)
  const share = (user + system) / 1000 / (performance.now() - beganAt)
  await close()
  expect(events).toBeGreaterThan(PEOPLE + 400)
  expect(usedBytes).toBeLessThan(20 * 1024 * 1024)
  expect(share).toBeLessThan(0.05)
}, 60_000)
