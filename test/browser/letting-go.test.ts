import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import type { TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const hasBrowser = hasBrowserFor('the test of evicted messages')

describe.skipIf(!hasBrowser)('eviction of old messages in the console', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  /** Creates a space with a message by Ada and many later ones by Bob, shown in Ada's console. */
  async function openAttic({ said, before = 0, size = {} }: { said: number; before?: number; size?: object }) {
    const [ada, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    const memberIds = [ada.id, bob.id]
    const attic = await parley.app.domain.spaces.create(parley.admin, {
      name: 'Attic',
      routing: 'BROADCAST',
      memberIds,
    })
    for (let n = 1; n <= before; n++) await parley.send(ada, attic.id, `Note ${n}.`)
    const ids: string[] = []
    const say = async (count: number) => {
      for (const last = ids.length + count; ids.length < last; ) ids.push(await post(bob, attic.id, ids.length + 1))
    }
    await say(said)
    const { page, message } = await openAs(ada, `/spaces/${attic.id}`, size)
    await message(`Word ${said}.`).waitFor(PATIENCE)
    return { page, message, say, ids }
  }
  const post = async (human: HumanViewer, spaceId: string, n: number) =>
    (await parley.send(human, spaceId, `Word ${n}.`)).message.id

  const conversation = (page: Page) => page.getByRole('region', { name: 'Conversation' })
  const beginning = (page: Page) => page.getByText('The conversation begins here.')
  const heightOf = (page: Page) => conversation(page).evaluate((box) => box.scrollHeight)
  const wheelUp = async (page: Page, pixels: number) => {
    await conversation(page).hover()
    await page.mouse.wheel(0, -pixels)
  }
  const drawn = async (page: Page) =>
    (await page.getByRole('article').allTextContents()).map((text) => Number(/Word (\d+)\./.exec(text)?.[1]))

  test('the newest messages stay at the end of the transcript, and scrolling up loads all others in order', async () => {
    const { page, message, say } = await openAttic({ said: 3 })
    await beginning(page).waitFor(PATIENCE)
    await say(200)
    await message('Word 203.').waitFor(PATIENCE)
    await beginning(page).waitFor({ ...PATIENCE, state: 'detached' })
    const height = await heightOf(page)
    await say(200)
    await message('Word 403.').waitFor(PATIENCE)
    await until('the page is no longer than before', async () => (await heightOf(page)) < height * 1.5)
    expect(await page.getByRole('button', { name: 'First unread' }).count()).toBe(0)

    const seen = new Set<number>()
    while ((await beginning(page).count()) === 0 || !seen.has(1)) {
      const numbers = await drawn(page)
      expect(numbers).toEqual(numbers.map((_, at) => (numbers[0] ?? 0) + at))
      for (const number of numbers) seen.add(number)
      await wheelUp(page, 300)
    }
    expect(seen.size).toBe(403)
  }, 120_000)

  test('a reader who scrolled up keeps the loaded messages in place until they jump to the end', async () => {
    const { page, message, say } = await openAttic({ said: 60 })
    await wheelUp(page, 400)
    const toEnd = page.getByRole('button', { name: 'To the end' })
    await toEnd.waitFor(PATIENCE)
    const placeOf = async () => {
      const [first] = await page.getByRole('article').all()
      return [await first?.textContent(), await first?.boundingBox()]
    }
    const [height, place] = [await heightOf(page), await placeOf()]
    // The composer contains the text in separate lines.
    await page.getByRole('textbox', { name: 'Message' }).fill('Where was I?\n\n\nHere.')
    await say(200)
    await page.getByRole('button', { name: '200 new' }).waitFor(PATIENCE)
    expect(await placeOf()).toEqual(place)
    expect(await heightOf(page)).toBeGreaterThan(height * 2)
    await page.getByRole('button', { name: '200 new' }).click()
    await message('Word 260.').waitFor(PATIENCE)
    await until('the old messages are removed', async () => (await heightOf(page)) < height * 2)
  }, 120_000)

  test('following a link to an evicted message, or jumping to the first unread one, loads it again', async () => {
    const { page, message, say, ids } = await openAttic({ said: 130, before: 20 })
    await page.getByRole('button', { name: 'First unread' }).click(PATIENCE)
    await message('Word 1.').waitFor(PATIENCE)
    const unread = page.getByText('New', { exact: true })
    const topOf = async (shown: typeof unread) => (await shown.boundingBox())?.y ?? Number.NaN
    const isAtTop = async () => Math.abs((await topOf(unread)) - (await topOf(conversation(page)))) < 60
    await until('the first unread message is at the top', isAtTop)
    await page.getByRole('button', { name: 'To the end' }).click(PATIENCE)
    await say(1)
    await message('Word 131.').waitFor(PATIENCE)
    await until('the old messages are removed', async () => (await beginning(page).count()) === 0)
    await page.evaluate(`location.hash = '${ids[4]}'`)
    await message('Word 5.').waitFor(PATIENCE)
    await page.locator(`.message.target[id="${ids[4]}"]`).waitFor(PATIENCE)
  }, 120_000)

  test('a tall window loads earlier messages until it is full', async () => {
    const { page, message } = await openAttic({ said: 120, size: { width: 1000, height: 3000 } })
    await until('the page can scroll', () => conversation(page).evaluate((box) => box.scrollHeight > box.clientHeight))
    await message('Word 120.').waitFor(PATIENCE)
    await until('the start is reached', async () => {
      await wheelUp(page, 600)
      return (await beginning(page).count()) === 1
    })
    await message('Word 1.').waitFor(PATIENCE)
  }, 120_000)

  test('fast posting does not lose the scroll position at the end, and scrolling up leaves it', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [])
    const prose = 'Cover the tomatoes, it will be **cold** tonight.\n\n'
    const sayAll = (texts: string[]) => Promise.all(texts.map((text) => parley.send(human, space.id, text)))
    await sayAll(Array.from({ length: 30 }, () => prose.repeat(20)))
    const { page, message } = await openAs(human, `/spaces/${space.id}`)
    await message('tomatoes').first().waitFor(PATIENCE)
    for (let round = 1; round <= 8; round++) {
      await sayAll(Array.from({ length: 20 }, (_, n) => (n < 14 ? `Word ${n}.` : prose.repeat(n))))
      await parley.send(human, space.id, `Round ${round}.`)
      await message(`Round ${round}.`).waitFor(PATIENCE)
    }
    const isAtEnd = () => conversation(page).evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 2)
    await until('the end is visible', isAtEnd)
    expect(await page.getByRole('button', { name: /To the end|new$/ }).count()).toBe(0)
    const more = sayAll(Array.from({ length: 20 }, () => prose.repeat(5)))
    await wheelUp(page, 300)
    await page.getByRole('button', { name: /To the end|new$/ }).waitFor(PATIENCE)
    await more
  }, 120_000)
})
