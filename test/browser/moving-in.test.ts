import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasBrowserFor, openBrowser } from '../support/browser.ts'
import { PATIENCE, subscribingTo } from '../support/console-page.ts'
import { type MailServer, startMailServer } from '../support/mail-server.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import { CLIENT, startIdentityProvider, type TestIdentityProvider } from '../support/oidc-provider.ts'
import { type PushService, startPushService } from '../support/push-service.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const hasBrowser = hasBrowserFor('the test of a team that moves in')
const ORDER = {
  name: 'order_fleece',
  description: 'Orders fleece.',
  inputSchema: { type: 'object', properties: { rolls: { type: 'integer' } }, required: ['rolls'] },
  execution: 'INTERNAL' as const,
  visible: true,
  approval: { quorum: 1 },
}

// The tests tell one story, in the order of a team's first day: each continues where the previous one ended.
describe.skipIf(!hasBrowser)('a team moves in', () => {
  let browser: Browser
  let parley: TestServer
  let mail: MailServer
  let push: PushService
  let provider: TestIdentityProvider
  /** Each person has one browser, which keeps cookies when its tabs are closed. */
  let ofAda: BrowserContext
  let ofBob: BrowserContext

  beforeAll(async () => {
    browser = await openBrowser()
    ;[mail, push, provider] = await Promise.all([startMailServer(), startPushService(), startIdentityProvider()])
    parley = await startTestServer({
      isFresh: true,
      push: push.network,
      settings: {
        PARLEY_SMTP_URL: mail.url,
        PARLEY_MAIL_FROM: 'parley@example.org',
        PARLEY_DIRECTORY: 'everyone',
        PARLEY_OIDC_ISSUER: provider.issuer,
        PARLEY_OIDC_CLIENT_ID: CLIENT.id,
        PARLEY_OIDC_CLIENT_SECRET: CLIENT.secret,
        PARLEY_OIDC_ALLOW: 'domain:example.com',
      },
    })
    provider.allow(parley.origin, ['default'])
    provider.accounts['bob'] = { name: 'Bob', email: 'bob@example.com', email_verified: true }
    ;[ofAda, ofBob] = await Promise.all([browser.newContext(), browser.newContext()])
  }, 90_000)
  afterAll(async () => {
    await ofAda?.close()
    await ofBob?.close()
    await parley?.close()
    await Promise.all([mail?.close(), push?.close(), provider?.close()])
  })

  async function open(context: BrowserContext, path: string): Promise<Page> {
    const page = await context.newPage()
    await page.goto(parley.origin + path)
    return page
  }
  const isSignedInAs = (page: Page, name: string) => page.getByText(`You are ${name}`).waitFor(PATIENCE)
  const personNamed = (name: string) => parley.app.platform.db.prisma.entity.findFirstOrThrow({ where: { name } })

  test('the operator invites one person, and another person signs in through the identity provider', async () => {
    const operator = await browser.newContext()
    const admin = await open(operator, '/people')
    await admin.getByRole('link', { name: /^Sign in with/ }).waitFor(PATIENCE)
    await admin.getByLabel('Email address').waitFor(PATIENCE)
    expect(await admin.getByLabel('Token').isVisible()).toBe(false)
    await admin.getByText('Sign in with a token').click()
    await admin.getByLabel('Token').fill('a-token-that-nobody-has')
    await admin.getByRole('button', { name: 'Sign in', exact: true }).click()
    await admin.getByText('This token is not valid.').waitFor(PATIENCE)
    await admin.getByLabel('Token').fill(await parley.tokenOf(parley.admin))
    await admin.getByRole('button', { name: 'Sign in', exact: true }).click()
    await admin.getByRole('button', { name: 'New space' }).click(PATIENCE)
    await admin.getByText('Create the space, then invite people by email from its details.').waitFor(PATIENCE)
    await admin.keyboard.press('Escape')
    await admin.getByRole('button', { name: 'Add person' }).click(PATIENCE)
    const dialog = admin.getByRole('dialog', { name: 'Add person' })
    await dialog.getByLabel('Name').fill('Kim', PATIENCE)
    await dialog.getByLabel('Email address').fill('kim@example.com')
    expect(await dialog.getByLabel('Invitation').inputValue()).toBe('mail')
    await dialog.getByRole('button', { name: 'Add and invite' }).click()
    await dialog.getByText('The invitation is being sent to kim@example.com.').waitFor(PATIENCE)
    await dialog.getByRole('button', { name: 'Add another person' }).click()
    await dialog.getByLabel('Name').fill('Ada', PATIENCE)
    expect(await dialog.getByLabel('Invitation').inputValue()).toBe('link')
    await dialog.getByRole('button', { name: 'Add and invite' }).click()
    const link = await dialog.locator('.secret code').filter({ hasText: '/invitations/' }).textContent(PATIENCE)
    await dialog.getByRole('button', { name: 'Done' }).click()
    const invitations = admin.getByRole('region', { name: 'Open invitations' })
    await invitations.getByText('Kim by email to kim@example.com').waitFor(PATIENCE)
    await invitations.getByRole('button', { name: 'Send again for Kim' }).click()
    await invitations.getByText('The invitation is being sent to kim@example.com.').waitFor(PATIENCE)
    const { link: mailed } = await mail.mailTo('kim@example.com', 2)
    const kim = await open(await browser.newContext(), new URL(mailed).pathname)
    await kim.getByRole('heading', { name: 'You are invited, Kim' }).waitFor(PATIENCE)
    await kim.getByText('An admin of this server has invited you to Parley').waitFor(PATIENCE)
    await kim.getByRole('button', { name: 'Accept and sign in' }).click()
    await isSignedInAs(kim, 'Kim')
    await kim.context().close()
    await operator.close()
    const ada = await open(ofAda, new URL(link ?? '').pathname)
    await ada.getByRole('button', { name: 'Accept and sign in' }).click(PATIENCE)
    await isSignedInAs(ada, 'Ada')

    const bob = await open(ofBob, '/waiting#later')
    await bob.getByRole('link', { name: /^Sign in with/ }).click(PATIENCE)
    await bob.locator('input[name=login]').fill('bob', PATIENCE)
    await bob.locator('input[name=password]').fill('any')
    await bob.locator('button[type=submit]').click()
    await bob.getByRole('button', { name: /continue/i }).click(PATIENCE)
    await isSignedInAs(bob, 'Bob')
    expect(bob.url()).toBe(`${parley.origin}/waiting#later`)
  }, 90_000)

  test('an admin sees that the mail server accepts nothing, and why, until it does again', async () => {
    const operator = await browser.newContext()
    const admin = await open(operator, '/people')
    await admin.getByText('Sign in with a token').click(PATIENCE)
    await admin.getByLabel('Token').fill(await parley.tokenOf(parley.admin))
    await admin.getByRole('button', { name: 'Sign in', exact: true }).click()
    const status = admin.getByRole('status', { name: 'Email' })
    await status.getByText('Email works.').waitFor(PATIENCE)
    mail.behave('busy')
    await parley.app.domain.inviting.invite(parley.admin, { email: 'lea@example.com', spaceIds: [] })
    await status.getByText(/Email is not working\. Last attempt: .*4\.7\.1 Try again later/).waitFor(PATIENCE)
    await status.getByText('The server keeps trying to send 1 email').waitFor(PATIENCE)
    await admin.evaluate(`history.pushState(null, '', '/audit')`)
    await admin.getByRole('heading', { name: 'Audit log' }).waitFor(PATIENCE)
    await status.getByText('Email is not working.').waitFor(PATIENCE)
    mail.behave('accepts')
    await mail.mailTo('lea@example.com')
    await status.waitFor({ ...PATIENCE, state: 'detached' })
    await operator.close()
  }, 90_000)

  test('both people close their tabs and return, in one or two tabs, still signed in', async () => {
    for (const [context, name] of [
      [ofAda, 'Ada'],
      [ofBob, 'Bob'],
    ] as const) {
      for (const page of context.pages()) await page.close()
      await isSignedInAs(await open(context, '/'), name)
      await isSignedInAs(await open(context, '/profile'), name)
    }
  }, 60_000)

  test('they find each other and create a space with two agents; one of them leaves, gets a push message and an email, opens the link, and approves', async () => {
    const [iris, noor] = [await parley.agent('Iris'), await parley.agent('Noor', { tools: [ORDER] })]
    const order = [{ toolCall: 'order_fleece', input: { rolls: 2 } }]
    parley.models.script(forAgent(noor.name, steps(order, [{ toolCall: 'send_message', input: { text: 'Ordered.' } }])))
    parley.models.script(forAgent(iris.name, () => [{ text: 'Not for me.' }]))
    const bobs = await personNamed('Bob')
    await parley.app.domain.humans.update(parley.admin, { id: bobs.id, email: 'bob@example.com' })

    const [bob] = ofBob.pages() as [Page]
    const device = push.browser()
    const { endpoint, ...keys } = device.input
    await bob.goto(`${parley.origin}/notifications`)
    await bob.getByRole('heading', { name: 'Notification settings' }).waitFor(PATIENCE)
    await bob.evaluate(subscribingTo({ endpoint, keys }))
    await bob.getByRole('button', { name: 'Enable on this device' }).click(PATIENCE)
    await bob.getByText('This device receives push messages.').waitFor(PATIENCE)
    for (const page of ofBob.pages()) await page.goto('about:blank')

    const [ada] = ofAda.pages() as [Page]
    await ada.getByRole('button', { name: 'New space' }).click(PATIENCE)
    const fields = ada.getByRole('form', { name: 'New space' })
    await fields.getByLabel('Name', { exact: true }).fill('Garden')
    for (const name of ['Iris', 'Noor', 'Bob'])
      await fields.getByRole('checkbox', { name, exact: true }).check(PATIENCE)
    await fields.getByRole('button', { name: 'Create' }).click()
    await ada.getByRole('heading', { name: 'Garden', exact: true }).waitFor(PATIENCE)
    await ada.getByRole('button', { name: 'About this space' }).click()
    await ada.getByLabel('Add a person').fill('Zed', PATIENCE)
    await ada.getByText('No person that you can see has this name. Create a join link').waitFor(PATIENCE)
    await ada.keyboard.press('Escape')
    await ada.getByRole('textbox', { name: 'Message' }).fill('@Bob and @Noor, order two rolls of fleece')
    await ada.getByRole('button', { name: 'Send' }).click(PATIENCE)
    const call = (page: Page) => page.getByRole('region', { name: /Tool call order_fleece/ })
    await call(ada).getByText('waits for approval').waitFor(PATIENCE)

    const pushes = await until('the mention and the decision have reached Bob’s device', () =>
      device.pushes().length >= 2 ? device.pushes() : undefined,
    )
    expect(JSON.stringify(pushes)).not.toMatch(/fleece|Garden|Ada/)
    const tapped = pushes.find(({ text }) => /decision|approv|answer/i.test(text))
    const { prisma } = parley.app.platform.db
    // Skips the time after which open notices are emailed.
    await prisma.$executeRaw`UPDATE "Notice" SET "mailAt" = now() WHERE "humanId" = ${bobs.id} AND "mailAt" IS NOT NULL`
    await prisma.$executeRaw`UPDATE job SET start_after = now() WHERE name = 'mail-notices' AND group_id = ${bobs.id}`
    const notice = await mail.mailTo('bob@example.com')
    expect(notice.text).not.toMatch(/fleece|Garden|Ada/)
    // Without a public address, links contain the name of this machine. The browser is signed in under its IP address.
    const linked = new URL(notice.link)
    expect(linked.origin).toBe(parley.origin.replace('127.0.0.1', 'localhost'))

    // The service worker opens the path of the tapped message.
    await bob.goto(new URL(tapped?.path ?? '', parley.origin).href)
    await call(bob).getByRole('button', { name: 'Approve', exact: true }).click(PATIENCE)
    await bob.getByRole('article').filter({ hasText: 'Ordered.' }).waitFor(PATIENCE)
    await ada.getByRole('article').filter({ hasText: 'Ordered.' }).waitFor(PATIENCE)
    await call(ada).getByText('Bob').first().waitFor(PATIENCE)
    await bob.goto(parley.origin + linked.pathname + linked.search + linked.hash)
    await bob.getByRole('heading', { name: 'Garden', exact: true }).waitFor(PATIENCE)
  }, 90_000)

  test('a link in an email signs a person in on another device, at the message that they opened; they can sign out everywhere', async () => {
    const { id } = await personNamed('Ada')
    const { prisma } = parley.app.platform.db
    const message = await prisma.message.findFirstOrThrow({ where: { senderId: id } })
    const path = `/spaces/${message.spaceId}#${message.id}`
    await parley.app.domain.humans.update(parley.admin, { id, email: 'ada@example.com' })
    const phone = await browser.newContext({ viewport: { width: 390, height: 780 } })
    const requested = await open(phone, path)
    await requested.getByLabel('Email address').fill('ada@example.com', PATIENCE)
    await requested.getByRole('button', { name: 'Email me a link' }).click()
    await requested.getByText('an email with a link is on its way').waitFor(PATIENCE)
    const { link } = await mail.mailTo('ada@example.com')
    const page = await open(phone, new URL(link).pathname)
    await page.getByRole('heading', { name: 'Sign in as Ada' }).waitFor(PATIENCE)
    // Opening the link has not changed anything, because mail scanners also open links.
    await requested.reload()
    await requested.getByText('Sign in with a token').waitFor(PATIENCE)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'Garden', exact: true }).waitFor(PATIENCE)
    expect(page.url()).toBe(parley.origin + path)

    const [ada, second] = ofAda.pages() as [Page, Page]
    await page.goto(`${parley.origin}/profile`)
    await page.getByRole('button', { name: 'Sign out everywhere else' }).click(PATIENCE)
    for (const tab of [ada, second]) await tab.getByText('Your session has ended. Sign in again.').waitFor(PATIENCE)
    await page.getByRole('region', { name: 'Sessions' }).getByText('this browser').waitFor(PATIENCE)
    await until('one session is left', async () => {
      return (await prisma.session.count({ where: { viewerId: id } })) === 1
    })
    await phone.close()
  }, 90_000)
})
