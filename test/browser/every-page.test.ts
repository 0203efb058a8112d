import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { type ConsolePage, PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'

const hasBrowser = hasBrowserFor('the test of every page')
const APP = path.resolve(import.meta.dirname, '../../web/app.tsx')

const LONG =
  'Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichenverordnung the Second of the House of Long Names'
const MARKDOWN = `${'x'.repeat(400)}\n\nhttps://example.com/${'a'.repeat(200)}\n\n\`\`\`\n${'y'.repeat(400)}\n\`\`\`\n\n| ${'column | '.repeat(12)}\n|${'---|'.repeat(12)}\n| ${'value | '.repeat(12)}\n\n- [ ] open\n- [x] done\n\n> A quote`
const properties = {
  item: { type: 'string', description: 'What to order' },
  quantity: { type: 'integer', minimum: 1 },
  urgent: { type: 'boolean' },
  tags: { type: 'array', items: { type: 'string' } },
  address: { type: 'object', properties: { city: { type: 'string' } } },
}
const order = {
  name: 'order',
  description: 'Orders.',
  inputSchema: { type: 'object', properties, required: ['item'] },
  execution: 'INTERNAL' as const,
  visible: true,
  approval: { quorum: 1 },
}

/** Every path of the console, by its pattern in `app.tsx`, with a text that the loaded page contains. */
type Addresses = Record<string, { address: string; shows: (page: Page) => ReturnType<Page['getByText']> }[]>

describe.skipIf(!hasBrowser)('every page of the console', () => {
  let parley: TestServer
  const { open, openAs } = playConsole((started) => {
    parley = started
  })

  const heading = (name: string | RegExp) => (page: Page) => page.getByRole('heading', { name, level: 1 })
  const anywhere = (text: string) => (page: Page) => page.getByRole('main').getByText(text).first()

  /**
   * Creates a space of people and agents with long names. One of the agents has written a long message and waits for an
   * approval.
   */
  async function furnish() {
    const [ada, mind] = [await parley.human(LONG), await parley.agent(`${LONG} Mind`, { mind: 'PERSISTENT' })]
    const agent = await parley.agent(`${LONG} Agent`, { tools: [order] })
    const memberIds = [ada.id, agent.id]
    const { spaces, agents } = parley.app.domain
    const space = await spaces.create(parley.admin, { name: LONG, description: LONG, routing: 'BROADCAST', memberIds })
    await agents.update(parley.admin, { id: mind.id, paused: true })
    const input = { item: 'Fleece', quantity: 1, urgent: true, tags: ['soon', 'dear'], address: { city: 'Bonn' } }
    const said = { toolCall: 'send_message', input: { text: MARKDOWN } }
    parley.models.script(forAgent(agent.name, steps([said], [{ toolCall: 'order', input }], [{ text: 'ok' }])))
    const { runs } = await parley.send(ada, space.id, 'Order some.')
    const runId = runs[0]?.id ?? ''
    await parley.runWhen(runId, 'WAITING_TOOL')
    return { ada, agent, mind, space, runId }
  }
  let stage: Awaited<ReturnType<typeof furnish>>
  beforeAll(async () => {
    if (hasBrowser) stage = await furnish()
  }, 60_000)

  const operatorsPages = ({ ada, agent, mind, space, runId }: typeof stage): Addresses => ({
    '/spaces/:id': [
      { address: `/spaces/${space.id}`, shows: anywhere('A quote') },
      { address: '/spaces/spc_unknown', shows: anywhere('You cannot see this space') },
    ],
    '/agents': [{ address: '/agents', shows: anywhere(`${LONG} Agent`) }],
    '/agents/:id/:tab?': [
      { address: `/agents/${agent.id}`, shows: anywhere('waits for approval') },
      { address: `/agents/${agent.id}/settings`, shows: (page) => page.getByLabel('Instructions') },
      { address: `/agents/${agent.id}/tools`, shows: (page) => page.getByRole('button', { name: 'Remove order' }) },
      { address: `/agents/${agent.id}/versions`, shows: anywhere('Version 1') },
      { address: `/agents/${mind.id}/mind`, shows: anywhere('Earlier thoughts') },
      { address: `/agents/${agent.id}/mind`, shows: anywhere('This agent is stateless') },
      { address: `/agents/${agent.id}/plans`, shows: anywhere('No plans yet') },
      { address: `/agents/${agent.id}/wake`, shows: anywhere('Trigger the agent') },
      { address: '/agents/agt_unknown', shows: anywhere('Agent not found') },
    ],
    '/runs': [{ address: '/runs', shows: anywhere('waits for approval') }],
    '/runs/:id': [
      { address: `/runs/${runId}`, shows: anywhere('verbatim') },
      { address: '/runs/run_unknown', shows: anywhere('Run not found') },
    ],
    '/why/:id': [
      { address: `/why/${runId}`, shows: (page) => page.getByRole('list', { name: 'Path' }) },
      { address: '/why/run_unknown', shows: anywhere('Nothing to explain') },
    ],
    '/join/:code': [{ address: '/join/a-code', shows: anywhere('Only people can join a space') }],
    '/profile': [{ address: '/profile', shows: heading('Profile') }],
    '/people': [{ address: '/people', shows: (page) => page.getByRole('button', { name: /^Invite/ }).first() }],
    '/people/:id': [
      { address: `/people/${ada.id}`, shows: (page) => page.getByRole('form', { name: /^Role of/ }) },
      { address: '/people/hum_unknown', shows: anywhere('Person not found') },
    ],
    '/models': [{ address: '/models', shows: heading('Models') }],
    '/usage': [{ address: '/usage', shows: (page) => page.getByRole('row', { name: /Agent/ }).first() }],
    '/audit': [{ address: '/audit', shows: heading('Audit log') }],
    '/start': [{ address: '/start', shows: (page) => page.getByText('built in', { exact: true }) }],
    '/': [{ address: '/', shows: heading(LONG) }],
    '/notifications': [{ address: '/notifications', shows: heading('Notification settings') }],
    '/search': [
      { address: '/search', shows: anywhere('Enter what you are looking for') },
      { address: '/search?q=Order%20some', shows: (page) => page.locator('mark').first() },
    ],
    '/waiting': [{ address: '/waiting', shows: anywhere('Nothing is waiting for you') }],
  })

  /** Returns the elements that are wider than their parent, except those that are meant to scroll sideways. */
  const tooWide = (page: Page) =>
    page.evaluate<
      string[]
    >(`[...document.querySelectorAll('html, nav, main, .page-head, .page-scroll, .timeline, .dialog-body')]
      .filter((part) => part.scrollWidth > part.clientWidth + 1)
      .map((part) => part.className || part.tagName)`)

  async function look({ page, violations }: ConsolePage, what: string): Promise<void> {
    expect([what, await tooWide(page)]).toEqual([what, []])
    expect([what, await violations()]).toEqual([what, []])
  }

  /** Navigates within the page, as a click on a link does. */
  async function go({ page }: ConsolePage, address: string): Promise<void> {
    await page.evaluate(`history.pushState(null, '', ${JSON.stringify(address)})`)
  }

  test.each([
    ['wide', 1280, 800],
    ['on a phone', 360, 740],
  ])(
    'fits, %s, with names of any length, and has no accessibility violation in light or dark mode',
    async (_, width, height) => {
      const addresses = operatorsPages(stage)
      const known = [...readFileSync(APP, 'utf8').matchAll(/path="([^"]+)"/g)].map(([, pattern]) => pattern)
      expect(Object.keys(addresses).sort()).toEqual(known.sort())
      const shown = await openAs(parley.admin, '/', { width, height })
      await shown.page.getByText('the operator', { exact: true }).waitFor({ ...PATIENCE, state: 'attached' })
      for (const { address, shows } of Object.values(addresses).flat()) {
        await go(shown, address)
        await shows(shown.page).waitFor(PATIENCE)
        await look(shown, address)
      }
    },
    300_000,
  )

  test('fits on the sign-in and invitation pages too', async () => {
    const invited = { humanId: stage.ada.id, expiresInSeconds: 60 }
    const { path } = await parley.app.domain.invitations.create(parley.admin, invited)
    for (const [address, text] of [
      ['/', 'Rooms for people and agents'],
      [path, `You are invited, ${LONG}`],
      ['/invitations/unknown', 'This link does not work'],
      ['/join/unknown', 'You were given a link to a space'],
    ] as const) {
      const mayComplain = address === '/invitations/unknown'
      const shown = await open({ path: address, width: 360, height: 740 }, { mayComplain })
      await shown.page.getByText(text).waitFor(PATIENCE)
      await look(shown, address)
    }
  }, 90_000)

  test.each([
    ['wide', 1280, 800],
    ['on a phone', 360, 740],
  ])(
    'also its dialogs, %s',
    async (_, width, height) => {
      const shown = await openAs(stage.ada, `/spaces/${stage.space.id}`, { width, height })
      const { page } = shown
      const call = page.getByRole('region', { name: 'Tool call order' })
      await call.getByRole('button', { name: 'Edit first…' }).click(PATIENCE)
      await call.getByRole('button', { name: 'Move up' }).first().waitFor(PATIENCE)
      await look(shown, 'the form of an approval')
      await page.getByRole('button', { name: /members, details/ }).click()
      await page.getByRole('dialog').getByText('Settings').waitFor(PATIENCE)
      await look(shown, 'the details of a space')
      await page.keyboard.press('Escape')
      await page.keyboard.press('Control+k')
      await page.getByRole('option', { name: 'Sign out' }).waitFor(PATIENCE)
      await look(shown, 'the palette')
      await page.getByRole('option', { name: 'New space…' }).click()
      const create = page.getByRole('form', { name: 'New space' }).getByRole('button', { name: 'Create' })
      await create.waitFor(PATIENCE)
      const box = await create.boundingBox()
      expect((box?.y ?? height) + (box?.height ?? 0)).toBeLessThanOrEqual(height)
      await look(shown, 'the form of a new space')
    },
    120_000,
  )
})
