import { mkdirSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'

const hasBrowser = hasBrowserFor('the test of hostile text')
const PICTURES = process.env['PARLEY_TEST_PICTURES']
const LENGTH = 32_000
/** Long enough for a machine that runs several test files at once. A page that hangs would take minutes. */
const MOST_MS = 6000
/**
 * A time limit for parsing that is also long enough for such a machine. Parsing may take 60 ms of this time; loading the page
 * takes more.
 */
const MOST_TASK_MS = 1500

const filled = (piece: string) => piece.repeat(Math.ceil(LENGTH / piece.length)).slice(0, LENGTH)

const HOSTILE: Record<string, string> = {
  'quotes in quotes': filled('> '),
  'emphasis that never ends': filled('_a*'),
  'open brackets': filled('['),
  'images that never close': filled('![['),
  'lists in lists': filled('1. '),
  'a table of thousands of columns': `|${'a|'.repeat(7000)}\n|${'-|'.repeat(7000)}`,
  'a table of millions of cells': `|${'a|'.repeat(3000)}\n|${'-|'.repeat(3000)}\n${'|\n'.repeat(9000)}`,
  'thousands of headings': filled('# a\n'),
  'links by the thousand': filled('[a](http://b) '),
  'as many parts as are formatted': filled('**a** and *b* and `c` and more\n\n').slice(0, 16_000),
  'one long word': filled('a'),
  'markup of another kind': filled('<![CDATA[<!--'),
  'definitions alone': filled('[a]: b\n'),
  'marks above and below letters': filled('a\u0301\u0302\u0303\u0323\u0324'),
  'letters from right to left': filled('\u202e\u2067abc '),
}

describe.skipIf(!hasBrowser)('hostile text in the console', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  /** Records in `window.held` how long each task has blocked the page. */
  const watchTasks = (page: Page) =>
    page.evaluate(() => {
      const held: number[] = []
      Object.assign(window, { held })
      new PerformanceObserver((list) => held.push(...list.getEntries().map(({ duration }) => duration))).observe({
        type: 'longtask',
        buffered: true,
      })
    })

  const heldOf = (page: Page) => page.evaluate(() => ('held' in window ? (window.held as number[]) : []))

  async function picture(page: Page, name: string): Promise<void> {
    if (PICTURES === undefined) return
    mkdirSync(PICTURES, { recursive: true })
    await page.screenshot({ path: `${PICTURES}/${name.replaceAll(' ', '-')}.png` })
  }

  test.each(Object.entries(HOSTILE))(
    '%s leave the other messages readable',
    async (name, text) => {
      const human = await parley.human('Ada')
      const space = await parley.space(human, [], { name: 'Garden' })
      await parley.send(human, space.id, 'an honest word before')
      await parley.send(human, space.id, text)
      await parley.send(human, space.id, 'an honest word after')
      const { page, message } = await openAs(human, `/spaces/${space.id}`)
      const begunAt = Date.now()
      await message('an honest word after').waitFor(PATIENCE)
      await message('an honest word before').waitFor(PATIENCE)
      expect(Date.now() - begunAt).toBeLessThan(MOST_MS)
      const writtenAt = Date.now()
      await page.getByRole('textbox', { name: 'Message' }).fill('I can still write.')
      expect(Date.now() - writtenAt).toBeLessThan(MOST_MS)
      const { nodes, overflow } = await page.evaluate(() => ({
        nodes: document.querySelectorAll('main *').length,
        overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      }))
      expect(nodes).toBeLessThan(10_000)
      expect(overflow).toBeLessThanOrEqual(0)
      await page.reload()
      await watchTasks(page)
      await message('an honest word before').waitFor(PATIENCE)
      const tasks = await heldOf(page)
      if (PICTURES !== undefined) console.log(`${name}: tasks of ${tasks.map(Math.round).join(', ')} ms`)
      expect(Math.max(0, ...tasks)).toBeLessThan(MOST_TASK_MS)
      await picture(page, name)
    },
    90_000,
  )

  test.each(['quotes in quotes', 'emphasis that never ends', 'letters from right to left'] as const)(
    '%s in what a model wrote leave its run page readable',
    async (kind) => {
      const text = HOSTILE[kind] ?? ''
      parley.models.script(steps([{ text }, { toolCall: 'send_message', input: { text } }], [{ text }]))
      const human = await parley.human('Ada')
      const agent = await parley.agent('Bo')
      const space = await parley.space(human, [agent.id], { name: 'Garden' })
      const { runs } = await parley.send(human, space.id, 'an honest word')
      const run = await parley.runWhen(runs[0]?.id ?? '')
      const { page } = await openAs(parley.admin, `/runs/${run.id}`)
      const begunAt = Date.now()
      await page.getByRole('heading', { level: 1 }).waitFor(PATIENCE)
      await page.getByText('an honest word').first().waitFor(PATIENCE)
      expect(Date.now() - begunAt).toBeLessThan(MOST_MS)
      const overflow = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      )
      expect(overflow).toBeLessThanOrEqual(0)
      await picture(page, `run of ${kind}`)
    },
    90_000,
  )

  test('a text beyond the limits is marked and can be unfolded', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [], { name: 'Garden' })
    await parley.send(human, space.id, filled('> '))
    const { page } = await openAs(human, `/spaces/${space.id}`)
    await page.getByText('Shown as plain text: its formatting is nested too deeply.').waitFor(PATIENCE)
    const box = page.locator('.plain-text')
    expect(await box.textContent()).toHaveLength(LENGTH)
    await page.getByRole('button', { name: 'Show the whole text' }).click()
    await page.getByRole('button', { name: 'Show the whole text' }).waitFor({ ...PATIENCE, state: 'detached' })
    expect(await page.locator('.folded').count()).toBe(0)
  }, 90_000)

  test('a message that cannot be rendered is shown as plain text, alone, and can be retried', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [], { name: 'Garden' })
    for (const text of ['an honest word before', '[a link](/runs) that breaks', 'an honest word after'])
      await parley.send(human, space.id, text)
    const { page, message } = await openAs(human, `/spaces/${space.id}`, {}, { mayComplain: true })
    await message('an honest word after').waitFor(PATIENCE)
    // The test injects an error, because no error of the console itself is known.
    await page.addInitScript(() => {
      const { parse } = URL
      Object.assign(window, { isBroken: true })
      URL.parse = (...args) => {
        if ('isBroken' in window && window.isBroken === true) throw new Error('broken')
        return parse.call(URL, ...args)
      }
    })
    await page.reload()
    await message('an honest word after').waitFor(PATIENCE)
    await message('an honest word before').waitFor(PATIENCE)
    const broken = page.getByRole('region', { name: 'A text that could not be shown' })
    await broken.getByText('This text could not be shown.').waitFor(PATIENCE)
    await broken.getByText('[a link](/runs) that breaks').waitFor(PATIENCE)
    await picture(page, 'broken')
    await page.evaluate(() => Object.assign(window, { isBroken: false }))
    await broken.getByRole('button', { name: 'Try again' }).click()
    await page.getByRole('link', { name: 'a link' }).waitFor(PATIENCE)
    expect(await broken.count()).toBe(0)
  }, 90_000)

  test('links and images show their host in any spelling, and nothing is loaded from that host', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [], { name: 'Garden' })
    const addresses = [
      'HTTPS://evil.example',
      '//evil.example',
      '/\\evil.example',
      'https:\\\\evil.example',
      'https://parley.example@evil.example',
    ]
    const lines = [
      ...addresses.map((address) => `[Parley](<${address}>)`),
      ...addresses.map((address) => `![Parley](<${address}/p.png>)`),
      '[Parley][there]\n\n[there]: //evil.example',
      '[![Parley](https://evil.example/p.png)](https://evil.example)',
      '<https://evil.example>',
      'https://evil.example',
    ]
    await parley.send(human, space.id, lines.join('\n\n'))
    await parley.send(human, space.id, '[Our runs](/runs) are here')
    const { page } = await openAs(human, `/spaces/${space.id}`)
    await page.getByRole('link', { name: 'Our runs', exact: true }).waitFor(PATIENCE)
    const links = await page.locator('.markdown a[href*="evil"]').allInnerTexts()
    expect(links).toHaveLength(lines.length)
    expect(links.filter((words) => !words.includes('↗ evil.example'))).toEqual([])
    expect(await page.locator('main img, main a a').count()).toBe(0)
    await picture(page, 'links')
  }, 90_000)

  test('the input of a call is shortened if it is deep, and a recursive schema is edited as JSON', async () => {
    const tool = {
      name: 'order',
      description: 'Orders.',
      inputSchema: { type: 'object', properties: { inner: { $ref: '#' }, items: { type: 'array' } } },
      execution: 'INTERNAL' as const,
      visible: true,
      approval: { quorum: 1 },
    }
    const { human, agent, space } = await parley.room('Buyer', { tools: [tool] })
    const deep = JSON.parse(`${'['.repeat(80)}1${']'.repeat(80)}`)
    const orders = [{ toolCall: 'order', input: { items: [...deep, ...Array(9000).fill(1)] } }]
    parley.models.script(forAgent(agent.name, steps(orders, [{ text: 'ok' }])))
    const { page, message } = await openAs(human, `/spaces/${space.id}`)
    const { runs } = await parley.send(human, space.id, 'Order some.')
    const call = page.getByRole('region', { name: 'Tool call order' })
    await call.getByText('Input', { exact: true }).click(PATIENCE)
    await call.getByText('Shortened: “…” marks omitted parts.').waitFor(PATIENCE)
    await picture(page, 'deep')
    await call.getByRole('button', { name: 'Edit first…' }).press('Enter', PATIENCE)
    await call.getByLabel('Value').fill('{"items":', PATIENCE)
    await call.getByRole('button', { name: 'Approve this' }).press('Enter')
    await call.getByText('The value is not valid JSON. Correct it and try again.').waitFor(PATIENCE)
    await picture(page, 'schema')
    await call.getByLabel('Value').fill('{"items":[1]}')
    await call.getByRole('button', { name: 'Approve this' }).press('Enter')
    await parley.runWhen(runs[0]?.id ?? '', 'COMPLETED')
    await message('Order some.').waitFor(PATIENCE)
  }, 90_000)

  test('a long text streams without blocking the page', async () => {
    const { human, agent, space } = await parley.room('Writer')
    const words = Array.from({ length: 600 }, (_, at) => `**word ${at}** and [a link](/runs) and more `)
    const said = { toolCall: 'send_message', chunks: ['{"text":"', ...words, new Promise(() => {}), '"}'] }
    parley.models.script(forAgent(agent.name, steps([said])))
    const { page } = await openAs(human, `/spaces/${space.id}`)
    await watchTasks(page)
    await parley.send(human, space.id, 'Write.')
    await page.getByText('word 599').waitFor(PATIENCE)
    expect(Math.max(0, ...(await heldOf(page)))).toBeLessThan(MOST_TASK_MS)
    await page.getByRole('button', { name: 'Stop Writer' }).click(PATIENCE)
    await page.getByText('was interrupted').waitFor(PATIENCE)
  }, 90_000)
})
