import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import type { TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const hasBrowser = hasBrowserFor('the test of what is unread')
const UNREAD = `query ($id: ID!) { space(id: $id) { unreadCount } }`

describe.skipIf(!hasBrowser)('what a person has read, and was about to write', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  test('a draft is kept; what is unread is counted until one looks at it; who is removed is told so', async () => {
    const [human, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    const garden = await parley.space(human, [], { name: 'Garden' })
    const { spaces, members } = parley.app.api
    const memberIds = [human.id, bob.id]
    const attic = await spaces.create(parley.admin, { name: 'Attic', routing: 'BROADCAST', memberIds })
    const { page, message } = await openAs(human, `/spaces/${garden.id}`)
    await page.getByRole('heading', { name: 'Garden', exact: true }).waitFor(PATIENCE)
    await page.getByRole('textbox', { name: 'Message' }).fill('Half a thou')
    const line = page.getByRole('link', { name: /^Attic/ })
    await line.waitFor(PATIENCE)
    await parley.send(bob, attic.id, 'Are you there?')
    await line.getByLabel('1 unread').waitFor(PATIENCE)
    await page.waitForFunction(() => document.title.startsWith('(1)'))
    await line.click()
    await message('Are you there?').waitFor(PATIENCE)
    await line.getByLabel('1 unread').waitFor({ ...PATIENCE, state: 'detached' })
    await page.goBack()
    await page.getByRole('heading', { name: 'Garden', exact: true }).waitFor(PATIENCE)
    expect(await page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('Half a thou')
    await line.click()
    await message('Are you there?').waitFor(PATIENCE)
    await members.remove(parley.admin, { spaceId: attic.id, entityId: human.id })
    await page.getByRole('heading', { name: 'This space is closed to you' }).waitFor(PATIENCE)
    await line.waitFor({ ...PATIENCE, state: 'detached' })
  }, 90_000)

  test('what one looks at is read, however fast more of it comes', async () => {
    const [human, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    const memberIds = [human.id, bob.id]
    const attic = await parley.app.api.spaces.create(parley.admin, { name: 'Attic', routing: 'BROADCAST', memberIds })
    const { page } = await openAs(human, `/spaces/${attic.id}`)
    await page.getByRole('heading', { name: 'Attic', exact: true }).waitFor(PATIENCE)
    const client = await parley.clientOf(human)
    let said = 0
    async function isMostlyRead(): Promise<boolean> {
      said += 1
      await parley.send(bob, attic.id, `Word ${said}.`)
      const { data } = await client.ask<{ space: { unreadCount: number } }>(UNREAD, { id: attic.id })
      return said > 20 && (data?.space.unreadCount ?? said) < said / 2
    }
    await until('most of it is read while it comes', isMostlyRead, { timeoutMs: 20_000, intervalMs: 50 })
  }, 60_000)
})
