import { describe, expect, test } from 'vitest'
import { FIRE_PLAN } from '../../src/jobs/queues.ts'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import type { TestServer } from '../support/served.ts'

const hasBrowser = hasBrowserFor("the audit log's test")
const CREATE = `mutation ($name: String!) { createAgent(input: { name: $name, instructions: "You help." }) {
  __typename ... on CreateAgentPayload { agent { id } } } }`
const RENAME = 'mutation ($input: UpdateAgentInput!) { updateAgent(input: $input) { __typename } }'
const CONFIDE =
  'mutation ($id: ID!) { createSpace(input: { name: "Cellar", memberIds: [$id], confidential: true }) { __typename } }'

describe.skipIf(!hasBrowser)('the audit log in the console', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  /** The operator creates several agents. Eve then creates a space with the last agent, and is refused when she renames it. */
  async function play(agents: number) {
    const admin = await parley.clientOf(parley.admin)
    let id = ''
    for (let at = 1; at <= agents; at++) {
      const { data } = await admin.ask<{ createAgent: { agent: { id: string } } }>(CREATE, { name: `Agent ${at}` })
      id = data?.createAgent.agent.id ?? ''
    }
    const eve = await parley.clientOf(await parley.human('Eve'))
    await eve.ask(CONFIDE, { id })
    await eve.ask(RENAME, { input: { id, name: 'Mine now', maxSteps: 3 } })
    return { id }
  }

  test('lists who did what to whom, marks refused actions, and is paginated', async () => {
    const { id } = await play(60)
    const { page, violations } = await openAs(parley.admin, '/audit')
    const rows = page.getByRole('main').getByRole('listitem')
    const refused = rows.filter({ hasText: /Eve tried to change .*\bname\b.* of the agent Agent 60/ })
    await refused.getByText('refused', { exact: true }).waitFor(PATIENCE)
    await refused.getByText('max steps: 3').waitFor(PATIENCE)
    await refused.getByText('Details').click()
    await refused.getByText('"maxSteps": 3').waitFor(PATIENCE)
    await rows.filter({ hasText: 'Eve created the space Cellar' }).getByText('confidential: yes').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    const first = rows.filter({ has: page.getByRole('link', { name: 'Agent 1', exact: true }) })
    expect([await rows.count(), await first.count()]).toEqual([50, 0])
    await page.getByRole('button', { name: 'Older entries' }).click()
    await first.waitFor(PATIENCE)

    await page.getByLabel('Action').selectOption('Changed an agent')
    await expect.poll(() => rows.count(), PATIENCE).toBe(1)
    await page.getByLabel('Action').selectOption('')
    await refused.getByRole('link', { name: 'Eve' }).click(PATIENCE)
    await expect.poll(() => page.getByLabel('Person').locator('option:checked').textContent(), PATIENCE).toBe('Eve')
    await rows.filter({ hasText: 'Eve created the space' }).waitFor(PATIENCE)
    expect(await rows.count()).toBe(2)
    await page.reload()
    await rows.filter({ hasText: 'Eve created the space' }).waitFor(PATIENCE)
    expect(await rows.count()).toBe(2)
    await page.getByLabel('To', { exact: true }).fill('2001-01-01')
    await page.getByText('No audit entries').waitFor(PATIENCE)
    await page.getByLabel('To', { exact: true }).fill('')
    await refused.getByRole('link', { name: 'Agent 60' }).press('Enter')
    await page.getByRole('heading', { name: 'Agent 60' }).waitFor(PATIENCE)
    expect(new URL(page.url()).pathname).toBe(`/agents/${id}`)
  }, 90_000)

  test('fits the screen of a phone; only admins have the page', async () => {
    await play(1)
    const { page, signIn, violations } = await openAs(parley.admin, '/audit', { width: 360, height: 740 })
    const sentence = page.getByText(/Eve tried to change .* of the agent/).first()
    await sentence.waitFor(PATIENCE)
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360)
    // The state and the time are below the sentence, not beside it.
    expect((await sentence.boundingBox())?.width).toBeGreaterThan(240)
    expect(await violations()).toEqual([])
    await page.getByRole('button', { name: 'Open the sidebar' }).click()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.goto(`${parley.origin}/audit`)
    await signIn(await parley.tokenOf(await parley.human('Bob')))
    await page.getByRole('heading', { name: 'Only admins can open this page' }).waitFor(PATIENCE)
  }, 90_000)

  test('lists failed jobs above the log, where they are retried or deleted', async () => {
    const { jobs, db } = parley.app.platform
    await parley.app.stopWorker(0)
    for (const planId of ['pln_1', 'pln_2']) {
      await db.transaction((tx) => jobs.enqueue(tx, FIRE_PLAN, [{ input: { planId } }]))
      const [job] = await jobs.claim(FIRE_PLAN, 1)
      await db.prisma.$executeRaw`UPDATE pgboss.job SET retry_count = retry_limit WHERE id = ${job?.id}::uuid`
      await jobs.fail(FIRE_PLAN, { ...job!, retryCount: job!.retryLimit }, new Error('No such model.'))
    }
    const { page, violations } = await openAs(parley.admin, '/audit')
    const failed = page.getByRole('region', { name: 'Failed jobs' })
    await failed.getByText('No such model.').first().waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    const of = (planId: string) => failed.getByRole('listitem').filter({ hasText: planId })
    await of('pln_1').getByRole('button', { name: 'Retry' }).click()
    await of('pln_1').waitFor({ ...PATIENCE, state: 'detached' })
    await of('pln_2').getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click(PATIENCE)
    await failed.waitFor({ ...PATIENCE, state: 'detached' })
    expect(await jobs.claim(FIRE_PLAN, 10)).toMatchObject([{ data: { planId: 'pln_1' } }])
  })
})
