import type { Browser, Page, WebSocketRoute } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasBrowserFor, launchBrowser } from '../support/browser.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const hasBrowser = hasBrowserFor("the console's test")
const PATIENCE = { timeout: 20_000 }
/** Keeps, in a page, every text that a message of an agent had while it was written. */
const WATCH_WRITING = `
  globalThis.shown = []
  new MutationObserver(() => {
    const text = document.querySelector('.message.agent[data-status="STREAMING"] .text')
    if (text) shown.push(text.textContent)
  }).observe(document.body, { subtree: true, childList: true, characterData: true })
`

describe.skipIf(!hasBrowser)('the console in a browser without internet', () => {
  let parley: TestServer
  let browser: Browser
  /** What a page asked of other hosts, and what it complained of. */
  let faults: string[]

  beforeAll(async () => {
    parley = await startTestServer({ stack: 'embedded' })
    browser = await launchBrowser()
  }, 60_000)
  afterAll(async () => {
    await browser?.close()
    await parley?.close()
  })

  async function open(): Promise<Page> {
    const page = await browser.newPage({ viewport: { width: 1100, height: 700 } })
    faults = []
    page.on('request', (request) => {
      if (!request.url().startsWith(parley.origin)) faults.push(request.url())
      if (/token|Bearer/i.test(request.url())) faults.push(request.url())
    })
    page.on('pageerror', ({ message }) => faults.push(message))
    page.on('console', (said) => said.type() === 'error' && faults.push(said.text()))
    page.on('dialog', (dialog) => {
      faults.push(dialog.message())
      void dialog.dismiss()
    })
    await page.goto(parley.origin)
    return page
  }

  async function signIn(page: Page, token: string): Promise<void> {
    await page.getByLabel('Token').fill(token)
    await page.getByRole('button', { name: 'Sign in' }).click()
  }

  /** Ada's console with her one space open, in which an agent may be. */
  async function openSpace(agentIds: string[] = [], before: (page: Page) => Promise<void> = async () => {}) {
    const human = await parley.human('Ada')
    const space = await parley.space(human, agentIds, { name: 'Garden' })
    const page = await open()
    await before(page)
    await signIn(page, await parley.tokenOf(human))
    await page.getByRole('navigation', { name: 'Spaces' }).getByRole('button', { name: 'Garden' }).click(PATIENCE)
    await page.getByRole('heading', { name: 'Garden' }).waitFor(PATIENCE)
    return { human, space, page }
  }

  test('an operator tries it with one click, and the agent answers while one looks on', async () => {
    const page = await open()
    await signIn(page, await parley.tokenOf(parley.admin))
    await page.getByRole('button', { name: 'Try it' }).click(PATIENCE)
    await page.getByText('You are Ada').waitFor(PATIENCE)
    await page.evaluate(WATCH_WRITING)
    await page.getByLabel('Message', { exact: true }).fill('Hello!')
    await page.getByRole('button', { name: 'Send' }).click()
    const answer = page.locator('.message.agent')
    if (process.env['SCREENSHOT']) {
      await answer.getByText('Hello Ada!').waitFor(PATIENCE)
      await page.screenshot({ path: process.env['SCREENSHOT'] })
    }
    await answer.and(page.locator('[data-status="COMPLETE"]')).waitFor(PATIENCE)
    const texts = await page.getByLabel('Messages').locator('.text').allTextContents()
    expect(texts).toEqual(['Hello!', expect.stringContaining('Iris')])
    const whileWritten = [...new Set(await page.evaluate<string[]>('shown'))].filter((text) => text !== texts[1])
    expect(whileWritten.length).toBeGreaterThan(3)
    expect(whileWritten.filter((text) => !texts[1]?.startsWith(text))).toEqual([])
    await page.getByText('Who woke?').click()
    await page.getByText('Iris woke').waitFor(PATIENCE)
    await page.reload()
    await answer.getByText('Hello Ada!').waitFor(PATIENCE)
    expect(faults).toEqual([])
    await page.close()
  }, 90_000)

  test('what looks like markup in a name or a message is shown as the text that it is', async () => {
    const attack = '<img src=x onerror="alert(1)"><script>alert(2)</script>'
    const agent = await parley.agent(attack)
    const { human, space, page } = await openSpace([agent.id])
    await parley.send(human, space.id, attack)
    await page.locator('.message .text').getByText(attack).waitFor(PATIENCE)
    await page.getByLabel('Agents').getByText(attack).waitFor(PATIENCE)
    expect(await page.locator('main img, main script').count()).toBe(0)
    expect(faults).toEqual([])
    await page.close()
  }, 90_000)

  test('a tool that waits for an answer gets what is typed, once it is JSON', async () => {
    const inputSchema = { type: 'object' }
    const tool = { name: 'ask_approval', description: 'Asks.', inputSchema, execution: 'SPACE' as const }
    const agent = await parley.agent('Asker', { tools: [tool] })
    const asks = [{ toolCall: 'ask_approval', input: { question: 'A barbecue?' } }]
    parley.models.script(forAgent('Asker', steps(asks, [{ text: 'ok' }])))
    const { human, space, page } = await openSpace([agent.id])
    const { runs } = await parley.send(human, space.id, 'Ask me')
    const call = page.getByRole('region', { name: 'Tool call ask_approval' })
    await call.getByText('A barbecue?').waitFor(PATIENCE)
    await page.getByLabel('Agents').getByText('Asker waits for an answer').waitFor(PATIENCE)
    await call.getByLabel('Result, as JSON').fill('yes')
    await call.getByRole('button', { name: 'Submit' }).click()
    await page.getByRole('alert').getByText('must be JSON').waitFor(PATIENCE)
    await call.getByLabel('Result, as JSON').fill('{ "approved": "by Ada" }')
    await call.getByRole('button', { name: 'Submit' }).click()
    await call.getByText('done').waitFor(PATIENCE)
    await call.getByText('by Ada').waitFor(PATIENCE)
    await parley.runWhen(runs[0]?.id ?? '', 'COMPLETED')
    await page.close()
  }, 90_000)

  test('a person makes a space with an agent, speaks to it by name, and stops it', async () => {
    await parley.agent('Slow')
    parley.models.script(forAgent('Slow', steps([{ gate: new Promise(() => {}) }])))
    const { page } = await openSpace()
    await page.getByText('New space').click()
    const fields = page.getByRole('form', { name: 'New space' })
    await fields.getByLabel('Name').fill('Cellar')
    await fields.getByLabel('Slow').check(PATIENCE)
    await fields.getByRole('button', { name: 'Create' }).click()
    await page.getByRole('heading', { name: 'Cellar' }).waitFor(PATIENCE)
    await page.getByLabel('To', { exact: true }).selectOption({ label: 'Slow' }, PATIENCE)
    await page.getByLabel('Message', { exact: true }).fill('Think.')
    await page.getByLabel('Message', { exact: true }).press('Enter')
    await page.locator('.message header').getByText('to Slow').waitFor(PATIENCE)
    await page.getByLabel('Agents').getByText('Slow is at work').waitFor(PATIENCE)
    await page.getByRole('button', { name: 'Stop Slow' }).click(PATIENCE)
    await page.getByLabel('Agents').getByText('Slow is idle').waitFor(PATIENCE)
    await page.close()
  }, 90_000)

  test('the list of spaces counts what is unread until one looks at it, and loses a space that one leaves', async () => {
    const { human, page } = await openSpace()
    const bob = await parley.human('Bob')
    const { spaces, members } = parley.app.api
    const memberIds = [human.id, bob.id]
    const space = await spaces.create(parley.admin, { name: 'Attic', routing: 'BROADCAST', memberIds })
    const attic = page.getByRole('navigation', { name: 'Spaces' }).getByRole('button', { name: 'Attic' })
    await attic.waitFor(PATIENCE)
    await parley.send(bob, space.id, 'Are you there?')
    await attic.getByLabel('1 unread').waitFor(PATIENCE)
    await attic.click()
    await page.locator('.text').getByText('Are you there?').waitFor(PATIENCE)
    await attic.getByLabel('1 unread').waitFor({ ...PATIENCE, state: 'detached' })
    await members.remove(parley.admin, { spaceId: space.id, entityId: human.id })
    await attic.waitFor({ ...PATIENCE, state: 'detached' })
    await page.close()
  }, 90_000)

  test('after a lost connection it goes on where it was: nothing is missing, nothing is there twice', async () => {
    const sockets: { route: WebSocketRoute; sent: string[] }[] = []
    let mayConnect = true
    const { human, space, page } = await openSpace([], (opened) =>
      opened.routeWebSocket(/\/graphql$/, (route) => {
        if (!mayConnect) return void route.close({ code: 1013 })
        const socket = { route, sent: [] as string[] }
        sockets.push(socket)
        const server = route.connectToServer()
        route.onMessage((message) => {
          socket.sent.push(String(message))
          server.send(message)
        })
      }),
    )
    await parley.send(human, space.id, 'one')
    await page.locator('.text').getByText('one').waitFor(PATIENCE)
    mayConnect = false
    await sockets[0]?.route.close({ code: 1012 })
    await page.getByRole('status').getByText('Connection lost').waitFor(PATIENCE)
    await parley.send(human, space.id, 'two')
    mayConnect = true
    await page.locator('.text').getByText('two').waitFor(PATIENCE)
    await parley.send(human, space.id, 'three')
    await page.locator('.text').getByText('three').waitFor(PATIENCE)
    expect(await page.locator('.message .text').allTextContents()).toEqual(['one', 'two', 'three'])
    const resumed = sockets.at(-1)?.sent.find((message) => message.includes('spaceMessages')) ?? ''
    expect(JSON.parse(resumed).payload.variables.after).toEqual(expect.any(String))
    await page.close()
  }, 90_000)

  test('what cannot be looked up for a while is shown as soon as it can, and nothing is said of it', async () => {
    const { human, space, page } = await openSpace()
    const { reading } = parley.app.api
    const { getMany } = reading
    // More often than the server tries: the subscription ends, and is resumed.
    let failures = 4
    reading.getMany = async (ids) => {
      failures -= 1
      if (failures >= 0) throw new Error('the database is away')
      return getMany(ids)
    }
    await parley.send(human, space.id, 'in the dark')
    await parley.send(human, space.id, 'in the light')
    await page.getByText('in the light').waitFor(PATIENCE)
    reading.getMany = getMany
    expect(await page.locator('.message .text').allTextContents()).toEqual(['in the dark', 'in the light'])
    expect(await page.getByText('no longer live').count()).toBe(0)
    expect(faults).toEqual([])
    await page.close()
  })

  test("a service's token is told that there is nothing for it here", async () => {
    const service = {
      scope: 'SERVICE' as const,
      id: 'acc_x',
      tokenId: null,
      expiresAt: null,
      name: 'ci',
      agentIds: null,
    }
    const page = await open()
    await signIn(page, await parley.tokenOf(service))
    await page.getByText('You are the service ci').waitFor(PATIENCE)
    await page.getByText('it has no spaces to show').waitFor(PATIENCE)
    expect(faults).toEqual([])
    await page.close()
  }, 90_000)

  test('a token that is no good is said in plain words, and one may try another', async () => {
    const page = await open()
    await signIn(page, 'wrong')
    await page.getByRole('alert').getByText('The server does not know this token.').waitFor(PATIENCE)
    await signIn(page, await parley.tokenOf(await parley.human('Ada')))
    await page.getByText('You are Ada').waitFor(PATIENCE)
    expect(await page.evaluate('JSON.stringify(localStorage) + document.cookie + location.href')).toBe(
      `{}${parley.origin}/`,
    )
    await page.close()
  }, 90_000)
})
