import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'

const hasBrowser = hasBrowserFor('the test of versions')

describe.skipIf(!hasBrowser)('versions of an agent in the console', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  test('a change is listed with its note and difference; a draft is kept, published, and undone by restoring the earlier version', async () => {
    const { human, agent, space } = await parley.room('Iris')
    parley.models.script(forAgent(agent.name, steps([{ text: 'ok' }])))
    const { runs } = await parley.send(human, space.id, 'Hello?')
    await parley.runWhen(runs[0]?.id ?? '', 'COMPLETED')
    const { page, violations } = await openAs(parley.admin, `/agents/${agent.id}/settings`)
    const form = page.getByRole('form', { name: 'Settings' })
    await form.getByLabel('Instructions').fill('You greet people.', PATIENCE)
    await form.getByLabel('Note for the version').fill('Politer')
    await form.getByRole('button', { name: 'Save' }).click()
    await form.getByText('Saved.').waitFor(PATIENCE)
    await form.getByLabel('Instructions').fill('You greet people twice.')
    await form.getByLabel('Note for the version').fill('Politer still')
    await form.getByLabel('Keep as a draft').check()
    await form.getByRole('button', { name: 'Save' }).click()
    await form.getByText('Saved as a draft.').waitFor(PATIENCE)
    // A second change of the draft keeps the first one.
    await form.getByLabel('Description').fill('Greets.')
    await form.getByRole('button', { name: 'Save' }).click()
    await form.getByText('Saved as a draft.').waitFor(PATIENCE)

    await page.getByRole('tab', { name: 'Versions' }).click()
    const draft = page.getByRole('region', { name: 'Draft' })
    await draft.locator('.added').getByText('You greet people twice.').waitFor(PATIENCE)
    await draft.locator('.added').getByText('Greets.').waitFor(PATIENCE)
    const versions = page.getByRole('region', { name: 'Versions' }).getByRole('listitem')
    await versions.nth(1).waitFor(PATIENCE)
    expect(await versions.locator('b').allTextContents()).toEqual(['Version 2', 'Version 1'])
    await versions.first().getByText('Politer', { exact: true }).waitFor(PATIENCE)
    await versions.first().getByText('Changes from the previous version').click()
    await versions.first().locator('.added').getByText('You greet people.').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    await draft.getByRole('button', { name: 'Publish' }).click()
    await draft.waitFor({ ...PATIENCE, state: 'detached' })
    await versions.nth(2).waitFor(PATIENCE)

    await page.getByRole('button', { name: 'Restore version 1' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Restore', exact: true }).click()
    await versions.first().getByText('Version 4').waitFor(PATIENCE)
    await versions.first().getByText('current').waitFor(PATIENCE)
    await page.evaluate(`history.pushState(null, '', '/runs/${runs[0]?.id}')`)
    await page.getByText('1, 3 changes since').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
  }, 90_000)
})
