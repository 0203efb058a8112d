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

/** By the keyboard is pressed what is in it: a click is lost where the transcript moves while the button is down. */
const call = (shown: ConsolePage) => shown.page.getByRole('region', { name: 'Tool call order' })

describe.skipIf(!hasBrowser)('what is decided in the console', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  /** An agent asks two people whether it may order one fleece, each in a browser. */
  async function play(name: string) {
    const { human, agent, space } = await parley.room(name, { tools: [ORDER] })
    const bob = await parley.human('Bob')
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: bob.id })
    const orders = [{ toolCall: 'order', input: { item: 'Fleece', quantity: 1 } }]
    parley.models.script(forAgent(agent.name, steps(orders, [{ text: 'ok' }])))
    const first = await openAs(human, `/spaces/${space.id}`)
    const second = await openAs(bob, `/spaces/${space.id}`)
    const { runs } = await parley.send(human, space.id, 'Order some.')
    return { first, second, bob, runs }
  }

  test('what two people must agree on is carried out once both have, as one of them has changed it', async () => {
    const { first, second, runs } = await play('Buyer')
    await call(first).getByRole('button', { name: 'I’ll handle this' }).press('Enter', PATIENCE)
    await call(second).getByText('is handling this.').waitFor(PATIENCE)
    await call(first).getByRole('button', { name: 'Edit first…' }).press('Enter')
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
      await call(shown).locator('.status').getByText('approved').waitFor(PATIENCE)
    }
    await parley.runWhen(runs[0]?.id ?? '', 'COMPLETED')
  }, 90_000)

  test('whoever edits what somebody else has changed meanwhile is told so, and overrules nobody unseen', async () => {
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
})
