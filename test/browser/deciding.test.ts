import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { type ConsolePage, PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'

const hasBrowser = hasBrowserFor("the test of the console's decisions")
const PROPERTIES = {
  item: { type: 'string' },
  quantity: { type: 'integer', minimum: 1 },
  notes: { type: 'array', items: { type: 'string' } },
}
const ORDER = {
  name: 'order',
  description: 'Orders.',
  inputSchema: { type: 'object', properties: PROPERTIES, required: ['item'] },
  execution: 'INTERNAL' as const,
  visible: true,
  approval: { quorum: 2 },
}

const DECIDE = 'mutation ($input: DecideToolCallInput!) { decideToolCall(input: $input) { __typename } }'

/** The buttons are pressed with the keyboard, because a click is lost if the transcript moves while the mouse button is down. */
const call = (shown: ConsolePage) => shown.page.getByRole('region', { name: 'Tool call order' })

describe.skipIf(!hasBrowser)('decisions in the console', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  /** Opens the consoles of two people, each in a browser, whom an agent asks to approve an order. */
  async function play(name: string) {
    const { human, agent, space } = await parley.room(name, { tools: [ORDER] })
    const bob = await parley.human('Bob')
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: bob.id })
    const orders = [{ toolCall: 'order', input: { item: 'Fleece', quantity: 1 } }]
    parley.models.script(forAgent(agent.name, steps(orders, [{ text: 'ok' }])))
    const first = await openAs(human, `/spaces/${space.id}`)
    const second = await openAs(bob, `/spaces/${space.id}`)
    const { runs, message } = await parley.send(human, space.id, 'Order some.')
    return { first, second, bob, runs, thread: `/spaces/${space.id}?thread=${message.id}` }
  }

  test('a call that needs two people is executed after both approve, with the edit of one of them', async () => {
    const { first, second, runs, thread } = await play('Buyer')
    await call(first).getByRole('button', { name: 'I’ll handle this' }).press('Enter', PATIENCE)
    await call(second).getByText('is handling this.').waitFor(PATIENCE)
    const editFirst = call(first).getByRole('button', { name: 'Edit first…' })
    await editFirst.press('Enter')
    await call(first).getByLabel('quantity').waitFor(PATIENCE)
    // Denying is still possible. Escape goes back, and does nothing else.
    await call(first).getByRole('button', { name: 'Deny' }).waitFor(PATIENCE)
    await first.page.evaluate(`history.pushState(null, '', '${thread}')`)
    const panel = first.page.getByRole('region', { name: 'Thread', exact: true })
    await panel.getByRole('textbox', { name: 'Reply' }).waitFor(PATIENCE)
    await call(first).getByLabel('quantity').focus()
    await first.page.keyboard.press('Escape')
    await editFirst.waitFor(PATIENCE)
    expect(await panel.count()).toBe(1)
    await first.page.keyboard.press('Escape')
    await panel.waitFor({ ...PATIENCE, state: 'detached' })
    await editFirst.press('Enter', PATIENCE)
    await call(first).getByLabel('quantity').fill('0', PATIENCE)
    await call(first).getByRole('button', { name: 'Approve this' }).press('Enter')
    await call(first).getByText('0 is less than 1.').waitFor(PATIENCE)
    await call(first).getByLabel('quantity').fill('2')
    await call(first).getByRole('button', { name: 'Add one' }).press('Enter')
    await call(first).getByRole('button', { name: 'Add one' }).press('Enter')
    await call(first)
      .getByLabel(/^notes-1/)
      .fill('green')
    await call(first)
      .getByLabel(/^notes-2/)
      .fill('two metres')
    await call(first).getByRole('button', { name: 'Move up' }).last().press('Enter')
    await call(first).getByRole('button', { name: 'Remove' }).last().press('Enter')
    expect(await first.violations()).toEqual([])
    await call(first).getByRole('button', { name: 'Approve this' }).press('Enter')
    for (const shown of [first, second]) await call(shown).getByText('1 of 2 approvals').waitFor(PATIENCE)
    await call(second).getByLabel('Reason').fill('It will freeze.')
    await call(second).getByRole('button', { name: 'Approve', exact: true }).press('Enter')
    for (const shown of [first, second]) {
      await call(shown).getByText('It will freeze.').waitFor(PATIENCE)
      await call(shown).getByText('two metres').waitFor(PATIENCE)
      await call(shown).locator('.status').getByText('done').waitFor(PATIENCE)
      await call(shown).getByText('The call was executed.').waitFor(PATIENCE)
    }
    await parley.runWhen(runs[0]?.id ?? '', 'COMPLETED')
  }, 90_000)

  test('an edit that would overwrite another person’s unseen edit is refused with an explanation', async () => {
    const { first, second, bob } = await play('Hasty')
    await call(first).getByRole('button', { name: 'Edit first…' }).press('Enter', PATIENCE)
    await call(first).getByLabel('quantity').fill('3', PATIENCE)
    const { id } = await parley.app.platform.db.prisma.toolCall.findFirstOrThrow({ orderBy: { id: 'desc' } })
    const input = { toolCallId: id, approve: true, input: { item: 'Foil', quantity: 9 } }
    await (await parley.clientOf(bob)).ask(DECIDE, { input })
    for (const shown of [first, second]) await call(shown).getByText('1 of 2 approvals').waitFor(PATIENCE)
    await call(second).getByText('Foil').waitFor(PATIENCE)
    await call(first).getByRole('button', { name: 'Approve this' }).press('Enter')
    await call(first)
      .getByText(/has changed: review the new input/)
      .waitFor(PATIENCE)
    expect(await call(first).getByLabel('quantity').inputValue()).toBe('3')
    await call(first).getByRole('button', { name: 'Back' }).press('Enter')
    await call(first).getByRole('button', { name: 'Edit first…' }).press('Enter')
    await expect.poll(() => call(first).getByLabel('quantity').inputValue(), PATIENCE).toBe('9')
  }, 90_000)

  const order = (item: string, quantity: number) => ({ toolCall: 'order', input: { item, quantity } })
  /** Creates a person in a room with an agent that makes these calls, one list per run. */
  async function roomWith(quorum: number, ...ofRuns: ReturnType<typeof order>[][]) {
    const tool = { ...ORDER, approval: { quorum } }
    const { human, agent, space } = await parley.room('Buyer', { tools: [tool] })
    const left = [...ofRuns]
    parley.models.script((request) => (request.step === 0 ? left.shift() : [{ text: 'ok' }]))
    const run = async () => (await parley.send(human, space.id, 'Order.')).runs[0]?.id ?? ''
    return { human, agent, space, run }
  }

  test('similar calls are decided together; a denied call is shown as denied, once', async () => {
    const { human, space, run } = await roomWith(1, [order('Fleece', 1), order('Foil', 2), order('Twine', 3)])
    const shown = await openAs(human, `/spaces/${space.id}`)
    const runId = await run()
    await call(shown).nth(2).waitFor(PATIENCE)
    for (const state of await call(shown).locator('.status').allTextContents()) expect(state).toBe('waits for approval')
    await call(shown).first().getByRole('button', { name: 'Decide on all 3 like this…' }).press('Enter', PATIENCE)
    const alike = shown.page.getByRole('region', { name: 'Waiting calls of order' })
    await alike.getByRole('listitem').nth(2).waitFor(PATIENCE)
    expect(await alike.getByRole('listitem').count()).toBe(3)
    expect(await shown.violations()).toEqual([])
    await alike.getByLabel('Reason for all').fill('It is warm.')
    await alike.getByRole('button', { name: 'Deny all 3' }).press('Enter')
    await parley.runWhen(runId, 'COMPLETED')
    await expect
      .poll(() => call(shown).locator('.status').allTextContents(), PATIENCE)
      .toEqual(['denied', 'denied', 'denied'])
    expect(await call(shown).getByText('It is warm.').allTextContents()).toHaveLength(3)
    expect(await call(shown).getByText('The call was not executed').count()).toBe(3)
    expect(await shown.page.getByText('failed').count()).toBe(0)
  }, 90_000)

  test('similar calls are allowed within limits, which past inputs preview; the grant is shown where it applies, and revoked', async () => {
    const { human, agent, space, run } = await roomWith(
      1,
      [order('Fleece', 1), order('Foil', 1), order('Fleece', 9)],
      [order('Fleece', 2)],
      [order('Fleece', 2), order('Fleece', 3)],
      [order('Fleece', 1)],
    )
    const shown = await openAs(human, `/spaces/${space.id}`)
    const { page } = shown
    const first = await run()
    await call(shown).nth(2).waitFor(PATIENCE)
    await call(shown).first().getByRole('button', { name: 'Decide on all 3 like this…' }).press('Enter', PATIENCE)
    await page.getByRole('button', { name: 'Approve all 3' }).press('Enter')
    await parley.runWhen(first, 'COMPLETED')

    const second = await run()
    const waiting = call(shown).filter({ hasText: 'waits for approval' })
    await waiting.getByRole('button', { name: 'Allow calls like this…' }).press('Enter', PATIENCE)
    const form = page.getByRole('region', { name: 'Allow calls of order' })
    await form.getByText(`by Buyer in ${space.name}`).waitFor(PATIENCE)
    // Without further input, no later call may order more than this one.
    await form.getByText('1 of the last 3 calls').waitFor(PATIENCE)
    await form.getByLabel('Quantity', { exact: true }).selectOption('ANY')
    await form.getByText('2 of the last 3 calls').waitFor(PATIENCE)
    await form.getByText('Quantity: any value').waitFor(PATIENCE)
    await form.getByLabel('Quantity', { exact: true }).selectOption('AT_MOST')
    await form.getByText('1 of the last 3 calls').waitFor(PATIENCE)
    await form.getByText('Quantity: at most 2').waitFor(PATIENCE)
    await form.getByLabel('Limit the sum of', { exact: true }).selectOption('quantity')
    await form.getByLabel('Sum of Quantity, at most').fill('4')
    await form.getByLabel('Number of calls').fill('5')
    expect(await shown.violations()).toEqual([])
    await form.getByRole('button', { name: 'Approve and allow' }).press('Enter')
    await parley.runWhen(second, 'COMPLETED')
    await call(shown).getByText('approved and allows 5 more until').waitFor(PATIENCE)

    const third = await run()
    await waiting.getByText('3', { exact: true }).waitFor(PATIENCE)
    const through = call(shown).filter({ hasText: 'under a standing grant by' })
    await through.getByRole('button', { name: 'Show the grant' }).press('Enter')
    await through.getByText('quantity: at most 2').waitFor(PATIENCE)
    await through.getByText('2 of 4 quantity').waitFor(PATIENCE)
    await page.getByRole('button', { name: /members, details/ }).press('Enter')
    const ofSpace = page.getByRole('dialog').getByRole('region', { name: 'Standing grants' })
    await ofSpace.getByText('1 of 5 calls').waitFor(PATIENCE)
    await page.keyboard.press('Escape')
    await page.goto(`${parley.origin}/agents/${agent.id}/grants`)
    const ofAgent = page.getByRole('region', { name: 'Standing grants' })
    await ofAgent.getByText('item: only "Fleece"').waitFor(PATIENCE)
    expect(await shown.violations()).toEqual([])
    await ofAgent.getByRole('button', { name: 'Revoke' }).press('Enter')
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).press('Enter', PATIENCE)
    await ofAgent.getByText('1 ended').click(PATIENCE)
    await ofAgent.getByText(/revoked by/).waitFor(PATIENCE)

    await page.goto(`${parley.origin}/spaces/${space.id}`)
    await waiting.getByRole('button', { name: 'Deny', exact: true }).press('Enter', PATIENCE)
    await parley.runWhen(third, 'COMPLETED')
    await run()
    await waiting.getByText('1', { exact: true }).waitFor(PATIENCE)
  }, 120_000)

  test('a grant for a tool that needs two approvals waits for the second person, who decides on it', async () => {
    const { human, space, run } = await roomWith(2, [order('Fleece', 1)])
    const bob = await parley.human('Bob')
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: bob.id })
    const first = await openAs(human, `/spaces/${space.id}`)
    await run()
    await call(first).getByRole('button', { name: 'Allow calls like this…' }).press('Enter', PATIENCE)
    await first.page.getByText('once 2 people have approved it').waitFor(PATIENCE)
    await first.page.getByRole('button', { name: 'Approve and allow' }).press('Enter')
    await call(first).getByText('1 of 2 approvals').waitFor(PATIENCE)
    const second = await openAs(bob, `/spaces/${space.id}`)
    const waiting = second.page.getByRole('link', { name: /Waiting for you/ })
    // The call and the grant both wait.
    await waiting.getByLabel('2 waiting').waitFor(PATIENCE)
    await waiting.press('Enter')
    const proposed = second.page.getByRole('region', { name: 'Proposed standing grants' })
    await proposed.getByText('1 of 2 approvals').waitFor(PATIENCE)
    expect(await second.violations()).toEqual([])
    await proposed.getByRole('button', { name: 'Approve the grant' }).press('Enter')
    await proposed.waitFor({ ...PATIENCE, state: 'detached' })
    await waiting.getByLabel('1 waiting').waitFor(PATIENCE)
    await first.page.getByRole('button', { name: /members, details/ }).press('Enter')
    const ofSpace = first.page.getByRole('dialog').getByRole('region', { name: 'Standing grants' })
    await ofSpace.getByText('active', { exact: true }).waitFor(PATIENCE)
    await ofSpace.getByText('0 of 10 calls').waitFor(PATIENCE)
  }, 90_000)

  test('the operator who acts as a person cannot decide and moves no read position, and the console says so', async () => {
    const tools = [{ ...ORDER, approval: { quorum: 1 } }]
    const [human, agent] = [await parley.human('Keziah'), await parley.agent('Keeper', { tools })]
    const space = await parley.space(human, [agent.id])
    const orders = [{ toolCall: 'order', input: { item: 'Fleece', quantity: 1 } }]
    parley.models.script(forAgent(agent.name, steps(orders, [{ text: 'ok' }])))
    await parley.send(human, space.id, 'Order some.')
    const shown = await openAs(parley.admin, '/people')
    const { page, message, say, violations } = shown
    const marks: string[] = []
    page.on('request', (request) => {
      if (request.postData()?.includes('ConsoleMarkRead') === true) marks.push(request.url())
    })
    await page.getByRole('button', { name: 'Act as Keziah' }).click(PATIENCE)
    await page.getByRole('status').getByText('You act as Keziah').waitFor(PATIENCE)
    await page.getByRole('status').getByText('Your messages look like Keziah’s own').waitFor(PATIENCE)
    await page.evaluate(`history.pushState(null, '', '/spaces/${space.id}')`)
    await call(shown).getByText('Only Keziah can decide.').waitFor(PATIENCE)
    for (const name of ['Approve', 'Deny'])
      expect(await call(shown).getByRole('button', { name, exact: true }).isDisabled()).toBe(true)
    expect(await call(shown).getByRole('button', { name: 'I’ll handle this' }).count()).toBe(0)
    await message('Order some.').waitFor(PATIENCE)
    // The timer of the read position is shorter, and was set earlier.
    await page.evaluate('new Promise((done) => setTimeout(done, 1000))')
    expect(marks).toEqual([])
    expect(await violations()).toEqual([])
    await say('Wait for me.')
    await message('Wait for me.').waitFor(PATIENCE)
    const { auditEntry } = parley.app.platform.db.prisma
    const recorded = await auditEntry.findMany({ where: { actorId: human.id } })
    expect(recorded.map(({ action, refused }) => [action, refused])).toContainEqual(['sendMessage', false])
    expect(recorded.filter(({ refused }) => refused)).toEqual([])
  }, 90_000)
})
