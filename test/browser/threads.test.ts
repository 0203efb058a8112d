import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import { forAgent, steps, when } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { wokenBy } from '../support/stage.ts'
import { until } from '../support/until.ts'

const hasBrowser = hasBrowserFor('the test of threads in the console')
const UNREAD = `query ($id: ID!) { space(id: $id) { unreadCount } }`

describe.skipIf(!hasBrowser)('threads in the console', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  type Human = Awaited<ReturnType<TestServer['human']>>
  const reply = async (human: Human, spaceId: string, replyToId: string, text: string, mentionedIds: string[] = []) =>
    (await parley.app.domain.sending.send(human, { spaceId, text, replyToId, mentionedIds })).message.id
  async function twoPeople() {
    const [ada, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    const memberIds = [ada.id, bob.id]
    const { spaces } = parley.app.domain
    const space = await spaces.create(parley.admin, { name: 'Garden', routing: 'BROADCAST', memberIds })
    return { ada, bob, space }
  }
  const unreadOf = async (human: Human, id: string) => {
    const client = await parley.clientOf(human)
    return async () => (await client.ask<{ space: { unreadCount: number } }>(UNREAD, { id })).data?.space.unreadCount
  }
  const focused = 'document.activeElement?.getAttribute("aria-label")'

  test('by keyboard: a reply begins a thread, others see the number of replies and which are new, and reading the thread marks the space as read', async () => {
    const { ada, bob, space } = await twoPeople()
    const { message: root } = await parley.send(bob, space.id, 'Frost tonight?')
    await parley.send(bob, space.id, 'And tomorrow?')
    const { page, message, violations } = await openAs(ada, `/spaces/${space.id}`)
    const other = await openAs(bob, `/spaces/${space.id}`)
    await other.message('Frost tonight?').waitFor(PATIENCE)

    await message('Frost tonight?').getByRole('button', { name: 'Message actions' }).press('Enter', PATIENCE)
    await page.getByRole('menuitem', { name: 'Reply in thread' }).press('Enter', PATIENCE)
    const panel = page.getByRole('region', { name: 'Thread', exact: true })
    await panel.getByRole('article').filter({ hasText: 'Frost tonight?' }).waitFor(PATIENCE)
    await page.waitForFunction(`${focused} === 'Reply'`)
    expect(new URL(page.url()).searchParams.get('thread')).toBe(root.id)
    await page.keyboard.type('Yes, cover the beds.')
    expect(await violations()).toEqual([])
    await page.keyboard.press('Enter')
    await panel.getByRole('article').filter({ hasText: 'Yes, cover the beds.' }).waitFor(PATIENCE)

    // Outside of the thread, the reply is only counted.
    const line = other.page.getByRole('button', { name: /1 reply to Bob/ })
    await line.getByText('1 new').waitFor(PATIENCE)
    expect(await other.message('Yes, cover the beds.').count()).toBe(0)
    const unread = await unreadOf(bob, space.id)
    expect(await unread()).toBe(1)
    expect(await other.violations()).toEqual([])
    await line.click()
    const beside = other.page.getByRole('region', { name: 'Thread', exact: true })
    await beside.getByRole('article').filter({ hasText: 'Yes, cover the beds.' }).waitFor(PATIENCE)
    await until('the reply is read', async () => (await unread()) === 0)
    await line.getByText('1 new').waitFor({ ...PATIENCE, state: 'detached' })

    // Replies can be edited, get reactions and carry files, like messages of the space.
    await page.keyboard.press('ArrowUp')
    await page.waitForFunction(`${focused} === 'Text of the message'`)
    await page.keyboard.type(' All of them.')
    await page.keyboard.press('Enter')
    await beside.getByRole('article').filter({ hasText: 'Yes, cover the beds. All of them.' }).waitFor(PATIENCE)
    const answer = beside.getByRole('article').filter({ hasText: 'All of them.' })
    await answer.hover(PATIENCE)
    await answer.getByRole('button', { name: 'React' }).click(PATIENCE)
    await other.page.getByRole('dialog', { name: 'React' }).getByRole('button', { name: '👍' }).click(PATIENCE)
    await panel.getByRole('button', { name: '👍 1' }).waitFor(PATIENCE)
    await beside.locator('input[type=file]').setInputFiles({
      name: 'beds.txt',
      mimeType: 'text/plain',
      buffer: Buffer.from('Two of them.'),
    })
    await beside.getByRole('list', { name: 'Files of this message' }).getByText('12 B').waitFor(PATIENCE)
    await beside.getByRole('textbox', { name: 'Reply' }).fill('Here is the list.')
    await beside.getByRole('button', { name: 'Send' }).click(PATIENCE)
    await panel.getByRole('article').filter({ hasText: 'Here is the list.' }).getByText('beds.txt').waitFor(PATIENCE)

    // Escape ends an edit, or the composition of an input method, and does nothing else.
    await panel.getByRole('textbox', { name: 'Reply' }).press('ArrowUp', PATIENCE)
    await page.waitForFunction(`${focused} === 'Text of the message'`)
    await page.keyboard.press('Escape')
    await page.waitForFunction(`${focused} === 'Reply'`)
    await page.evaluate(
      `document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true, isComposing: true }))`,
    )
    await panel.waitFor(PATIENCE)

    // A thread has a draft of its own. Escape first closes an open menu, and then the thread.
    await panel.getByRole('textbox', { name: 'Reply' }).fill('Half a thou')
    await panel.getByRole('article').first().getByRole('button', { name: 'Message actions' }).press('Enter')
    await page.getByRole('menu', { name: 'Message actions' }).waitFor(PATIENCE)
    expect(await page.getByRole('menuitem', { name: 'Reply in thread' }).count()).toBe(0)
    await page.keyboard.press('Escape')
    await page.getByRole('menu', { name: 'Message actions' }).waitFor({ ...PATIENCE, state: 'detached' })
    await panel.waitFor(PATIENCE)
    await page.keyboard.press('Escape')
    await panel.waitFor({ ...PATIENCE, state: 'detached' })
    expect(new URL(page.url()).search).toBe('')
    await page.waitForFunction(`document.activeElement?.closest('article')?.id === '${root.id}'`)
    expect(await page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('')
    await page.getByRole('button', { name: /2 replies to Bob/ }).click(PATIENCE)
    await page.waitForFunction(`${focused} === 'Reply'`)
    expect(await panel.getByRole('textbox', { name: 'Reply' }).inputValue()).toBe('Half a thou')
    await page.goBack()
    await panel.waitFor({ ...PATIENCE, state: 'detached' })
  }, 120_000)

  test('an agent that is mentioned in a thread streams its answer there', async () => {
    const { human, agent, space } = await parley.room('Iris')
    const gate = Promise.withResolvers<void>()
    const chunks = ['{"text":"', 'The first half', gate.promise, ' and the second."}']
    const { message: root } = await parley.send(human, space.id, 'A list of seeds')
    const answer = steps([{ toolCall: 'send_message', chunks }], [{ text: 'ok' }])
    parley.models.script(forAgent(agent.name, when(wokenBy('Which first?'), answer)))
    const { page } = await openAs(human, `/spaces/${space.id}?thread=${root.id}`)
    const panel = page.getByRole('region', { name: 'Thread', exact: true })
    await panel.getByRole('textbox', { name: 'Reply' }).fill('Which first?')
    await panel.getByText('Goes to Iris.').waitFor(PATIENCE)
    await panel.getByRole('button', { name: 'Send' }).click(PATIENCE)
    await panel.getByRole('article').filter({ hasText: 'The first half' }).waitFor(PATIENCE)
    await panel.getByText('is writing').waitFor(PATIENCE)
    await page.getByRole('button', { name: /2 replies/ }).waitFor(PATIENCE)
    gate.resolve()
    await panel.getByRole('article').filter({ hasText: 'The first half and the second.' }).waitFor(PATIENCE)
    await panel.getByText('is writing').waitFor({ ...PATIENCE, state: 'detached' })
    expect(await page.getByRole('region', { name: 'Conversation' }).getByText('The first half').count()).toBe(0)
  }, 90_000)

  test('on a phone: a search result and a notice for a reply open its thread full-screen', async () => {
    const { ada, bob, space } = await twoPeople()
    const attic = await parley.space(ada, [], { name: 'Attic' })
    const { message: root } = await parley.send(bob, space.id, 'What grows?')
    const { message: beans } = await parley.send(bob, space.id, 'Beans?')
    for (let at = 1; at <= 60; at++) await reply(bob, space.id, root.id, `Number ${at}.`)
    const wanted = await reply(bob, space.id, root.id, 'Marrows, mostly')
    for (let at = 61; at <= 120; at++) await reply(bob, space.id, root.id, `Number ${at}.`)
    const phone = { width: 360, height: 740 }
    const { page, violations } = await openAs(ada, '/search?q=marrows', phone)
    await page.getByRole('region', { name: 'Results' }).getByRole('link').click(PATIENCE)
    const panel = page.getByRole('region', { name: 'Thread', exact: true })
    await panel.getByRole('article').filter({ hasText: 'Marrows, mostly' }).waitFor(PATIENCE)
    await page.waitForFunction((id) => {
      const box = document.getElementById(id)?.getBoundingClientRect()
      return box !== undefined && box.top > 0 && box.bottom < innerHeight
    }, wanted)
    expect(new URL(page.url()).search).toBe(`?thread=${root.id}`)
    expect(await panel.boundingBox()).toEqual({ x: 0, y: 0, ...phone })
    expect(await violations()).toEqual([])
    await panel.getByRole('button', { name: 'Close the thread' }).click(PATIENCE)
    await page.getByRole('region', { name: 'Conversation' }).getByText('What grows?').waitFor(PATIENCE)

    // In the space, a mention in another thread is not visible.
    await reply(bob, space.id, beans.id, 'Do you like them, @Ada?', [ada.id])
    const notices = page.getByRole('status', { name: 'Notices' })
    const notice = notices.getByRole('link', { name: 'Somebody mentioned you in Garden.' })
    await notice.click(PATIENCE)
    await panel.getByRole('article').filter({ hasText: 'Do you like them, @Ada?' }).waitFor(PATIENCE)
    expect(new URL(page.url()).search).toBe(`?thread=${beans.id}`)
    await page.evaluate(`history.pushState(null, '', '/spaces/${attic.id}')`)
    await page.getByRole('heading', { name: 'Attic', exact: true }).waitFor(PATIENCE)
    await reply(bob, space.id, root.id, 'And you, @Ada?', [ada.id])
    await notice.click(PATIENCE)
    await panel.getByRole('article').filter({ hasText: 'And you, @Ada?' }).waitFor(PATIENCE)
    expect(new URL(page.url()).search).toBe(`?thread=${root.id}`)
  }, 120_000)

  test('new replies can be found and read, even if the first message is far up or was deleted', async () => {
    const { ada, bob, space } = await twoPeople()
    const { message: far } = await parley.send(ada, space.id, 'Far up')
    const { message: gone } = await parley.send(ada, space.id, 'Gone')
    let last = await parley.send(bob, space.id, 'Number 0.')
    for (let at = 1; at <= 60; at++) last = await parley.send(bob, space.id, `Number ${at}.`)
    await parley.app.domain.reading.markRead(ada, { spaceId: space.id, messageId: last.message.id })
    await reply(bob, space.id, far.id, 'To the one far up')
    await reply(bob, space.id, gone.id, 'To the one that is gone')
    // Deletes the message as retention does.
    await parley.app.platform.db.prisma.message.delete({ where: { id: gone.id } })
    const { page, violations } = await openAs(ada, `/spaces/${space.id}`)
    const unread = await unreadOf(ada, space.id)
    expect(await unread()).toBe(2)
    await page.getByText('2 threads with new replies').click(PATIENCE)
    expect(await violations()).toEqual([])
    await page.getByRole('button', { name: /Far up/ }).click(PATIENCE)
    const panel = page.getByRole('region', { name: 'Thread', exact: true })
    await panel.getByRole('article').filter({ hasText: 'To the one far up' }).waitFor(PATIENCE)
    await until('the first thread is read', async () => (await unread()) === 1)
    await page.getByText('1 thread with new replies').click(PATIENCE)
    await page.getByRole('button', { name: /first message was deleted/ }).click(PATIENCE)
    await panel.getByRole('article').filter({ hasText: 'To the one that is gone' }).waitFor(PATIENCE)
    await until('the second thread is read', async () => (await unread()) === 0)
    await panel.getByRole('textbox', { name: 'Reply' }).fill('It goes on.')
    await panel.getByRole('button', { name: 'Send' }).click(PATIENCE)
    await panel.getByRole('article').filter({ hasText: 'It goes on.' }).waitFor(PATIENCE)
    await page.getByText(/with new replies/).waitFor({ ...PATIENCE, state: 'detached' })
  }, 90_000)

  test('a reply that cannot be sent waits in its thread, and a URL without a thread says so', async () => {
    const { ada, bob, space } = await twoPeople()
    const { message: root } = await parley.send(bob, space.id, 'Are you there?')
    const { page } = await openAs(ada, `/spaces/${space.id}?thread=${root.id}`, {}, { mayComplain: true })
    const panel = page.getByRole('region', { name: 'Thread', exact: true })
    await panel.getByText('Are you there?').waitFor(PATIENCE)
    await page.route('**/graphql', (route) =>
      route.request().postData()?.includes('LiveSendMessage') ? route.abort() : route.continue(),
    )
    await panel.getByRole('textbox', { name: 'Reply' }).fill('On my way')
    await panel.getByRole('button', { name: 'Send' }).click(PATIENCE)
    await panel.getByRole('status', { name: 'Not sent yet' }).getByText('On my way').waitFor(PATIENCE)
    expect(await page.locator('.talk-main').getByText('On my way').count()).toBe(0)
    await page.unroute('**/graphql')
    await panel.getByRole('button', { name: 'Try again now' }).click(PATIENCE)
    await panel.getByRole('article').filter({ hasText: 'On my way' }).waitFor(PATIENCE)
    // A URL that contains a reply as the thread opens the thread of that reply.
    const hers = await reply(bob, space.id, root.id, 'Good')
    await page.goto(`${parley.origin}/spaces/${space.id}?thread=${hers}`)
    await panel.getByRole('article').filter({ hasText: 'Good' }).waitFor(PATIENCE)
    expect(new URL(page.url()).searchParams.get('thread')).toBe(root.id)
    await page.goto(`${parley.origin}/spaces/${space.id}?thread=msg_0`)
    await page.getByRole('heading', { name: 'There is no such thread in this space' }).waitFor(PATIENCE)
  }, 90_000)
})
