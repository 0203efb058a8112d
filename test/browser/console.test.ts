import type { WebSocketRoute } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { hasBrowserFor } from '../support/browser.ts'
import { type ConsolePage, PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const hasBrowser = hasBrowserFor("the console's test")
const UNFINISHED = ['QUEUED', 'RUNNING', 'WAITING_TOOL'] as const
const approval = {
  name: 'ask_approval',
  description: 'Asks.',
  inputSchema: { type: 'object' },
  execution: 'SPACE' as const,
}

describe.skipIf(!hasBrowser)('the console in a browser without internet', () => {
  let parley: TestServer
  const { open } = playConsole((started) => {
    parley = started
  })

  /** Opens the console of a person at the person's space. */
  async function openSpace(human: HumanViewer, space: { id: string; name: string }, options = {}) {
    const shown = await open({ path: `/spaces/${space.id}`, ...options })
    await shown.signIn(await parley.tokenOf(human))
    await shown.page.getByRole('heading', { name: space.name, exact: true }).waitFor(PATIENCE)
    return shown
  }

  const countGardens = () => parley.app.platform.db.prisma.space.count({ where: { name: 'Garden', deletedAt: null } })

  test('Try it plays an example scene, which exists once: each suggestion does what its label says, once, and an order waits for approval', async () => {
    const { page, signIn, message, violations } = await open()
    await signIn(await parley.tokenOf(parley.admin))
    await page.getByLabel('The agents’ model').selectOption('demo', PATIENCE)
    await page.getByRole('button', { name: 'Try it' }).dblclick(PATIENCE)
    await page.getByText('You are Ada').waitFor(PATIENCE)
    expect(await countGardens()).toBe(1)
    const suggested = page.getByRole('region', { name: 'Suggested messages' }).getByRole('button')
    await suggested.first().waitFor(PATIENCE)
    expect(await suggested.allTextContents()).toEqual([
      'Who is here?',
      'Will there be frost tonight?',
      'Order two rolls of fleece',
    ])
    expect(await violations()).toEqual([])
    const shownAtRest = async () => {
      const { run } = parley.app.platform.db.prisma
      await until('no run is left', async () => (await run.count({ where: { status: { in: [...UNFINISHED] } } })) === 0)
      await page.locator('.activity').waitFor({ ...PATIENCE, state: 'hidden' })
      return page.getByRole('article').count()
    }

    await suggested.filter({ hasText: 'Who is here?' }).dblclick(PATIENCE)
    await message('In "Garden" there are Ada (human)').waitFor(PATIENCE)
    expect(await shownAtRest()).toBe(2)

    await suggested.filter({ hasText: 'frost' }).click(PATIENCE)
    await message('Yes, frost from three').getByRole('table').waitFor(PATIENCE)
    await message('Who orders the rest?').waitFor(PATIENCE)
    expect(await shownAtRest()).toBe(5)
    await page.reload()
    await suggested.first().waitFor(PATIENCE)
    expect(await suggested.allTextContents()).toEqual(['Order two rolls of fleece'])

    await suggested.click(PATIENCE)
    const order = page.getByRole('region', { name: 'Tool call order_fleece' })
    await order.getByRole('button', { name: 'Approve' }).click(PATIENCE)
    await message('Ordered: two rolls of fleece, here before dusk.').waitFor(PATIENCE)
    await shownAtRest()
    expect([await suggested.count(), await order.count()]).toEqual([0, 1])
    await message('Ordered: two rolls of fleece').getByText('here before dusk').waitFor(PATIENCE)
    await message('Order two rolls').getByText('woke').click()
    await page.getByText('Open its run').first().waitFor(PATIENCE)
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Operator' }).click(PATIENCE)
    await page.getByRole('heading', { name: 'Get started' }).waitFor(PATIENCE)
    await page.getByText('The example already exists: the space Garden with Ada').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    await page.getByRole('button', { name: 'Continue as Ada' }).click()
    await page.getByRole('status').getByText('You act as Ada until').waitFor(PATIENCE)
    await message('Ordered: two rolls of fleece').waitFor(PATIENCE)
    expect(await countGardens()).toBe(1)
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await page.getByRole('link', { name: 'Get started' }).click(PATIENCE)
    await page.getByRole('link', { name: 'Add a provider' }).click(PATIENCE)
    await page.getByRole('form', { name: 'Add provider' }).waitFor(PATIENCE)
  }, 90_000)

  test('Try it by an admin who is a person creates the space for them, and no other person', async () => {
    const human = await parley.human('Livia')
    await parley.app.domain.humans.update(parley.admin, { id: human.id, role: 'ADMIN' })
    const before = await parley.space(human, [], { name: 'Orchard' })
    const { page } = await openSpace(human, before)
    await page.evaluate(`history.pushState(null, '', '/start')`)
    await page.getByLabel('The agents’ model').selectOption('demo', PATIENCE)
    const { entity, membership } = parley.app.platform.db.prisma
    const people = await entity.count({ where: { kind: 'HUMAN' } })
    await page.getByRole('button', { name: 'Try it' }).click(PATIENCE)
    await page.getByRole('heading', { name: 'Garden', exact: true }).waitFor(PATIENCE)
    await page.getByText('You are Livia').waitFor(PATIENCE)
    await page.getByRole('link', { name: 'Orchard' }).waitFor(PATIENCE)
    expect(await entity.count({ where: { kind: 'HUMAN' } })).toBe(people)
    const spaceId = new URL(page.url()).pathname.split('/').at(-1) ?? ''
    expect(await membership.count({ where: { spaceId, entityId: human.id } })).toBe(1)
    expect(await page.getByRole('region', { name: 'Suggested messages' }).getByRole('button').count()).toBe(3)
    await page.getByRole('link', { name: 'Get started' }).click()
    await page.getByRole('button', { name: 'Open Garden' }).click(PATIENCE)
    await page.waitForURL(`${parley.origin}/spaces/${spaceId}`)
  }, 90_000)

  test('a text streams alike in two browsers, and stopping it in the second browser ends it', async () => {
    const { human, agent, space } = await parley.room('Slow')
    const said = { toolCall: 'send_message', chunks: ['{"text":"', 'The first half', new Promise(() => {}), '"}'] }
    parley.models.script(forAgent(agent.name, steps([said])))
    const first = await openSpace(human, space)
    const second = await openSpace(human, space)
    await first.say('Tell me.')
    for (const { message } of [first, second]) await message('The first half').waitFor(PATIENCE)
    await second.page.getByRole('button', { name: 'Stop Slow' }).click(PATIENCE)
    for (const { message, page } of [first, second]) {
      await message('The first half').getByText('was interrupted').waitFor(PATIENCE)
      await page.getByRole('button', { name: 'Stop Slow' }).waitFor({ ...PATIENCE, state: 'hidden' })
    }
  }, 90_000)

  test('Markdown is rendered, and markup in a name or message is shown as text', async () => {
    const attack = '<img src=x onerror="alert(1)"><script>alert(2)</script>'
    const agent = await parley.agent(attack)
    const human = await parley.human('Ada')
    const space = await parley.space(human, [agent.id], { name: 'Garden' })
    const text = `${attack}\n\n**bold** [away](https://example.com/x) [bad](javascript:alert(3)) ![picture](https://example.com/p.png)\n\n| a | b |\n|---|---|\n| 1 | 2 |`
    await parley.send(human, space.id, text)
    const { page, message } = await openSpace(human, space)
    await message(attack).waitFor(PATIENCE)
    expect(await page.locator('main img, main script').count()).toBe(0)
    expect(await page.locator('main strong').getByText('bold').count()).toBe(1)
    expect(await page.locator('main table td').count()).toBe(2)
    const link = page.getByRole('link', { name: /^away/ })
    expect([await link.getAttribute('href'), await link.getAttribute('rel')]).toEqual([
      'https://example.com/x',
      'noopener noreferrer nofollow ugc',
    ])
    expect(await page.locator('a[href^="javascript"]').count()).toBe(0)
    await page.getByRole('button', { name: /members, details/ }).click()
    await page.getByRole('dialog').getByText(attack).first().waitFor(PATIENCE)
  }, 90_000)

  test('a failure is shown in place, with what the user can do, and can be retried', async () => {
    const { human, agent, space } = await parley.room('Broken')
    parley.models.script(forAgent(agent.name, () => [{ error: 'Incorrect API key provided', status: 401 }]))
    const { page, message, say } = await openSpace(human, space)
    await say('Hello? Anybody?')
    const failed = message('Hello? Anybody?')
    await failed.getByText('Broken could not answer.').waitFor(PATIENCE)
    await failed.getByText('An admin has to correct the key').first().waitFor(PATIENCE)
    await say('Still nobody?')
    const again = message('Still nobody?')
    await again.getByText('Broken could not answer.').waitFor(PATIENCE)
    // The older of two equal failures has only a line, with the error and Retry behind it.
    await failed.getByText('could not answer').waitFor({ ...PATIENCE, state: 'detached' })
    await failed.getByRole('button', { name: /Which agents woke/ }).click()
    const details = page.getByRole('dialog', { name: 'Which agents woke, and why' })
    await details.getByText('An admin has to correct the key').first().waitFor(PATIENCE)
    await details.getByRole('button', { name: 'Retry' }).waitFor(PATIENCE)
    await page.keyboard.press('Escape')
    parley.models.reset()
    parley.models.script(forAgent(agent.name, steps([{ toolCall: 'send_message', input: { text: 'Here I am.' } }])))
    await again.getByRole('button', { name: 'Retry' }).click()
    await message('Here I am.').waitFor(PATIENCE)
    await again.getByText('could not answer').waitFor({ ...PATIENCE, state: 'detached' })
    await page.getByRole('heading', { name: space.name, exact: true }).waitFor()
  }, 90_000)

  test('a waiting call is answered from the second of two browsers, and both show it', async () => {
    const { human, agent, space } = await parley.room('Asker', { tools: [approval] })
    const asks = [{ toolCall: 'ask_approval', input: { question: 'A barbecue?' } }]
    parley.models.script(forAgent(agent.name, steps(asks, [{ text: 'ok' }])))
    const first = await openSpace(human, space)
    const second = await openSpace(human, space)
    const { runs } = await parley.send(human, space.id, 'Ask me')
    const call = (shown: ConsolePage) => shown.page.getByRole('region', { name: 'Tool call ask_approval' })
    await call(first).getByText('A barbecue?').waitFor(PATIENCE)
    await call(second).getByRole('button', { name: 'Answer in words…' }).click(PATIENCE)
    await call(second).getByLabel('Your answer').fill('{ "approved": "by Ada" }')
    await call(second).getByRole('button', { name: 'Answer', exact: true }).click()
    for (const shown of [first, second]) await call(shown).getByText('by Ada').waitFor(PATIENCE)
    await parley.runWhen(runs[0]?.id ?? '', 'COMPLETED')
  }, 90_000)

  test('a person creates a space with an agent by keyboard only, and mentions the agent by name', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [], { name: 'Garden' })
    const agent = await parley.agent('Quick')
    parley.models.script(forAgent(agent.name, steps([{ toolCall: 'send_message', input: { text: 'At once.' } }])))
    const { page, message } = await openSpace(human, space)
    await page.getByRole('button', { name: 'New space' }).press('Enter')
    const fields = page.getByRole('form', { name: 'New space' })
    await fields.getByLabel('Name', { exact: true }).fill('Cellar')
    await fields.getByLabel('Quick').press('Space', PATIENCE)
    await fields.getByRole('button', { name: 'Create' }).press('Enter')
    await page.getByRole('heading', { name: 'Cellar', exact: true }).waitFor(PATIENCE)
    const field = page.getByRole('textbox', { name: 'Message' })
    await field.pressSequentially('Hello @qui')
    await page.getByRole('option', { name: 'Quick' }).waitFor(PATIENCE)
    await field.press('Enter')
    await page.getByText('Goes to Quick.').waitFor(PATIENCE)
    await field.pressSequentially('now')
    await field.press('Enter')
    await message('Hello @Quick now').getByText('to @Quick').waitFor(PATIENCE)
    await message('Hello @Quick now').getByText('Quick woke').click()
    await page.getByText('This agent was mentioned.').waitFor(PATIENCE)
    await page.keyboard.press('Escape')
    await message('At once.').waitFor(PATIENCE)
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox', { name: /^Search spaces, people, agents/ }).fill('gard')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Garden', exact: true }).waitFor(PATIENCE)
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox', { name: /^Search spaces, people, agents/ }).fill('dark')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Light colours' }).waitFor(PATIENCE)
    expect(await page.evaluate('document.documentElement.dataset.theme')).toBe('dark')
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox', { name: /^Search spaces, people, agents/ }).fill('sign')
    await page.keyboard.press('Enter')
    await page.getByLabel('Token').waitFor(PATIENCE)
  }, 90_000)

  test('Ctrl K finds people: it opens the space of the two, or the form for one; for the operator, the page of the person', async () => {
    const [ada, bert] = [await parley.human('Ada'), await parley.human('Bertram')]
    const agent = await parley.agent('Iris')
    const memberIds = [ada.id, bert.id, agent.id]
    const input = { name: 'With an agent', routing: 'BROADCAST' as const, memberIds }
    const { page, violations, signIn } = await openSpace(
      ada,
      await parley.app.domain.spaces.create(parley.admin, input),
    )
    const find = async (name: string) => {
      await page.keyboard.press('Control+k')
      await page.getByRole('combobox', { name: /^Search spaces, people, agents/ }).fill(name)
      await page.getByRole('option', { name: 'Bertram person' }).waitFor(PATIENCE)
    }
    await find('bertr')
    expect(await violations()).toEqual([])
    await page.keyboard.press('Enter')
    const form = page.getByRole('form', { name: 'New space' })
    expect(await form.getByLabel('Name', { exact: true }).inputValue(PATIENCE)).toBe('Ada and Bertram')
    expect(await form.getByRole('checkbox', { name: 'Bertram' }).isChecked()).toBe(true)
    await form.getByRole('button', { name: 'Create' }).click()
    await page.getByRole('heading', { name: 'Ada and Bertram', level: 1 }).waitFor(PATIENCE)
    const address = page.url()
    await page.getByRole('link', { name: /With an agent/ }).click()
    await page.getByRole('heading', { name: 'With an agent', level: 1 }).waitFor(PATIENCE)
    await find('Bertr')
    // The name of the space that the two share contains his name too.
    await page.getByRole('option', { name: 'Bertram person' }).click()
    await page.getByRole('heading', { name: 'Ada and Bertram', level: 1 }).waitFor(PATIENCE)
    expect(page.url()).toBe(address)

    await page.getByRole('button', { name: 'Sign out' }).click()
    await signIn(await parley.tokenOf(parley.admin))
    await page.getByText('You are the operator').waitFor(PATIENCE)
    await find('Bertr')
    await page.getByRole('option', { name: 'Bertram person' }).click()
    await page.getByRole('form', { name: 'Role of Bertram' }).waitFor(PATIENCE)
    expect(new URL(page.url()).pathname).toBe(`/people/${bert.id}`)
  }, 90_000)

  test('the composer shows whom a message wakes, and mentions people and agents', async () => {
    const [human, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    const agents = [await parley.agent('Iris'), await parley.agent('Jo')]
    const memberIds = [human, bob, ...agents].map(({ id }) => id)
    const input = { name: 'Shed', routing: 'BROADCAST' as const, memberIds }
    const space = await parley.app.domain.spaces.create(parley.admin, input)
    const { page, message } = await openSpace(human, space)
    const field = page.getByRole('textbox', { name: 'Message' })
    // In this space, a mention does not restrict which agents wake.
    await field.fill('@Jo hello')
    await page.getByText('Goes to Iris and Jo.').waitFor(PATIENCE)
    await parley.app.domain.agents.update(parley.admin, { id: agents[0]?.id ?? '', paused: true })
    await page.getByText('Goes to Jo.').waitFor(PATIENCE)
    await field.fill('@Bob and @Jo, hello')
    await field.press('Enter')
    await message('@Bob and @Jo, hello').getByText('to @Bob, @Jo').waitFor(PATIENCE)
  }, 90_000)

  test('the list of members opens for a mention at the place of an earlier one that was sent, closed or replaced', async () => {
    const [human, nora, iris] = [await parley.human('Ada'), await parley.human('Nora'), await parley.agent('Iris')]
    const memberIds = [human.id, nora.id, iris.id]
    const input = { name: 'Shed', routing: 'BROADCAST' as const, memberIds }
    const space = await parley.app.domain.spaces.create(parley.admin, input)
    const { page, message } = await openSpace(human, space)
    const field = page.getByRole('textbox', { name: 'Message' })
    const option = (name: string) => page.getByRole('option', { name })
    await page.getByRole('button', { name: 'Skip to the message field' }).press('Enter', PATIENCE)
    await page.waitForFunction(() => document.activeElement?.getAttribute('aria-label') === 'Message')
    await page.getByRole('button', { name: 'Mention somebody' }).click()
    await option('Iris').waitFor(PATIENCE)
    expect((await page.getByRole('option').allTextContents()).map((text) => text.replace(/^\S+ /, ''))).toEqual([
      'Irisagent',
      'Nora',
    ])
    await field.press('Backspace')
    for (const [typed, name] of [
      ['@No', 'Nora'],
      ['@Ir', 'Iris'],
      ['@No', 'Nora'],
    ] as const) {
      await field.pressSequentially(typed)
      await option(name).waitFor(PATIENCE)
      await field.press('Enter')
      await option(name).waitFor({ ...PATIENCE, state: 'hidden' })
      await field.pressSequentially('hello')
      await field.press('Enter')
      await until('the message was sent', async () => (await field.inputValue()) === '')
      await message(`@${name} hello`).getByText(`to @${name}`).first().waitFor(PATIENCE)
    }
    await field.pressSequentially('@Ir')
    await option('Iris').waitFor(PATIENCE)
    await field.press('Escape')
    await field.pressSequentially('i')
    expect(await option('Iris').count()).toBe(0)
    await field.press('Control+a')
    await field.press('Delete')
    await field.pressSequentially('@Ir')
    await option('Iris').waitFor(PATIENCE)
    await field.press('Enter')
    await field.pressSequentially('hello')
    await field.press('Control+a')
    await field.pressSequentially('@No')
    await option('Nora').waitFor(PATIENCE)
  }, 90_000)

  test('after a lost connection it resumes without gaps or duplicates', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [], { name: 'Garden' })
    const sockets: { route: WebSocketRoute; sent: string[] }[] = []
    let mayConnect = true
    const shown = await open()
    await shown.page.routeWebSocket(/\/graphql$/, (route) => {
      if (!mayConnect) return void route.close({ code: 1013 })
      const socket = { route, sent: [] as string[] }
      sockets.push(socket)
      const server = route.connectToServer()
      route.onMessage((message) => {
        socket.sent.push(String(message))
        server.send(message)
      })
    })
    await shown.page.reload()
    await shown.signIn(await parley.tokenOf(human))
    await shown.page.getByRole('heading', { name: 'Garden', exact: true }).waitFor(PATIENCE)
    await parley.send(human, space.id, 'one')
    await shown.message('one').waitFor(PATIENCE)
    mayConnect = false
    await sockets[0]?.route.close({ code: 1012 })
    await shown.page.getByText('Connection lost').waitFor(PATIENCE)
    await parley.send(human, space.id, 'two')
    mayConnect = true
    await shown.message('two').waitFor(PATIENCE)
    await shown.page.getByText('Connection lost').waitFor({ ...PATIENCE, state: 'detached' })
    await parley.send(human, space.id, 'three')
    await shown.message('three').waitFor(PATIENCE)
    expect(await shown.page.getByRole('article').locator('.markdown').allTextContents()).toEqual([
      'one',
      'two',
      'three',
    ])
    const resumed = sockets.at(-1)?.sent.find((message) => message.includes('spaceMessages')) ?? ''
    expect(JSON.parse(resumed).payload.variables.after).toEqual(expect.any(String))
  }, 90_000)

  test('an invalid token is reported in plain words, another can be entered, and it stays in the tab', async () => {
    const { page, signIn } = await open()
    await signIn('wrong')
    await page.getByRole('alert').getByText('This token is not valid.').waitFor(PATIENCE)
    expect(await page.getByLabel('Token').inputValue()).toBe('wrong')
    await signIn(await parley.tokenOf(await parley.human('Ada')))
    await page.getByText('You are Ada').waitFor(PATIENCE)
    expect(await page.evaluate('JSON.stringify(localStorage) + document.cookie + location.href')).toBe(
      `{}${parley.origin}/`,
    )
    const service = {
      scope: 'SERVICE' as const,
      id: 'acc_x',
      tokenId: null,
      expiresAt: null,
      name: 'ci',
      agentIds: null,
    }
    const other = await open()
    await other.signIn(await parley.tokenOf(service))
    await other.page.getByText('Signed in as the service ci').first().waitFor(PATIENCE)
  }, 90_000)

  test('on a phone the transcript fills the page, and scrolling loads a long history', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [], { name: 'Garden' })
    for (let at = 1; at <= 60; at++) await parley.send(human, space.id, `Number ${at}.`)
    const { page, message, violations } = await openSpace(human, space, { width: 360, height: 740 })
    await message('Number 60.').waitFor(PATIENCE)
    const timeline = page.getByRole('region', { name: 'Conversation' })
    const box = await timeline.boundingBox()
    expect(box?.height).toBeGreaterThan(500)
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360)
    await timeline.hover()
    await until('the first message is in view', async () => {
      await page.mouse.wheel(0, -600)
      return message('Number 1.').isVisible()
    })
    await message('Number 1.').waitFor(PATIENCE)
    expect(await page.getByRole('article').count()).toBeLessThan(45)
    await parley.send(human, space.id, 'Number 61.')
    await page.getByRole('button', { name: '1 new' }).click(PATIENCE)
    await message('Number 61.').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    await page.getByRole('button', { name: 'Open the sidebar' }).click()
    await page.getByRole('link', { name: /^Garden/ }).click()
    await page.getByRole('link', { name: /^Garden/ }).waitFor({ ...PATIENCE, state: 'hidden' })
  }, 90_000)
})
