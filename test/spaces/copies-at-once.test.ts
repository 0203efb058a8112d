import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { newId } from '../../src/lib/ids.ts'
import type { Tx } from '../../src/platform/db.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { hasPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const SECRET = 'The CANARY sings in the old mine behind the third hill'

// PGlite has one connection, so no two transactions run at the same time.
describe.skipIf(!hasPostgres)('copies and deletions at the same time, on PostgreSQL', () => {
  let parley: TestApplication
  let ann: HumanViewer
  beforeAll(async () => {
    const settings = { PARLEY_MAX_NEW_SPACES_PER_DAY: '100' }
    parley = await startApplication({ stack: 'postgres', isFresh: true, settings })
    ann = await parley.human('Ann')
  })
  afterAll(() => parley?.close())

  const prisma = () => parley.app.platform.db.prisma
  const copyOf = (spaceId: string) => parley.app.domain.forking.fork(ann, { spaceId })
  const remove = (messageId: string) => parley.app.domain.messageChanges.delete(ann, { messageId })
  /** Waits until this many other transactions wait for locks. */
  const waiting = (count: number) =>
    until(`${count} transactions wait for locks`, async () => {
      const [row] = await prisma().$queryRaw<{ n: number }[]>`
        SELECT count(DISTINCT pid)::int AS n FROM pg_locks WHERE NOT granted
          AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`
      return row?.n === count
    })
  /** Runs a transaction that holds a lock until `meanwhile` returns. */
  const holding = (lock: (tx: Tx) => Promise<unknown>, meanwhile: (tx: Tx) => Promise<unknown>) =>
    prisma().$transaction(
      async (tx) => {
        await lock(tx as Tx)
        await meanwhile(tx as Tx)
      },
      { timeout: 60_000 },
    )
  const lockSpace = (id: string) => (tx: Tx) => tx.$queryRaw`SELECT 1 FROM "Space" WHERE id = ${id} FOR UPDATE`
  const isFree = async (tx: Tx, id: string) => {
    const rows = await tx.$queryRaw<object[]>`SELECT 1 FROM "Space" WHERE id = ${id} FOR UPDATE SKIP LOCKED`
    return rows.length === 1
  }

  test('a copy that waits for an older space holds no lock on a space that a deletion locks later', async () => {
    const agent = await parley.agent('Iris')
    const original = await parley.space(ann, [agent.id])
    const copy = await copyOf(original.id)
    const { id: copied } = await prisma().agent.findFirstOrThrow({ where: { copyOfId: agent.id } })
    const note = { id: newId('mem'), agentId: copied, key: 'k', value: 'v', updatedAt: new Date() }
    await prisma().memory.create({ data: { ...note, places: [original.id] } })
    let again: Promise<unknown> = Promise.resolve()
    // A deletion in the original also locks this space first, and then its copies.
    await holding(lockSpace(original.id), async (tx) => {
      again = copyOf(copy.id)
      await waiting(1)
      expect(await isFree(tx, copy.id)).toBe(true)
    })
    await again
  })

  test('a deletion that waits for a copy holds no lock on the spaces after it', async () => {
    const space = await parley.space(ann, [])
    const { message } = await parley.send(ann, space.id, SECRET)
    const copies = [await copyOf(space.id), await copyOf(space.id), await copyOf(space.id)]
    const nested = await copyOf(copies[0]!.id)
    let removal: Promise<unknown> = Promise.resolve()
    await holding(lockSpace(copies[1]!.id), async (tx) => {
      removal = remove(message.id)
      await waiting(1)
      for (const { id } of [copies[2]!, nested]) expect(await isFree(tx, id)).toBe(true)
    })
    await removal
  })

  test('a message that is deleted while its space is copied is gone from the copy, and from a copy of that', async () => {
    const space = await parley.space(ann, [])
    const { message } = await parley.send(ann, space.id, SECRET)
    const made: string[] = []
    let removal: Promise<unknown> = Promise.resolve()
    const lockMembers = (tx: Tx) => tx.$executeRaw`LOCK TABLE "FormerMember" IN EXCLUSIVE MODE`
    let copying: Promise<unknown> = Promise.resolve()
    // The copy has read the messages, but not committed.
    await holding(lockMembers, async () => {
      copying = copyOf(space.id).then(({ id }) => made.push(id))
      await waiting(1)
      removal = remove(message.id)
      await waiting(2)
    })
    await Promise.all([copying, removal])
    const rows = await prisma().message.findMany({ where: { spaceId: made[0]! } })
    expect(rows.map(({ parts, deletedAt }) => [parts, deletedAt === null])).toEqual([[[], false]])
    expect(await prisma().searchText.count({ where: { spaceId: made[0]! } })).toBe(0)
  })

  test('many copies and deletions at once end without a deadlock', async () => {
    const deadlocks = async () => {
      const [row] = await prisma().$queryRaw<{ n: number }[]>`
        SELECT deadlocks::int AS n FROM pg_stat_database WHERE datname = current_database()`
      return row?.n
    }
    const agent = await parley.agent('Otto')
    const space = await parley.space(ann, [agent.id])
    const messages: string[] = []
    for (let n = 0; n < 8; n++) messages.push((await parley.send(ann, space.id, `${SECRET} ${n}`)).message.id)
    const copy = await copyOf(space.id)
    for (const { id } of await prisma().agent.findMany({ where: { copyOfId: agent.id } }))
      await prisma().memory.create({
        data: {
          id: newId('mem'),
          agentId: id,
          key: 'k',
          value: 'v',
          updatedAt: new Date(),
          places: [space.id, copy.id].sort(),
        },
      })
    const before = await deadlocks()
    const inCopy = await prisma().message.findMany({ where: { spaceId: copy.id }, orderBy: { seq: 'asc' } })
    await Promise.all([
      ...messages.slice(0, 4).map(remove),
      ...inCopy.slice(4).map(({ id }) => remove(id)),
      ...[space.id, copy.id, space.id, copy.id].map(copyOf),
    ])
    await until('each deletion is finished', async () => (await prisma().messageDeletion.count()) === 0)
    const left = await prisma().message.findMany({
      where: { seq: { lte: 4 }, deletedAt: null, space: { forkOfId: { not: null } } },
    })
    expect(JSON.stringify(left)).not.toContain('CANARY')
    expect(await deadlocks()).toBe(before)
  })
})
