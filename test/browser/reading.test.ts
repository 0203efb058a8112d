import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const hasBrowser = hasBrowserFor('the test of unread messages')
const UNREAD = `query ($id: ID!) { space(id: $id) { unreadCount } }`

describe.skipIf(!hasBrowser)('read positions and drafts', () => {
  let parley: TestServer
  const { open, openAs } = playConsole((started) => {
    parley = started
  })

  test('a draft is kept; unread messages are counted until they are read; a removed member gets a notice of the removal', async () => {
    const [human, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    const garden = await parley.space(human, [], { name: 'Garden' })
    const { spaces, members } = parley.app.domain
    const memberIds = [human.id, bob.id]
    const attic = await spaces.create(parley.admin, { name: 'Attic', routing: 'BROADCAST', memberIds })
    const { page, message } = await openAs(human, `/spaces/${garden.id}`)
    await page.getByRole('heading', { name: 'Garden', exact: true }).waitFor(PATIENCE)
    await page.getByRole('textbox', { name: 'Message' }).fill('Half a thou')
    const line = page.getByRole('link', { name: /^Attic/ })
    await line.waitFor(PATIENCE)
    await parley.send(bob, attic.id, 'Are you there?')
    await line.getByLabel('1 unread').waitFor(PATIENCE)
    await page.waitForFunction(() => document.title.startsWith('(1)'))
    await line.click()
    await message('Are you there?').waitFor(PATIENCE)
    await line.getByLabel('1 unread').waitFor({ ...PATIENCE, state: 'detached' })
    await page.goBack()
    await page.getByRole('heading', { name: 'Garden', exact: true }).waitFor(PATIENCE)
    expect(await page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('Half a thou')
    await line.click()
    await message('Are you there?').waitFor(PATIENCE)
    await members.remove(parley.admin, { spaceId: attic.id, entityId: human.id })
    await page.getByRole('heading', { name: 'You cannot see this space' }).waitFor(PATIENCE)
    await line.waitFor({ ...PATIENCE, state: 'detached' })
  }, 90_000)

  test('leaving a space, and removing somebody, asks for confirmation', async () => {
    const [human, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    const memberIds = [human.id, bob.id]
    const cellar = await parley.app.domain.spaces.create(parley.admin, {
      name: 'Cellar',
      routing: 'BROADCAST',
      memberIds,
    })
    const { page, violations } = await openAs(human, `/spaces/${cellar.id}`)
    const isMember = () =>
      parley.app.platform.db.prisma.membership.count({ where: { spaceId: cellar.id, entityId: human.id } })
    await page.getByRole('button', { name: /members, details/ }).click(PATIENCE)
    await page.getByRole('button', { name: 'Remove Bob' }).click(PATIENCE)
    const removal = page.getByRole('dialog', { name: 'Remove Bob?' })
    await removal.getByText('All join links of this space stop working.').waitFor(PATIENCE)
    await removal.getByRole('button', { name: 'Remove', exact: true }).click()
    await page.getByRole('button', { name: 'Remove Bob' }).waitFor({ ...PATIENCE, state: 'detached' })
    const leave = page.getByRole('button', { name: 'Leave this space…' })
    const question = page.getByRole('dialog', { name: 'Leave Cellar?' })
    await leave.click(PATIENCE)
    await question.getByText('a member or an admin has to add you again').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    await question.getByRole('button', { name: 'Back' }).click()
    await question.waitFor({ ...PATIENCE, state: 'hidden' })
    expect(await isMember()).toBe(1)
    await leave.click()
    await question.getByRole('button', { name: 'Leave', exact: true }).click(PATIENCE)
    await page.getByRole('link', { name: 'Cellar' }).waitFor({ ...PATIENCE, state: 'detached' })
    await until('she is no longer a member', async () => (await isMember()) === 0)
  }, 90_000)

  test('a pending call is shown as a browser notification with a link, if the person allowed notifications', async () => {
    const { human, agent, space } = await parley.room('Asker', {
      tools: [{ name: 'ask', description: 'Asks.', inputSchema: { type: 'object' }, execution: 'SPACE' as const }],
    })
    parley.models.script(forAgent(agent.name, steps([{ toolCall: 'ask', input: {} }], [{ text: 'ok' }])))
    const { page, signIn } = await open({ path: `/spaces/${space.id}` })
    // Headless browsers display no notifications, and their windows are never hidden.
    await page.addInitScript(`
      window.notes = []
      window.Notification = class { static permission = 'granted'; constructor(title, { body }) { Object.assign(this, { title, body }); notes.push(this) } }
      Object.defineProperty(document, 'hidden', { get: () => true })`)
    await page.reload()
    await signIn(await parley.tokenOf(human))
    await page.getByRole('heading', { name: space.name, exact: true }).waitFor(PATIENCE)
    await parley.send(human, space.id, 'Ask me.')
    await until('the browser notifies', async () => (await page.evaluate('notes.length')) === 1)
    expect(await page.evaluate('[notes[0].title, notes[0].body]')).toEqual([
      'Asker waits for you',
      `ask in ${space.name}`,
    ])
    expect(await page.title()).toContain('●')
    await page.evaluate('notes[0].onclick()')
    await page.getByRole('heading', { name: 'Waiting for you' }).waitFor(PATIENCE)
  }, 90_000)

  test('the text above a streaming answer stays readable; a screen reader announces a message once, when it is complete', async () => {
    const { human, agent, space } = await parley.room('Slow')
    const gate = Promise.withResolvers<void>()
    const chunks = ['{"text":"', 'The first half', gate.promise, ' and the second."}']
    parley.models.script(forAgent(agent.name, steps([{ toolCall: 'send_message', chunks }], [{ text: 'ok' }])))
    const { page, message } = await openAs(human, `/spaces/${space.id}`)
    await page.getByRole('heading', { name: space.name, exact: true }).waitFor(PATIENCE)
    const reader = await parley.clientOf(human)
    const bob = await parley.human('Bob')
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: bob.id })
    await parley.send(bob, space.id, 'Soup?')
    await message('The first half').waitFor(PATIENCE)
    await until('the text before it is read aloud', async () => {
      const { data } = await reader.ask<{ space: { unreadCount: number } }>(UNREAD, { id: space.id })
      return (data?.space.unreadCount ?? 2) < 2
    })
    const log = page.getByRole('log', { name: 'New messages' })
    expect(await log.textContent()).toBe('Bob: Soup?')
    gate.resolve()
    await log.getByText('Slow: The first half and the second.').waitFor({ ...PATIENCE, state: 'attached' })
  }, 90_000)

  test('visible messages are marked as read, even if more arrive quickly', async () => {
    const [human, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    const memberIds = [human.id, bob.id]
    const attic = await parley.app.domain.spaces.create(parley.admin, {
      name: 'Attic',
      routing: 'BROADCAST',
      memberIds,
    })
    const { page } = await openAs(human, `/spaces/${attic.id}`)
    await page.getByRole('heading', { name: 'Attic', exact: true }).waitFor(PATIENCE)
    const client = await parley.clientOf(human)
    let said = 0
    async function isMostlyRead(): Promise<boolean> {
      said += 1
      await parley.send(bob, attic.id, `Word ${said}.`)
      const { data } = await client.ask<{ space: { unreadCount: number } }>(UNREAD, { id: attic.id })
      return said > 20 && (data?.space.unreadCount ?? said) < said / 2
    }
    await until('most of the text is read aloud while it streams', isMostlyRead, { timeoutMs: 60_000, intervalMs: 50 })
  }, 120_000)
})
