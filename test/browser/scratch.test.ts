import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import { forAgent, type ModelRequest, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'

const hasBrowser = hasBrowserFor("the scratch space's test")
const said = (text: string) => steps([{ toolCall: 'send_message', input: { text } }], [{ text: 'ok' }])

describe.skipIf(!hasBrowser)('a scratch space beside an agent’s settings', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  const openSettings = (agentId: string, size = {}) => openAs(parley.admin, `/agents/${agentId}/settings`, size)
  const tryIt = (page: Page) => page.getByRole('region', { name: 'Try it' })
  const spacesOf = (agentId: string) =>
    parley.app.platform.db.prisma.space.count({
      where: { deletedAt: null, memberships: { some: { entityId: agentId } } },
    })

  test('an agent is tried, changed and tried again; the space can be found again, and emptied', async () => {
    const agent = await parley.agent('Iris')
    const isShort = ({ instructions }: ModelRequest) => instructions.includes('very briefly')
    parley.models.script(
      forAgent('Iris', (request) => said(isShort(request) ? 'Hi.' : 'A long and warm hello!')(request)),
    )
    const { page, message, say, violations } = await openSettings(agent.id)
    await tryIt(page).getByRole('button', { name: 'Talk to Iris' }).click(PATIENCE)
    await say('Hello?')
    await message('A long and warm hello!').waitFor(PATIENCE)
    await page.getByLabel('Instructions').fill('Answer very briefly.')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByText('Saved.').waitFor(PATIENCE)
    await say('And now?')
    await message(/^.*Hi\.$/).waitFor(PATIENCE)
    expect(await violations()).toEqual([])

    await page.reload()
    expect(await tryIt(page).getByLabel('Speak as').locator('option:checked').textContent(PATIENCE)).toBe('Tester')
    await tryIt(page).getByRole('button', { name: 'Talk to Iris' }).press('Enter')
    await message('A long and warm hello!').waitFor(PATIENCE)
    expect(await spacesOf(agent.id)).toBe(1)
    await tryIt(page).getByRole('button', { name: 'Start over' }).click()
    await tryIt(page).getByText('Write a message').waitFor(PATIENCE)
    expect(await spacesOf(agent.id)).toBe(1)
    await page.getByText('You are the operator').waitFor(PATIENCE)
  }, 90_000)

  test('its pending calls can be answered there, as the selected person, on a phone too', async () => {
    const bob = await parley.human('Bob')
    const approval = { name: 'ask_approval', description: 'Asks.', inputSchema: { type: 'object' } }
    const agent = await parley.agent('Asker', { tools: [{ ...approval, execution: 'SPACE' as const }] })
    const own = await parley.space(bob, [agent.id], { name: 'Bob’s own' })
    const asks = [{ toolCall: 'ask_approval', input: { question: 'A barbecue?' } }]
    parley.models.script(forAgent('Asker', steps(asks, [{ text: 'ok' }])))
    const { page, say, violations } = await openSettings(agent.id, { width: 360, height: 740 })
    await tryIt(page).getByLabel('Speak as').selectOption('Bob', PATIENCE)
    await tryIt(page).getByRole('button', { name: 'Talk to Asker' }).click()
    await say('Ask me.')
    const call = tryIt(page).getByRole('region', { name: 'Tool call ask_approval' })
    await call.getByRole('button', { name: 'Approve' }).click(PATIENCE)
    await call.locator('.status').getByText('approved').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360)
    const scratch = await tryIt(page).getByRole('link', { name: 'Open the space' }).getAttribute('href')
    expect(scratch).not.toBe(`/spaces/${own.id}`)
    expect(await parley.messages(own.id)).toEqual([])
  }, 90_000)
})
