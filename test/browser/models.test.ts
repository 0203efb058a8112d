import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import { type ModelServer, startModelServer } from '../support/model-server.ts'
import type { TestServer } from '../support/served.ts'

const hasBrowser = hasBrowserFor("the test of the models' page")
const KEY = 'sk-a-key-that-nobody-may-see'
const WITHIN_MS = 60_000

describe.skipIf(!hasBrowser)('models in the console', () => {
  let parley: TestServer
  let provider: ModelServer
  const { openAs } = playConsole((started) => {
    parley = started
  })
  beforeAll(async () => {
    provider = await startModelServer({ apiKey: KEY })
    provider.listed.models = ['large', 'tiny']
  })
  afterAll(() => provider?.close())

  test('from a model key to the first answer in 60 s without a restart', async () => {
    provider.script(({ toolNames }) => [
      { text: toolNames.length === 0 ? 'Hello, I am tiny.' : 'The first answer of a real model.' },
    ])
    const { page, violations, faults } = await openAs(parley.admin, '/models')
    const beginning = performance.now()
    await page.getByRole('button', { name: 'Add provider' }).click(PATIENCE)
    const form = page.getByRole('form', { name: 'Add provider' })
    await form.getByLabel('Provider').selectOption({ label: 'Another server' })
    await form.getByLabel('Name', { exact: true }).fill('mine')
    await form.getByLabel('Address').fill(provider.baseUrl)
    await form.getByLabel('API key').fill('sk-a-key-that-is-wrong')
    await form.getByRole('button', { name: 'Add' }).click()
    const card = page.getByRole('region', { name: 'mine' })
    await card.getByText('Not ready: Incorrect API key provided').waitFor(PATIENCE)

    await card.getByRole('button', { name: 'Change' }).click()
    const change = page.getByRole('form', { name: 'Change mine' })
    await change.getByLabel('API key').fill(KEY)
    await change.getByRole('button', { name: 'Save' }).click()
    await card.getByText('Ready.').waitFor(PATIENCE)
    await card.getByLabel('Model', { exact: true }).fill('tiny')
    await card.getByRole('button', { name: 'Test' }).click()
    await card.getByText('The model answered: Hello, I am tiny.').waitFor(PATIENCE)

    await page.getByRole('link', { name: 'Agents' }).click()
    await page.getByRole('button', { name: 'New agent' }).click(PATIENCE)
    const agent = page.getByRole('form', { name: 'New agent' })
    await agent.locator('datalist option[value="mine:tiny"]').waitFor({ ...PATIENCE, state: 'attached' })
    await agent.getByLabel('Name', { exact: true }).fill('Noor')
    await agent.getByLabel('Instructions').fill('You answer.')
    await agent.getByLabel('Model', { exact: true }).fill('mine:tiny')
    await agent.getByRole('button', { name: 'Create' }).click()
    await page.getByRole('heading', { name: 'Noor' }).waitFor(PATIENCE)

    const human = await parley.human('Ada')
    const id = page.url().split('/').at(-1) ?? ''
    const space = await parley.space(human, [id])
    const console = await openAs(human, `/spaces/${space.id}`)
    await console.say('Hello?')
    await console.message('The first answer of a real model.').waitFor(PATIENCE)
    expect(performance.now() - beginning).toBeLessThan(WITHIN_MS)

    await page.getByRole('link', { name: 'Models' }).click()
    await card.getByText('Ready.').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    expect(await page.content()).not.toContain(KEY)
    await card.getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('form', { name: 'Delete mine' }).getByRole('button', { name: 'Delete' }).click()
    await card.waitFor({ ...PATIENCE, state: 'detached' })
    expect(faults).toEqual([])
  }, 120_000)
})
