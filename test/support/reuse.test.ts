import { describe, expect, test } from 'vitest'
import { startApplication } from './application.ts'
import { hasPostgres } from './postgres.ts'

/** A setting that no other test file uses. */
const settingsOf = (n: number) => ({ PARLEY_RATE_REQUESTS: String(7001 + n) })

describe('test files that share a process', () => {
  test('the next file with the same options gets the application of an earlier one, with empty tables', async () => {
    const one = await startApplication({ settings: settingsOf(0) })
    await one.room()
    await one.close()
    const two = await startApplication({ settings: settingsOf(0) })
    expect(two.app).toBe(one.app)
    expect(await two.app.platform.db.prisma.entity.count()).toBe(0)
    await two.close()
  })

  test.skipIf(!hasPostgres)(
    'a file with other options gets an emptied database, unless it requests a fresh one',
    async () => {
      const four = await Promise.all(
        [1, 2, 3, 4].map((n) => startApplication({ stack: 'postgres', worker: false, settings: settingsOf(n) })),
      )
      for (const one of four) {
        await one.human('Ada')
        await one.close()
      }
      const [fresh, other] = [
        await startApplication({ stack: 'postgres', worker: false, settings: settingsOf(5), isFresh: true }),
        await startApplication({ stack: 'postgres', worker: false, settings: settingsOf(5) }),
      ]
      const urls = four.map(({ stores }) => stores.settings['DATABASE_URL'])
      expect(urls).not.toContain(fresh.stores.settings['DATABASE_URL'])
      expect(urls).toContain(other.stores.settings['DATABASE_URL'])
      expect(await other.app.platform.db.prisma.entity.count()).toBe(0)
      await other.close()
      await fresh.close()
    },
  )
})
