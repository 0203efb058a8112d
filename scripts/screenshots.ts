// npm run screenshots: takes screenshots of the console for the README and docs, one of them animated, with a scripted model,
// and writes them to docs/images. Needs Chromium (/usr/bin/chromium, or CHROMIUM).
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { launchBrowser } from '../test/support/browser.ts'
import { forAgent, type ModelAction, type ModelScript } from '../test/support/model-server-script.ts'
import { startTestServer, type TestServer } from '../test/support/served.ts'
import { animatedPng } from './animated-png.ts'
import { film } from './film.ts'

const IMAGES = path.resolve(import.meta.dirname, '../docs/images')
const WIDE = { width: 1280, height: 800 }
const PHONE = { width: 390, height: 844 }

const speech = (text: string): ModelAction[] => [{ toolCall: 'send_message', input: { text } }]
const FORECAST = `Yes, from about three in the morning:

| hour | °C |
|---|---|
| 01:00 | 2.4 |
| 03:00 | −0.5 |
| 05:00 | −1.8 |

Cover the **tomatoes** and the young beans; the kale likes it.`
const ORDER = {
  item: 'Garden fleece, 10 m × 2 m',
  quantity: 2,
  price: '€ 23.80',
  why: 'What is in the shed covers half of the beds.',
}
const UNFINISHED: ModelAction[] = [
  {
    toolCall: 'send_message',
    chunks: ['{"text":"', 'Before you order: did anybody look at the roll behind the', new Promise(() => {}), '"}'],
  },
]

const parley = await startTestServer({ stack: 'embedded' })
const browser = await launchBrowser()
try {
  await takeAll(parley, browser)
  await writeFile(path.join(IMAGES, 'conversation.png'), animatedPng(await film(parley, browser)))
  console.log('docs/images/conversation.png')
} finally {
  await browser.close()
  await parley.close()
}

async function takeAll({ admin }: TestServer, browser: Browser): Promise<void> {
  const stage = await play()
  const page = await browser.newPage({ viewport: WIDE })
  await page.emulateMedia({ reducedMotion: 'reduce' })
  await page.goto(parley.origin)
  await page.getByLabel('Token').waitFor()
  await take(page, 'sign-in')

  await signIn(page, `/spaces/${stage.garden.id}`, await parley.tokenOf(stage.ada))
  await page.getByText('Approve').first().waitFor()
  await page.getByText('is writing').waitFor()
  await take(page, 'console')
  await page.emulateMedia({ colorScheme: 'dark' })
  await take(page, 'console-dark')
  await page.emulateMedia({ colorScheme: 'light' })
  await page.locator('.outcomes-line').last().click()
  await page.getByText('Which agents woke, and why').waitFor()
  await take(page, 'outcomes')
  await page.keyboard.press('Escape')
  await page.getByRole('link', { name: /Waiting for you/ }).click()
  await page.getByRole('button', { name: 'Approve' }).waitFor()
  await take(page, 'waiting')
  await page.goto(`${parley.origin}/spaces/${stage.attic.id}`)
  await page.getByText('could not answer').waitFor()
  await take(page, 'failure')
  await page.setViewportSize(PHONE)
  await page.goto(`${parley.origin}/spaces/${stage.garden.id}`)
  await page.getByText('is writing').waitFor()
  await take(page, 'phone')

  const operator = await browser.newPage({ viewport: WIDE })
  await operator.emulateMedia({ reducedMotion: 'reduce' })
  await operator.goto(parley.origin)
  await signIn(operator, `/runs/${stage.runId}`, await parley.tokenOf(admin))
  await operator.getByText('verbatim').waitFor()
  await take(operator, 'run')
}

async function signIn(page: Page, address: string, token: string): Promise<void> {
  await page.goto(parley.origin + address)
  await page.getByLabel('Token').fill(token)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

/** Takes a screenshot once the page has loaded its data. */
async function take(page: Page, name: string): Promise<void> {
  await page.locator('.space-line[aria-current] .badge').waitFor({ state: 'detached' })
  await page.screenshot({ path: path.join(IMAGES, `${name}.png`), animations: 'disabled' })
  console.log(`docs/images/${name}.png`)
}

/** Creates the demo content: two people and three agents in a garden, one of which needs approval to order. */
async function play() {
  const approval = {
    name: 'order_fleece',
    description: 'Orders.',
    inputSchema: { type: 'object' },
    execution: 'SPACE' as const,
  }
  const iris = await parley.agent('Iris', { description: 'Knows the weather.' })
  const noor = await parley.agent('Noor', { description: 'Buys what is missing.', tools: [approval] })
  const tom = await parley.agent('Tom', { description: 'Asks what was forgotten.' })
  const [ada, bob] = [await parley.human('Ada Nakamura'), await parley.human('Bob Okafor')]
  const { spaces } = parley.app.domain
  const create = (name: string, description: string, memberIds: string[]) =>
    spaces.create(parley.admin, { name, description, routing: 'BROADCAST', memberIds })
  const attic = await create('Attic', 'Where nothing works.', [ada.id, (await parley.agent('Broken')).id])
  const kitchen = await create('Kitchen', 'Dinner plans.', [ada.id, bob.id])
  const garden = await create('Garden', 'What grows, and what it needs.', [ada.id, bob.id, iris.id, noor.id, tom.id])

  parley.models.script(() => [{ text: 'Nothing to add.' }])
  parley.models.script(forAgent('Broken', () => [{ error: 'Incorrect API key provided', status: 401 }]))
  parley.models.script(forAgent('Iris', once('frost', speech(FORECAST))))
  parley.models.script(forAgent('Noor', once('order', [{ toolCall: 'order_fleece', input: ORDER }])))
  parley.models.script(forAgent('Tom', once('order', UNFINISHED)))
  const broken = await parley.send(ada, attic.id, 'Hello? Anybody?')
  await parley.runWhen(broken.runs[0]?.id ?? '', 'FAILED')
  await parley.send(bob, kitchen.id, 'Soup tonight?')
  const first = await parley.send(bob, garden.id, 'Will there be **frost** tonight?')
  for (const { id } of first.runs) await parley.runWhen(id)
  await parley.send(ada, garden.id, 'Then please order what we need, before noon.')
  const runId = first.runs.find(({ agentId }) => agentId === iris.id)?.id ?? ''
  return { ada, garden, attic, runId }
}

/** Returns a script for the model: in a run triggered by a message with this word, the first step performs the actions. */
function once(word: string, actions: ModelAction[]): ModelScript {
  return (request) => {
    const last = request.messages.findLast(({ role }) => role === 'user')?.text ?? ''
    const woken = last.split(/RECENT/)[0] ?? ''
    return request.step === 0 && woken.includes(word) && !woken.includes('Yes, from about')
      ? actions
      : [{ text: 'Done.' }]
  }
}
