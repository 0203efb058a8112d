import { readFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'

const hasBrowser = hasBrowserFor('the test of copies and why')

describe.skipIf(!hasBrowser)('why and copies in the console', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  test('the explanation of a message shows, also to people, the rule by which it woke each agent or did not', async () => {
    const human = await parley.human('Ada')
    const [iris, tom] = [await parley.agent('Iris'), await parley.agent('Tom')]
    parley.models.script(() => [{ text: 'ok' }])
    const memberIds = [iris.id, tom.id]
    const { spaces, sending } = parley.app.domain
    const input = { name: 'Garden', routing: 'BROADCAST' as const, mentionNarrows: true, memberIds }
    const space = await spaces.create(human, input)
    const { message, runs } = await sending.send(human, { spaceId: space.id, text: 'Hi.', mentionedIds: [iris.id] })
    await parley.runWhen(runs[0]?.id ?? '', 'COMPLETED')
    for (const viewer of [human, parley.admin]) {
      const { page, violations } = await openAs(viewer, `/why/${message.id}`)
      const agents = page.getByRole('region', { name: 'Agents' }).getByRole('listitem')
      const of = (name: string) => agents.filter({ hasText: name })
      await of('Iris').getByText('This agent was mentioned.').waitFor(PATIENCE)
      await of('Tom').getByText('Tom was not woken').waitFor(PATIENCE)
      await of('Tom').getByText('unless it mentions some: then it wakes only those.').waitFor(PATIENCE)
      expect(await violations()).toEqual([])
    }
  }, 60_000)

  test('a message is explained by a path of links, which can be exported; its space is copied, and its run repeated', async () => {
    const { human, agent, space } = await parley.room('Iris')
    parley.models.script(forAgent(agent.name, steps([{ toolCall: 'send_message', input: { text: 'Good day.' } }])))
    const { runs } = await parley.send(human, space.id, 'Hello?')
    const runId = runs[0]?.id ?? ''
    await parley.runWhen(runId, 'COMPLETED')
    const { page, violations } = await openAs(parley.admin, `/spaces/${space.id}`)
    const answer = page.getByRole('article').filter({ hasText: 'Good day.' })
    await answer.hover(PATIENCE)
    await answer.getByRole('button', { name: 'Message actions' }).click()
    await page.getByRole('menuitem', { name: 'Why?' }).click()
    const path = page.getByRole('list', { name: 'Path' }).getByRole('listitem')
    await path.first().getByText('Good day.').waitFor(PATIENCE)
    await page.getByRole('heading', { name: 'Why Iris answered Husam’s message', level: 1 }).waitFor(PATIENCE)
    // The path goes from the answer through the run to its trigger. The other causes are folded.
    await path.nth(1).getByText('Iris called Send message').waitFor(PATIENCE)
    await path.nth(2).getByText('Step 1').waitFor(PATIENCE)
    await path.nth(3).getByText('Iris answered Husam’s message').waitFor(PATIENCE)
    await path.nth(4).getByText('Hello?').waitFor(PATIENCE)
    await path.nth(5).getByText('Husam').waitFor(PATIENCE)
    await page.getByText(/^Iris answered Husam’s message “Hello\?” \(.*\)\.$/).waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    const downloading = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Download (PROV-JSON)' }).click()
    const exported = JSON.parse(await readFile(await (await downloading).path(), 'utf8'))
    expect(Object.keys(exported.activity)).toContain(`parley:${runId}`)
    expect(Object.keys(exported.agent)).toEqual([`parley:${human.id}`])
    await path.nth(3).getByText('Also caused by').click()
    await path.nth(3).getByText('Version 1 of Iris').waitFor(PATIENCE)
    const person = await openAs(human, new URL(page.url()).pathname)
    const seen = person.page.getByRole('list', { name: 'Path' }).getByRole('listitem')
    await seen.filter({ hasText: 'The steps of the run, which only admins see.' }).waitFor(PATIENCE)
    await seen.filter({ hasText: 'The settings of the agent, which only admins can see.' }).waitFor(PATIENCE)
    await seen.last().getByText('Husam', { exact: true }).waitFor(PATIENCE)

    await page.evaluate(`history.pushState(null, '', '/runs/${runId}')`)
    await page.getByRole('button', { name: 'Rerun in a copy' }).click(PATIENCE)
    const form = page.getByRole('form', { name: 'Rerun in a copy' })
    await form.getByLabel('Instructions').fill('You are brief.', PATIENCE)
    expect(await form.getByLabel('Model').inputValue()).not.toBe('')
    await form.getByRole('button', { name: 'Rerun', exact: true }).click()
    await page.waitForURL((url) => /\/runs\/run_/.test(url.pathname) && !url.pathname.endsWith(runId), PATIENCE)
    await page.getByText('the original run, from step 1').waitFor(PATIENCE)
    const result = page.getByRole('region', { name: 'Result' })
    await result.getByRole('heading', { name: 'Before' }).waitFor(PATIENCE)
    await expect.poll(() => result.getByText('Good day.').count(), PATIENCE).toBe(2)
    expect(await violations()).toEqual([])

    await page.evaluate(`history.pushState(null, '', '/spaces/${space.id}')`)
    await page.getByRole('button', { name: 'About this space' }).click(PATIENCE)
    await page.getByRole('heading', { name: 'Copy this space' }).click(PATIENCE)
    const copying = page.getByRole('form', { name: 'Copy this space' })
    await copying.getByLabel('Name of the copy').fill('Sandbox', PATIENCE)
    await copying.getByRole('button', { name: 'Copy this space' }).click()
    await page.getByRole('heading', { name: 'Sandbox', level: 1 }).waitFor(PATIENCE)
    // Agents with equal names share a line when members are chosen.
    await page.getByRole('button', { name: 'New space' }).click()
    await page
      .getByRole('dialog', { name: 'New space' })
      .getByRole('button', { name: /^\d more with this name$/ })
      .waitFor(PATIENCE)
    await page.keyboard.press('Escape')
    await page.getByText(/^Copy of .+, made on .+\. Its agents are copies too\.$/).waitFor(PATIENCE)
    await page.getByRole('article').filter({ hasText: 'Good day.' }).waitFor(PATIENCE)
    expect(await violations()).toEqual([])
  }, 90_000)
})
