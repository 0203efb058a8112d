import { expect, onTestFinished, test } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { isLoggedOut, markLoggedOut } from '../../src/stores/identity-store.ts'
import { type Domain, openDomain } from '../support/domain.ts'
import { hasPostgres } from '../support/postgres.ts'

test.skipIf(!hasPostgres)('a session that a provider has ended stays closed for 15 minutes', async () => {
  const login = { issuer: 'https://id.example', provider: 'default', sid: newId('ses'), subject: 'ada', issuedAt: 1000 }
  const domain: Domain = await openDomain()
  onTestFinished(() => domain.close())
  const isEnded = (ms: number) =>
    domain.platform.db.transaction((tx) => isLoggedOut(tx, login, new Date(1_000_000 + ms)))
  expect(await isEnded(0)).toBe(false)
  await domain.platform.db.transaction((tx) => markLoggedOut(tx, login))
  expect(await isEnded(14 * 60_000)).toBe(true)
  expect(await isEnded(16 * 60_000)).toBe(false)
})
