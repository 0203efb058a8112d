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
    const row = page.getByRole('region', { name: 'mine' })
    await row.getByText('Cannot be called: Incorrect API key provided').waitFor(PATIENCE)

    await row.getByRole('button', { name: 'Change mine' }).click()
    const change = page.getByRole('form', { name: 'Change mine' })
    await change.getByLabel('API key').fill(KEY)
    await change.getByRole('button', { name: 'Save' }).click()
    const ready = page.getByRole('region', { name: 'Ready', exact: true })
    await ready.getByText('2 models').waitFor(PATIENCE)
    await row.getByRole('button', { name: 'Test mine' }).click()
    const trial = row.getByRole('form', { name: 'Test a model from mine' })
    await trial.getByLabel('Model', { exact: true }).fill('tiny')
    await trial.getByRole('button', { name: 'Test this model' }).click()
    await row.getByText(/^tiny answered in [\d.]+ m?s: Hello, I am tiny\.$/).waitFor(PATIENCE)

    await page.getByRole('link', { name: 'Agents' }).click()
    await page.getByRole('button', { name: 'New agent' }).click(PATIENCE)
    const agent = page.getByRole('form', { name: 'New agent' })
    await agent.locator('datalist option[value="mine:tiny"]').waitFor({ ...PATIENCE, state: 'attached' })
    await agent.getByLabel('Name', { exact: true }).fill('Noor')
    await agent.getByLabel('Instructions').fill('You answer.')
    await agent.getByLabel('Model (optional)').fill('mine:tiny')
    await agent.getByLabel('Model (optional)').fill('nobody:large')
    await agent.getByText('No provider nobody is set up: runs with this model fail. See Models.').waitFor(PATIENCE)
    await agent.getByRole('button', { name: 'Create' }).click()
    await agent.getByText('or add its provider under Models').waitFor(PATIENCE)
    await agent.getByRole('button', { name: 'mine:tiny' }).click()
    expect(await agent.getByText('No provider nobody').count()).toBe(0)
    await agent.getByRole('button', { name: 'Create' }).click()
    await page.getByRole('heading', { name: 'Noor' }).waitFor(PATIENCE)

    const human = await parley.human('Ada')
    const id = new URL(page.url()).pathname.split('/')[2] ?? ''
    const space = await parley.space(human, [id])
    const console = await openAs(human, `/spaces/${space.id}`)
    await console.say('Hello?')
    await console.message('The first answer of a real model.').waitFor(PATIENCE)
    expect(performance.now() - beginning).toBeLessThan(WITHIN_MS)

    await page.getByRole('link', { name: 'Models' }).click()
    await row.getByText('used by Noor').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    expect(await page.content()).not.toContain(KEY)
    await row.getByRole('button', { name: 'Delete mine' }).click()
    await page.getByRole('form', { name: 'Delete mine' }).getByRole('button', { name: 'Delete' }).click()
    await row.waitFor({ ...PATIENCE, state: 'detached' })
    expect(faults).toEqual([])
  }, 120_000)

  test('ready providers come first, with the models that agents use; a test call shows what happened', async () => {
    provider.script(() => [{ text: 'Hello, I am small.' }])
    const { modelProviders, agents } = parley.app.domain
    const added = (name: string, apiKey: string) =>
      modelProviders.save(parley.admin, { name, api: 'openai-chat', baseUrl: provider.baseUrl, apiKey })
    await added('good', KEY)
    await added('wrong', 'sk-a-key-that-is-wrong')
    const iris = await parley.agent('Iris', { model: 'good:small' })
    const tom = await parley.agent('Tom', { model: 'good:small' })
    await agents.update(parley.admin, { id: tom.id, fallbackModels: ['wrong:large'] })
    await added('mistral', KEY)
    await parley.agent('Una', { model: 'mistral:small' })
    await modelProviders.delete(parley.admin, 'mistral')
    const { page, violations } = await openAs(parley.admin, '/models', { width: 390, height: 800 })
    await page.getByText(new RegExp(`^New agents use .*${await modelProviders.defaultModel()}`)).waitFor(PATIENCE)
    const headings = page.getByRole('heading', { level: 2 })
    expect(await headings.allTextContents()).toEqual(['Ready', 'Not ready', 'Not set up'])
    const [good, wrong] = [page.getByRole('region', { name: 'good' }), page.getByRole('region', { name: 'wrong' })]
    await good.getByText('used by Tom and Iris').waitFor(PATIENCE)
    expect(await good.getByRole('link', { name: 'Iris' }).getAttribute('href')).toBe(`/agents/${iris.id}/settings`)
    await wrong.getByText('used by Tom (fallback)').waitFor(PATIENCE)

    await good.getByRole('button', { name: 'Test good' }).click()
    await good.getByText(/^small answered in .*: Hello, I am small\.$/).waitFor(PATIENCE)
    await wrong.getByRole('button', { name: 'Test wrong' }).click()
    await wrong
      .getByText(/^large did not answer: Incorrect API key provided.*The provider did not accept the key/)
      .waitFor(PATIENCE)
    expect(await violations()).toEqual([])

    const unset = page.getByRole('region', { name: 'Not set up' })
    await unset.getByText('Mistral needed by Una').waitFor(PATIENCE)
    await unset.getByRole('button', { name: 'Set up Mistral' }).click()
    const form = page.getByRole('form', { name: 'Set up Mistral' })
    expect(await form.getByLabel('Provider').count()).toBe(0)
    await form.getByLabel('API key').fill(KEY)
    await form.getByLabel('Address').fill(provider.baseUrl)
    await form.getByRole('button', { name: 'Set up' }).click()
    await page.getByRole('region', { name: 'mistral' }).getByText('used by Una').waitFor(PATIENCE)
    for (const name of ['good', 'wrong', 'mistral']) await modelProviders.delete(parley.admin, name)
  }, 60_000)
})
