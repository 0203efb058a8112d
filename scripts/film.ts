import type { Browser, Page } from 'playwright-core'
import { forAgent, inTurn, type ModelAction } from '../test/support/model-server-script.ts'
import type { TestServer } from '../test/support/served.ts'
import { until } from '../test/support/until.ts'
import type { Frame } from './animated-png.ts'

const SIZE = { width: 900, height: 620 }
const SHORT_MS = 90
const LOOK_MS = 1200
const LAST_MS = 4000
const WORDS_AT_ONCE = 3
const QUESTION = '@Iris will there be frost tonight?'
const FORECAST =
  'Yes: down to **−1.8 °C** by five in the morning. Cover the **tomatoes** and the young beans; the kale likes it. ' +
  'Noor, what is in the shed covers half of the beds.'
const ORDERED = 'Ordered: two rolls of fleece, here before dusk.'
const ORDER = { item: 'Garden fleece, 10 m × 2 m', quantity: 2, price: '€ 23.80' }
const TOOL = {
  name: 'order_fleece',
  description: 'Orders.',
  inputSchema: { type: 'object' },
  execution: 'INTERNAL' as const,
  approval: { quorum: 1 },
}

/** A text that a model streams in pieces of a few words, each when the script releases it. */
interface Speech {
  action: ModelAction
  /** One function for each piece. Calling it releases the piece. */
  releases: (() => void)[]
}

/** Plays a conversation in a space, and captures frames of each step: a question, its answer, a second agent, an approval. */
export async function film(parley: TestServer, browser: Browser): Promise<Frame[]> {
  const [forecast, ordered] = [speechOf(FORECAST), speechOf(ORDERED)]
  const { ada, space } = await stage(parley, forecast, ordered)
  const page = await browser.newPage({ viewport: SIZE })
  await page.emulateMedia({ reducedMotion: 'reduce' })
  await page.goto(`${parley.origin}/spaces/${space.id}`)
  await page.getByLabel('Token').fill(await parley.tokenOf(ada))
  await page.getByRole('button', { name: 'Sign in' }).click()
  const field = page.getByRole('textbox', { name: 'Message' })
  await field.waitFor()

  const frames: Frame[] = []
  const take = async (shownMs: number) =>
    void frames.push({ png: await page.screenshot({ animations: 'disabled' }), shownMs })
  await take(LOOK_MS / 2)
  for (let end = 2; end < QUESTION.length; end += 3) {
    await field.fill(QUESTION.slice(0, end))
    await take(SHORT_MS)
  }
  await field.fill(QUESTION)
  await take(LOOK_MS / 2)
  await field.press('Enter')
  await page.getByText('Iris woke').waitFor()
  await page.getByText('Iris is at work').waitFor()
  await take(LOOK_MS)
  await takeSpeech(page, forecast, () => take(SHORT_MS))
  const approve = page.getByRole('button', { name: 'Approve' })
  await approve.waitFor()
  await take(LOOK_MS)
  await approve.hover()
  await take(LOOK_MS)
  await approve.click()
  await page.getByText('approved', { exact: false }).first().waitFor()
  await take(LOOK_MS)
  await takeSpeech(page, ordered, () => take(SHORT_MS))
  await page.locator('.activity').waitFor({ state: 'hidden' })
  await page.locator('.badge').waitFor({ state: 'detached' })
  await take(LAST_MS)
  await page.close()
  return frames
}

/** Creates a space with two agents. The mentioned agent answers and mentions the other agent, which needs approval to order. */
async function stage(parley: TestServer, forecast: Speech, ordered: Speech) {
  const iris = await parley.agent('Iris', { description: 'Knows the weather.' })
  const noor = await parley.agent('Noor', { description: 'Buys what is missing.', tools: [TOOL] })
  const ada = await parley.human('Ada Nakamura')
  const { spaces } = parley.app.domain
  const about = { description: 'What grows, and what it needs.', routing: 'MENTION_CHAIN' as const }
  await spaces.create(parley.admin, { ...about, name: 'Kitchen', memberIds: [ada.id, iris.id] })
  const memberIds = [ada.id, iris.id, noor.id]
  const space = await spaces.create(parley.admin, { ...about, name: 'Garden', memberIds })
  const handOn = {
    toolCall: 'mentionAgent',
    input: { targetAgentEntityId: noor.id, reason: 'It buys what is missing.' },
  }
  parley.models.reset()
  parley.models.script(() => [{ text: 'Nothing to add.' }])
  parley.models.script(forAgent('Iris', inTurn([forecast.action, handOn])))
  parley.models.script(forAgent('Noor', inTurn([{ toolCall: TOOL.name, input: ORDER }], [ordered.action])))
  return { ada, space }
}

function speechOf(text: string): Speech {
  const words = text.split(/(?<= )/)
  const releases: (() => void)[] = []
  const chunks: (string | Promise<unknown>)[] = ['{"text":"']
  for (let at = 0; at < words.length; at += WORDS_AT_ONCE) {
    const { promise, resolve } = Promise.withResolvers<void>()
    releases.push(resolve)
    chunks.push(promise, words.slice(at, at + WORDS_AT_ONCE).join(''))
  }
  return { action: { toolCall: 'send_message', chunks: [...chunks, '"}'] }, releases }
}

/** Releases a text piece by piece, and captures a frame when each piece is visible. */
async function takeSpeech(page: Page, { releases }: Speech, take: () => Promise<void>): Promise<void> {
  const lengthOfAll = async () => (await page.locator('.markdown').allTextContents()).join('').length
  for (const release of releases) {
    const before = await lengthOfAll()
    release()
    await until('more of the text shows', async () => (await lengthOfAll()) > before)
    await take()
  }
}
