import type { Page } from 'playwright-core'
import { encode } from 'uqr'
import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import type { TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

describe.skipIf(!hasBrowserFor('the tests of signing in'))('signing in to the console', () => {
  let parley: TestServer
  const { open, openAs } = playConsole((started) => {
    parley = started
  })

  /** Opens the console in another tab of the same browser. */
  async function anotherTab(page: Page): Promise<Page> {
    const [tab] = await Promise.all([
      page.context().waitForEvent('page'),
      // A tab with an opener would get a copy of the opener's storage.
      page.evaluate(`void window.open('/', '_blank', 'noopener')`),
    ])
    return tab
  }

  test('a person stays signed in, in all tabs and later ones, until the session ends', async () => {
    const human = await parley.human('Ada')
    // Requests from the other tab are refused once the session has ended.
    const { page } = await openAs(human, '/', {}, { mayComplain: true })
    await page.getByText('You are Ada').waitFor(PATIENCE)
    const [cookie] = await page.context().cookies()
    expect(cookie).toMatchObject({ name: 'parley_session', httpOnly: true, sameSite: 'Lax' })
    await page.reload()
    await page.getByText('You are Ada').waitFor(PATIENCE)
    const tab = await anotherTab(page)
    await tab.getByText('You are Ada').waitFor(PATIENCE)
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('Token').waitFor(PATIENCE)
    await tab.getByText('Your session has ended. Sign in again.').waitFor(PATIENCE)
    const { prisma } = parley.app.platform.db
    await until(
      'the session is gone',
      async () => (await prisma.session.count({ where: { viewerId: human.id } })) === 0,
    )
  })

  test('a browser that does not keep the cookie keeps the token in its tab', async () => {
    const human = await parley.human('Ivy')
    const { page, signIn } = await open({ path: '/' })
    // Simulates a browser that drops a Secure cookie because it reached the server over http.
    await page.route('**/auth/token', (route) => route.fulfill({ json: { scope: 'HUMAN' } }))
    await signIn(await parley.tokenOf(human))
    await page.getByText('You are Ivy').waitFor(PATIENCE)
    expect(await page.context().cookies()).toEqual([])
    await page.reload()
    await page.getByText('You are Ivy').waitFor(PATIENCE)
  })

  test("the operator's token stays in its tab", async () => {
    const { page } = await openAs(parley.admin, '/')
    await page.getByRole('button', { name: 'Sign out' }).waitFor(PATIENCE)
    expect(await page.context().cookies()).toEqual([])
    const tab = await anotherTab(page)
    await tab.getByLabel('Token').waitFor(PATIENCE)
  })

  test('an invitation leaves a session and no token; after signing out everywhere, nothing opens the account', async () => {
    const human = await parley.human('Iko')
    const { prisma } = parley.app.platform.db
    const invite = () =>
      parley.app.domain.invitations.create(parley.admin, { humanId: human.id, expiresInSeconds: 600 })
    const [first, second] = [(await invite()).path, (await invite()).path]
    const { page, violations } = await open({ path: first }, { mayComplain: true })
    await page.getByRole('heading', { name: 'You are invited, Iko' }).waitFor(PATIENCE)
    await page.getByText('An admin of this server has invited you to Parley').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    // Opening the link has not changed anything.
    expect(await prisma.invitation.count({ where: { humanId: human.id } })).toBe(2)
    await page.getByRole('button', { name: 'Accept and sign in' }).click()
    await page.getByText('You are Iko').waitFor(PATIENCE)
    expect(await page.evaluate('Object.keys(sessionStorage).join()')).not.toContain('token')
    expect(await prisma.accessToken.count({ where: { humanId: human.id } })).toBe(0)

    // Neither of the two used links works again, for example for the finder of a lost laptop.
    for (const used of [first, second]) {
      const other = await open({ path: used }, { mayComplain: true })
      await other.page.getByRole('heading', { name: 'This link does not work' }).waitFor(PATIENCE)
      expect(await other.page.getByRole('button').count()).toBe(0)
      await other.page.getByRole('link', { name: 'Go to the sign-in page' }).click()
      await other.page.getByLabel('Token').waitFor(PATIENCE)
    }

    const admin = await openAs(parley.admin, `/people/${human.id}`)
    await admin.page.getByRole('button', { name: 'Sign out everywhere' }).click(PATIENCE)
    await page.getByText('Your session has ended. Sign in again.').waitFor(PATIENCE)
    await page.reload()
    await page.getByLabel('Token').waitFor(PATIENCE)
    expect(await prisma.session.count({ where: { viewerId: human.id } })).toBe(0)
    await admin.page.getByRole('link', { name: 'All people' }).click()
    await admin.page.getByRole('button', { name: 'Act as Iko' }).waitFor(PATIENCE)
    expect(await admin.page.getByRole('button', { name: 'Revoke a token of Iko' }).count()).toBe(0)
  }, 90_000)

  test('a person creates a join link, and another person signs in with it and joins', async () => {
    const [ada, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    const space = await parley.space(ada, [], { name: 'Garden' })
    const { page } = await openAs(ada, `/spaces/${space.id}`)
    await page.getByRole('button', { name: 'About this space' }).click(PATIENCE)
    await page.getByText('Everybody with an account on this server').waitFor(PATIENCE)
    await page.getByRole('heading', { name: 'Create a join link' }).click()
    await page.getByLabel('Valid for').selectOption('1 day')
    await page.getByRole('button', { name: 'Create a join link' }).click(PATIENCE)
    const link = await page.getByText(`${parley.origin}/join/`).textContent(PATIENCE)
    const path = new URL(link ?? '').pathname
    await page.getByText('QR code').click(PATIENCE)
    const drawn = await page.getByRole('img', { name: 'QR code of the join link' }).locator('path').getAttribute('d')
    const dark = encode(link ?? '', { border: 4 }).data.flatMap((row, y) =>
      row.flatMap((is, x) => (is ? [`${x} ${y}`] : [])),
    )
    expect([...(drawn ?? '').matchAll(/M(\d+ \d+)h1v1h-1z/g)].map(([, at]) => at)).toEqual(dark)
    const { expiresAt } = await parley.app.platform.db.prisma.joinLink.findFirstOrThrow({
      where: { spaceId: space.id },
    })
    expect(Math.abs(expiresAt.getTime() - Date.now() - 86_400_000)).toBeLessThan(3_600_000)
    const other = await open({ path })
    await other.page.getByText('Sign in to join it. No account? Ask the sender for an invitation.').waitFor(PATIENCE)
    await other.signIn(await parley.tokenOf(bob))
    await other.page.getByRole('heading', { name: 'Join Garden?' }).waitFor(PATIENCE)
    await other.page.getByText('Ada created this link. The space has 1 member.').waitFor(PATIENCE)
    await other.page.getByText('The other members see your name.').waitFor(PATIENCE)
    expect(await other.violations()).toEqual([])
    await other.page.getByRole('button', { name: 'Join', exact: true }).click(PATIENCE)
    await other.page.waitForURL(`${parley.origin}/spaces/${space.id}`)
    await other.say('Hello')
    await page.keyboard.press('Escape')
    await page.getByRole('article').getByText('Hello').waitFor(PATIENCE)
    const again = await openAs(bob, path)
    await again.page.getByText('You are already a member of this space.').waitFor(PATIENCE)
    await again.page.getByRole('link', { name: 'Open the space' }).click()
    await again.page.waitForURL(`${parley.origin}/spaces/${space.id}`)

    await page.getByRole('button', { name: 'About this space' }).click(PATIENCE)
    await page.getByRole('button', { name: 'Revoke this join link' }).click(PATIENCE)
    const question = page.getByRole('dialog', { name: 'Revoke this join link?' })
    await question.getByText('People who have joined stay members.').waitFor(PATIENCE)
    await question.getByRole('button', { name: 'Revoke', exact: true }).click()
    await page.getByText('There is no valid link now.').waitFor(PATIENCE)
    const late = await openAs(await parley.human('Cleo'), path)
    await late.page.getByRole('heading', { name: 'This link does not work' }).waitFor(PATIENCE)
  })
})
