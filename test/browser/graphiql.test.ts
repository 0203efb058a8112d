import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasBrowserFor, openBrowser } from '../support/browser.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const hasBrowser = hasBrowserFor("GraphiQL's test")

describe.skipIf(!hasBrowser)('GraphiQL in a browser without internet', () => {
  let parley: TestServer
  let browser: Browser

  beforeAll(async () => {
    parley = await startTestServer()
    browser = await openBrowser()
  }, 60_000)
  afterAll(() => parley?.close())

  test('a live subscription shows posts and a streaming answer, with the token from the headers pane', async () => {
    const human = await parley.human('Ada')
    const agent = await parley.agent('Echo')
    const space = await parley.space(human, [agent.id])
    const { promise: seen, resolve: goOn } = Promise.withResolvers<void>()
    const [half, rest] = ['The first half is here', ' and so is the second.']
    const chunks = ['{"text":"', half, seen, `${rest}"}`]
    parley.models.script(forAgent('Echo', steps([{ toolCall: 'send_message', chunks }], [{ text: 'ok' }])))
    const token = await parley.tokenOf(human)
    const page = await browser.newPage()
    const elsewhere: string[] = []
    page.on('request', (request) => {
      const { host, protocol } = new URL(request.url())
      if (protocol.startsWith('http') && host !== new URL(parley.origin).host) elsewhere.push(request.url())
    })
    const refused: string[] = []
    page.on('response', (response) => response.status() >= 400 && refused.push(response.url()))
    await page.goto(`${parley.origin}/graphql`)
    const editors = page.locator('.monaco-editor')
    await editors.first().waitFor({ timeout: 30_000 })

    /** Replaces the content of an editor pane. */
    const write = async (editor: ReturnType<typeof page.locator>, text: string) => {
      await editor.click()
      await page.keyboard.press('Control+A')
      await page.keyboard.press('Delete')
      await page.keyboard.insertText(text)
    }
    await page.getByRole('button', { name: 'Headers', exact: true }).click()
    await write(page.locator('.graphiql-editor-tool .monaco-editor:visible'), `{ "Authorization": "Bearer ${token}" }`)
    const subscription = `subscription Live { spaceMessages(spaceId: "${space.id}") { __typename ... on MessagePosted { message { text } } ... on MessageTextDelta { delta } ... on MessageFinished { message { text } } } }`
    await write(page.locator('.graphiql-query-editor .monaco-editor').first(), subscription)
    await page.getByRole('tab', { name: 'Live' }).waitFor()
    await page.keyboard.press('Control+Enter')

    const result = page.locator('.graphiql-response, .result-window').first()
    await result.getByText('SpaceSnapshot').waitFor({ timeout: 20_000 })
    const { runs } = await parley.send(human, space.id, 'Hello from outside')
    await result.getByText('MessageTextDelta').waitFor({ timeout: 20_000 })
    await result.getByText(half).waitFor({ timeout: 20_000 })
    if (process.env['SCREENSHOT']) await page.screenshot({ path: process.env['SCREENSHOT'] })
    goOn()
    await result.getByText(`${half}${rest}`).waitFor({ timeout: 20_000 })
    expect(await parley.run(runs[0]?.id ?? '')).toMatchObject({ agentId: agent.id })
    // The page requested the schema once there was a token. A new tab has the token too, and nothing is stored.
    await page
      .getByRole('button', { name: /Documentation/ })
      .first()
      .click()
    await page.locator('.graphiql-doc-explorer').getByText('Root Types').waitFor({ timeout: 20_000 })
    await page.getByRole('button', { name: /Stop/ }).click()
    await page.getByRole('button', { name: /New tab/ }).click()
    await write(
      page.locator('.graphiql-query-editor .monaco-editor').first(),
      'query Who { viewer { human { name } } }',
    )
    await page.getByRole('tab', { name: 'Who' }).waitFor()
    await page.keyboard.press('Control+Enter')
    await result.getByText('Ada', { exact: false }).first().waitFor({ timeout: 20_000 })
    expect(await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])')).not.toContain(token)
    expect([elsewhere, refused]).toEqual([[], []])
    await page.close()
  }, 90_000)

  test('a person who is signed in to the console needs no token', async () => {
    const context = await browser.newContext()
    const page = await context.newPage()
    await page.goto(`${parley.origin}/graphql`)
    await page.getByText('Not signed in: enter a token').waitFor({ timeout: 30_000 })
    await page.goto(parley.origin)
    await page.getByLabel('Token').fill(await parley.tokenOf(await parley.human('Bob')))
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.getByText('You are Bob').waitFor({ timeout: 30_000 })
    await page.goto(`${parley.origin}/graphql`)
    await page.getByText('You are signed in as Bob.').waitFor({ timeout: 30_000 })
    await page.locator('.graphiql-query-editor .monaco-editor').first().click({ timeout: 30_000 })
    // The second visit opens no second tab.
    expect(await page.getByRole('tab').count()).toBe(1)
    await page.keyboard.press('Control+Enter')
    await page.locator('.graphiql-response, .result-window').getByText('HUMAN').waitFor({ timeout: 20_000 })
    if (process.env['SCREENSHOT']) await page.screenshot({ path: `${process.env['SCREENSHOT']}.signed-in.png` })

    // A link from somebody else can contain a mutation: it runs with the session only if the person confirms.
    const questions: string[] = []
    page.on('dialog', (dialog) => {
      questions.push(dialog.message())
      void dialog.dismiss()
    })
    const mutation = 'mutation { createSpace(input: { name: "Planted" }) { __typename } }'
    await page.goto(`${parley.origin}/graphql?query=${encodeURIComponent(mutation)}`)
    await page.getByText('You are signed in as Bob.').waitFor({ timeout: 30_000 })
    await page.locator('.graphiql-query-editor .monaco-editor').first().click({ timeout: 30_000 })
    await page.keyboard.press('Control+Enter')
    await page.locator('.graphiql-response, .result-window').getByText('Not sent.').waitFor({ timeout: 20_000 })
    expect(questions).toEqual([expect.stringContaining('contained a query')])
    expect(await parley.app.platform.db.prisma.space.count({ where: { name: 'Planted' } })).toBe(0)
    await context.close()
  }, 90_000)

  test('the operator, whose token the console keeps in the browser tab, needs no token either', async () => {
    const token = await parley.tokenOf(parley.admin)
    const context = await browser.newContext()
    const page = await context.newPage()
    await page.goto(parley.origin)
    await page.getByLabel('Token').fill(token)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.getByText('You are the operator').waitFor({ timeout: 30_000 })
    await page.goto(`${parley.origin}/graphql`)
    await page.getByText('You are signed in as the operator.').waitFor({ timeout: 30_000 })
    await page.locator('.graphiql-query-editor .monaco-editor').first().click({ timeout: 30_000 })
    await page.keyboard.press('Control+Enter')
    await page.locator('.graphiql-response, .result-window').getByText('ADMIN').waitFor({ timeout: 20_000 })
    expect(await page.evaluate('JSON.stringify({ ...localStorage })')).not.toContain(token)

    // A link with a query asks first, as with the session cookie.
    const questions: string[] = []
    page.on('dialog', (dialog) => {
      questions.push(dialog.message())
      void dialog.dismiss()
    })
    await page.goto(`${parley.origin}/graphql?query=${encodeURIComponent('mutation { __typename }')}`)
    await page.getByText('You are signed in as the operator.').waitFor({ timeout: 30_000 })
    await page.locator('.graphiql-query-editor .monaco-editor').first().click({ timeout: 30_000 })
    await page.keyboard.press('Control+Enter')
    await page.locator('.graphiql-response, .result-window').getByText('Not sent.').waitFor({ timeout: 20_000 })
    expect(questions).toEqual([expect.stringContaining('contained a query')])
    await context.close()
  }, 90_000)
})
