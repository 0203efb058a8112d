import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { thinkingOn } from '../support/thinking.ts'
import { until } from '../support/until.ts'

const hasBrowser = hasBrowserFor("the operator's pages' test")

describe.skipIf(!hasBrowser)("the operator's pages", () => {
  let parley: TestServer
  const { open, openAs } = playConsole((started) => {
    parley = started
  })

  test('a run is inspected while it runs: its steps, reasoning, prompts, and the runs that it started', async () => {
    const { human, agent, space } = await parley.room('Iris')
    const other = await parley.agent('Tom')
    await parley.app.domain.members.add(human, { spaceId: space.id, entityId: other.id })
    const gate = Promise.withResolvers<void>()
    const said = { toolCall: 'send_message', input: { text: 'Cover the tomatoes.' } }
    const aloud = { text: 'I think so.', chunks: ['I think ', gate.promise, 'so.'] }
    parley.models.script(forAgent('Iris', steps([said], [aloud])))
    const { runs } = await parley.send(human, space.id, 'Frost tonight?')
    const run = runs.find(({ agentId }) => agentId === agent.id)
    const { page, violations } = await openAs(parley.admin, `/runs/${run?.id}`)
    await page.getByRole('heading', { name: 'Iris’s run' }).waitFor(PATIENCE)
    await page.getByText('Cover the tomatoes.').first().waitFor(PATIENCE)
    await page.getByText('I think', { exact: false }).first().waitFor(PATIENCE)
    gate.resolve()
    await page.getByText('completed').first().waitFor(PATIENCE)
    await page.getByText('2 steps, verbatim').click()
    await page
      .getByText('You are Iris')
      .first()
      .waitFor({ ...PATIENCE, state: 'attached' })
    await page.getByLabel('Search the model input').fill('Frost tonight')
    await page.locator('mark').getByText('Frost tonight').first().waitFor(PATIENCE)
    await page.getByLabel('Search the model input').fill('')
    const second = page.locator('#prompt-2')
    await second.getByText('Compared with the previous step: 2 new messages').waitFor(PATIENCE)
    await second.getByText('calls send_message').waitFor(PATIENCE)
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: parley.origin })
    const copied = () => page.evaluate<string>('navigator.clipboard.readText()')
    await second.getByRole('button', { name: 'Copy the prompt of step 2' }).click()
    await second.getByRole('button', { name: 'Copied' }).waitFor(PATIENCE)
    expect(JSON.parse(await copied())).toMatchObject({
      instructions: expect.stringContaining('You are Iris'),
      messages: [{ role: 'user' }, { role: 'assistant' }, { role: 'tool' }],
    })
    const times = page.getByRole('region', { name: 'Times' })
    await times.getByRole('link', { name: 'Step 2' }).waitFor(PATIENCE)
    expect((await times.getByRole('listitem').allTextContents()).map((row) => row.split(':')[0])).toEqual([
      'Queued',
      'Step 1',
      'Send message',
      'Step 2',
    ])
    const origin = page.getByRole('region', { name: 'Cause' })
    await origin.getByText('Frost tonight?').waitFor(PATIENCE)
    await origin.getByText('every message wakes every agent').waitFor(PATIENCE)
    await page.getByRole('button', { name: 'Copy a link', exact: true }).click()
    await page.getByRole('button', { name: 'Copied' }).waitFor(PATIENCE)
    expect(await copied()).toBe(`${parley.origin}/runs/${run?.id}`)
    const tree = page.locator('.tree')
    await tree.getByText('Tom').first().waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    await tree.getByRole('link', { name: /Tom/ }).first().click()
    await page.getByRole('heading', { name: 'Tom’s run' }).waitFor(PATIENCE)
  }, 90_000)

  test('people see the parts of a run that they may see, and why the rest is hidden; for a failure they see what they can do', async () => {
    const { human, agent, space } = await parley.room('Wary')
    const secret = { toolCall: 'set_memories', input: { memories: [{ key: 'a', value: 'b' }] } }
    const said = { toolCall: 'send_message', input: { text: 'Noted.' } }
    const refusal = 'Incorrect API key provided'
    const thought = { text: 'What nobody should read.' }
    parley.models.script(forAgent(agent.name, steps([secret], [thought, said], [{ error: refusal, status: 401 }])))
    const { runs } = await parley.send(human, space.id, 'Note it.')
    await parley.runWhen(runs[0]?.id ?? '', 'FAILED')
    const address = `/runs/${runs[0]?.id}`
    const { page, violations } = await openAs(human, address)
    await page.getByText('You see what the agent did.').waitFor(PATIENCE)
    await page.getByText('You cannot see the input').first().waitFor(PATIENCE)
    await page.getByRole('region', { name: 'Result' }).getByText('Noted.').waitFor(PATIENCE)
    await page.getByRole('link', { name: 'See the message' }).waitFor(PATIENCE)
    await page.getByText('An admin has to correct the key').waitFor(PATIENCE)
    await page.getByText('Only admins see how long each step').waitFor(PATIENCE)
    await page.getByRole('region', { name: 'Cause' }).getByText('Note it.').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    const shown = await page.locator('main').innerText()
    for (const hidden of ['What nobody should read', refusal, 'verbatim']) expect(shown).not.toContain(hidden)

    const stranger = await openAs(await parley.human('Zed'), address)
    await stranger.page.getByText('Run not found').waitFor(PATIENCE)
    const operator = await openAs(parley.admin, `${address}#prompt-2`)
    await operator.page.getByText(refusal).first().waitFor(PATIENCE)
    await operator.page.getByText('Correct the provider under').getByRole('link', { name: 'Models' }).waitFor(PATIENCE)
    await operator.page.getByText('What nobody should read.').first().waitFor(PATIENCE)
    await operator.page.locator('#prompt-2').waitFor(PATIENCE)
  }, 90_000)

  test('an agent is created, added to a space, changed, given a tool and a memory, and triggered', async () => {
    const garden = await parley.space(await parley.human('Ada'), [], { name: 'Garden' })
    const { page, violations } = await openAs(parley.admin, '/agents')
    await page.getByRole('button', { name: 'New agent' }).click(PATIENCE)
    const fields = page.getByRole('form', { name: 'New agent' })
    await fields.getByLabel('Name', { exact: true }).fill('Noor')
    await fields.getByLabel('Instructions').fill('You keep the minutes.')
    await fields.getByLabel('Model (optional)').fill('openai.chat:test')
    await fields.getByLabel('Memory').selectOption('PERSISTENT')
    await fields.getByRole('button', { name: 'Create' }).click()
    await page.getByRole('heading', { name: 'Noor' }).waitFor(PATIENCE)
    await page.getByText('In none of your spaces.').waitFor(PATIENCE)
    await page.getByRole('button', { name: 'Add to a space' }).click(PATIENCE)
    const adding = page.getByRole('dialog', { name: 'Add Noor to a space' })
    await adding.getByLabel('Space', { exact: true }).selectOption(garden.id)
    expect(await violations()).toEqual([])
    await adding.getByRole('button', { name: 'Add', exact: true }).click()
    await page.locator('.agent-spaces').getByRole('link', { name: garden.name }).waitFor(PATIENCE)

    await page.getByRole('tab', { name: 'Settings' }).click()
    await page.getByLabel('Instructions').fill('You keep very short minutes.')
    await page.getByText('Advanced', { exact: true }).click()
    await page.getByLabel('Temperature').fill('0.2')
    await page.getByLabel('Reasoning effort').selectOption('low')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Saved.').waitFor(PATIENCE)
    expect(await violations()).toEqual([])

    await page.getByRole('tab', { name: 'Tools' }).click()
    await page.getByRole('button', { name: 'New tool' }).click()
    const tool = page.getByRole('form', { name: 'Tool' })
    await tool.getByLabel('Name', { exact: true }).fill('ask_approval')
    await tool.getByLabel('Description for the model').fill('Asks.')
    await tool.getByRole('button', { name: 'Input as JSON' }).click()
    await tool.getByLabel('Input', { exact: true }).fill('{ not json')
    await tool.getByRole('button', { name: 'Save' }).click()
    await tool.getByText('must be valid JSON').waitFor(PATIENCE)
    await tool.getByLabel('Input', { exact: true }).fill('{ "type": "object" }')
    await tool.getByRole('button', { name: 'Input as fields' }).click()
    await tool.getByRole('button', { name: 'Add a field' }).first().click()
    await tool.getByLabel('Name of field 1').fill('question')
    await tool.getByLabel('Type of field 1').selectOption('List of texts')
    await tool.getByLabel('Description of field 1').fill('One sentence each.')
    expect(await violations()).toEqual([])
    await tool.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('button', { name: 'Remove ask_approval' }).waitFor(PATIENCE)
    const made = new URL(page.url()).pathname.split('/')[2] ?? ''
    expect((await parley.app.domain.customTools.listMany([made])).get(made)).toMatchObject([
      {
        inputSchema: {
          type: 'object',
          properties: { question: { type: 'array', items: { type: 'string' }, description: 'One sentence each.' } },
          required: ['question'],
        },
        resultSchema: null,
      },
    ])

    await page.getByRole('tab', { name: 'Memory' }).click()
    await page.getByText('Write a memory').click(PATIENCE)
    await page.getByLabel('Key').fill('tea')
    await page.getByLabel('Value').fill('Ada drinks it black.')
    await page.getByRole('button', { name: 'Write', exact: true }).click()
    await page.getByRole('button', { name: 'Forget tea' }).waitFor(PATIENCE)
    expect(await violations()).toEqual([])

    await page.getByRole('button', { name: 'Pause' }).click()
    await page.getByRole('button', { name: 'Resume' }).click(PATIENCE)
    await page.getByRole('tab', { name: 'Trigger' }).click()
    await page.getByLabel('Event').fill('Frost tonight.')
    await page.getByRole('button', { name: 'Trigger', exact: true }).click()
    const receipt = page.getByRole('status').filter({ hasText: 'The event is in the agent’s inbox.' })
    await receipt.getByRole('link', { name: 'Runs' }).waitFor(PATIENCE)
    await page.reload()
    await page.getByRole('tab', { name: 'Settings' }).click(PATIENCE)
    expect(await page.getByLabel('Instructions').inputValue()).toBe('You keep very short minutes.')
    expect(await page.getByLabel('Temperature').inputValue()).toBe('0.2')
    expect(await page.getByLabel('Reasoning effort').inputValue()).toBe('low')
    expect(await page.getByLabel('Top P').inputValue()).toBe('')
  }, 90_000)

  test('the memory of a persistent agent is inspected: inbox events are dropped, the consciousness is reset, and goals are added, completed and removed', async () => {
    const thinking = thinkingOn(parley)
    const { human, agent, space } = await parley.room('Iris', { mind: 'PERSISTENT' })
    parley.models.script(() => [{ text: 'I have covered them.' }])
    await parley.send(human, space.id, 'Frost tonight.')
    await thinking.rest(agent)
    await parley.app.domain.agents.update(parley.admin, { id: agent.id, paused: true })
    await parley.send(human, space.id, 'Rain tomorrow.')
    const { page, violations } = await openAs(parley.admin, `/agents/${agent.id}/mind`)
    const part = (name: string) =>
      page.locator('section').filter({ has: page.getByRole('heading', { name, exact: true }) })
    const [inbox, thoughts, goals] = [part('Inbox'), part('Earlier thoughts'), part('Goals')]
    await inbox.getByText('Rain tomorrow.').waitFor(PATIENCE)
    await thoughts.getByText('1 run, about').waitFor(PATIENCE)
    await thoughts
      .getByText('I have covered them.')
      .first()
      .waitFor({ ...PATIENCE, state: 'attached' })
    await goals.getByText('Add a goal').click()
    await goals.getByRole('textbox', { name: 'Goal' }).fill('Save the tomatoes.')
    await goals.getByRole('button', { name: 'Add', exact: true }).click()
    await goals.getByRole('button', { name: 'Mark completed' }).click(PATIENCE)
    await goals.getByRole('button', { name: 'Mark abandoned' }).waitFor(PATIENCE)
    expect(await violations()).toEqual([])

    const confirm = (title: string, button: string) =>
      page.getByRole('dialog', { name: title }).getByRole('button', { name: button, exact: true }).click(PATIENCE)
    await goals.getByRole('button', { name: 'Remove this goal' }).click()
    await confirm('Delete this goal?', 'Delete')
    await goals.getByText('No goals yet.').waitFor(PATIENCE)
    await inbox.getByRole('button', { name: 'Remove from the inbox' }).click()
    await confirm('Remove this event?', 'Remove')
    await inbox.getByText('Empty: every event was processed.').waitFor(PATIENCE)
    await thoughts.getByRole('button', { name: 'Reset' }).click()
    await confirm('Reset the earlier thoughts?', 'Reset')
    await thoughts.getByText('0 runs, about').waitFor(PATIENCE)
    expect(await thinking.runsOf(agent)).toHaveLength(1)
  }, 90_000)

  test('a person is created and invited, and the link signs in once; their token is revoked; an admin acts as them', async () => {
    const { page, violations } = await openAs(parley.admin, '/people')
    await page.getByRole('button', { name: 'Add person' }).click(PATIENCE)
    const dialog = page.getByRole('dialog', { name: 'Add person' })
    await dialog.getByLabel('Name').fill('Carol', PATIENCE)
    await dialog.getByText('You get a link to pass on. This server sends no email.').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    await dialog.getByRole('button', { name: 'Add and invite' }).click()
    const link = await dialog.locator('.secret code').filter({ hasText: '/invitations/' }).textContent(PATIENCE)
    await dialog.locator('.secret').getByText('Valid until').waitFor(PATIENCE)
    await dialog.getByText('This link works on this computer only.').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    await dialog.getByRole('button', { name: 'Done' }).click()
    const invitations = page.getByRole('region', { name: 'Open invitations' })
    await invitations.getByText('Carol by link').waitFor(PATIENCE)
    const invited = await open({ path: new URL(link ?? '', parley.origin).pathname }, { mayComplain: true })
    await invited.page.getByRole('button', { name: 'Accept and sign in' }).click(PATIENCE)
    await invited.page.getByText('You are Carol').waitFor(PATIENCE)
    const again = await open({ path: new URL(link ?? '', parley.origin).pathname }, { mayComplain: true })
    await again.page.getByText('The link does not exist, has expired or was already used.').waitFor(PATIENCE)
    const { prisma } = parley.app.platform.db
    const carol = await prisma.entity.findFirstOrThrow({ where: { name: 'Carol' } })
    const program = await openAs({ ...(await parley.human('Nobody')), id: carol.id }, '/', {}, { mayComplain: true })
    await program.page.getByText('You are Carol').waitFor(PATIENCE)
    await page.reload()
    await page.getByRole('listitem').filter({ hasText: 'Carol' }).first().waitFor(PATIENCE)
    await invitations.getByText('Carol').waitFor({ ...PATIENCE, state: 'hidden' })
    await page.getByRole('button', { name: 'Revoke a token of Carol' }).click(PATIENCE)
    const revoking = page.getByRole('dialog', { name: 'Revoke the token of Carol?' })
    await revoking.getByText('Carol is signed out wherever this token signed in.').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    await revoking.getByRole('button', { name: 'Back' }).click()
    await revoking.waitFor({ ...PATIENCE, state: 'hidden' })
    await program.page.getByText('You are Carol').waitFor(PATIENCE)
    await page.getByRole('button', { name: 'Revoke a token of Carol' }).click(PATIENCE)
    await revoking.getByRole('button', { name: 'Revoke', exact: true }).click()
    await revoking.waitFor({ ...PATIENCE, state: 'hidden' })
    await program.page.getByText('Your session has ended. Sign in again.').waitFor(PATIENCE)
    await invited.page.getByText('You are Carol').waitFor(PATIENCE)
    await page.getByRole('button', { name: 'Act as Carol' }).click(PATIENCE)
    await page.getByText('You are Carol').waitFor(PATIENCE)
    await page.getByRole('status').getByText('You act as Carol until').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await page.getByText('You are the operator').waitFor(PATIENCE)

    await page.evaluate(`history.pushState(null, '', '/people')`)
    await page.getByRole('link', { name: 'Settings of Carol' }).click(PATIENCE)
    const role = page.getByRole('form', { name: 'Role of Carol' })
    const what = role.getByLabel('Rights of Carol')
    await what.selectOption('Admin: also manages people, agents, models and all spaces', PATIENCE)
    await role.getByRole('button', { name: 'Set role' }).click()
    await role.getByText('Saved.').waitFor(PATIENCE)
    const budget = page.getByRole('region', { name: 'Budget' })
    await budget.getByLabel('Tokens per day').fill('5000')
    await budget.getByRole('button', { name: 'Set budget' }).click()
    await budget.getByText('0 of 5,000').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    await page.getByRole('link', { name: 'All people' }).click()
    await page.getByRole('listitem').filter({ hasText: 'Carol' }).getByText('admin', { exact: true }).waitFor(PATIENCE)
  }, 90_000)

  test('an open invitation is replaced by a new link, and revoked', async () => {
    const { page, violations } = await openAs(parley.admin, '/people')
    const person = await parley.human('Dora')
    await page.reload()
    await page.getByRole('button', { name: 'Invite Dora' }).click(PATIENCE)
    const dialog = page.getByRole('dialog', { name: 'Invite Dora' })
    await dialog.getByRole('button', { name: 'Invite', exact: true }).click(PATIENCE)
    const linkIn = async (place: typeof dialog) =>
      new URL((await place.locator('.secret code').textContent(PATIENCE)) ?? '').pathname
    const first = await linkIn(dialog)
    await dialog.getByRole('button', { name: 'Done' }).click()
    const invitations = page.getByRole('region', { name: 'Open invitations' })
    const row = invitations.getByRole('listitem').filter({ hasText: 'Dora' })
    await row.getByText('invited by the operator').waitFor(PATIENCE)
    await row.getByText('valid until').waitFor(PATIENCE)
    await row.getByRole('button', { name: 'New link for Dora' }).click()
    const second = await linkIn(invitations)
    expect(second).not.toBe(first)
    const { prisma } = parley.app.platform.db
    const open = () => prisma.invitation.count({ where: { humanId: person.id } })
    await until('only the new link is listed', async () => (await open()) === 1 && (await row.count()) === 1)
    await row.getByRole('button', { name: 'Revoke the invitation of Dora' }).click(PATIENCE)
    const revoking = page.getByRole('dialog', { name: 'Revoke the invitation of Dora?' })
    await revoking.getByText('Dora stays in the list of people').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    await revoking.getByRole('button', { name: 'Revoke', exact: true }).click()
    await row.waitFor({ ...PATIENCE, state: 'hidden' })
    expect(await open()).toBe(0)
    expect(await violations()).toEqual([])
    for (const path of [first, second]) expect((await fetch(parley.origin + path, { method: 'POST' })).status).toBe(404)
  }, 60_000)

  test('an admin adds a person with an address, ends the sessions of a lost laptop, and removes the person with their messages', async () => {
    const { page, violations } = await openAs(parley.admin, '/people')
    await page.getByRole('button', { name: 'Add person' }).click(PATIENCE)
    const fields = page.getByRole('dialog', { name: 'Add person' })
    await fields.getByLabel('Name').fill('Danilo', PATIENCE)
    await fields.getByRole('button', { name: 'Add and invite' }).click()
    await fields.getByRole('button', { name: 'Add another person' }).click(PATIENCE)
    expect(await fields.getByLabel('Name').inputValue()).toBe('')
    await fields.getByLabel('Name').fill('Emilka', PATIENCE)
    await fields.getByLabel('Email address').fill('emilka@example.com')
    await fields.getByRole('button', { name: 'Add and invite' }).click()
    await fields.getByRole('button', { name: 'Done' }).click(PATIENCE)
    const people = page.getByRole('region', { name: 'People', exact: true }).getByRole('listitem')
    await people.filter({ hasText: 'Danilo' }).getByText('no email').waitFor(PATIENCE)
    await people.filter({ hasText: 'Emilka' }).waitFor(PATIENCE)
    expect(await people.filter({ hasText: 'Emilka' }).getByText('no email').count()).toBe(0)

    await people.getByRole('link', { name: 'Danilo', exact: true }).click(PATIENCE)
    const address = page.getByRole('form', { name: 'Address of Danilo' })
    await address.getByLabel('Address').fill('danilo@example.com', PATIENCE)
    await address.getByRole('button', { name: 'Set address' }).click()
    await address.getByText('Saved.').waitFor(PATIENCE)

    const { prisma } = parley.app.platform.db
    const dan = await prisma.entity.findFirstOrThrow({ where: { name: 'Danilo', email: 'danilo@example.com' } })
    const human = { ...(await parley.human('Eve')), id: dan.id }
    const space = await parley.space(human, [], { name: 'Garden' })
    await parley.send(human, space.id, 'Good-bye')
    const [laptop, phone] = [
      await openAs(human, `/spaces/${space.id}`, {}, { mayComplain: true }),
      await openAs(human, '/', {}, { mayComplain: true }),
    ]
    for (const lost of [laptop, phone]) await lost.page.getByText('You are Danilo').waitFor(PATIENCE)
    await page.reload()
    const sessions = page.getByRole('region', { name: 'Sessions of Danilo' })
    await sessions.getByRole('listitem').nth(1).waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    await sessions.getByRole('button', { name: 'Sign out everywhere' }).click()
    for (const lost of [laptop, phone])
      await lost.page.getByText('Your session has ended. Sign in again.').waitFor(PATIENCE)
    await sessions.getByText('No browser is signed in as Danilo.').waitFor(PATIENCE)

    await page.getByRole('button', { name: 'Remove this person…' }).click()
    const dialog = page.getByRole('dialog', { name: 'Remove Danilo?' })
    await dialog.getByText('This cannot be undone.').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    await dialog.getByLabel('Also remove their messages').check()
    await dialog.getByRole('button', { name: 'Remove Danilo' }).click()
    // The page of the removed person closes.
    await people.filter({ hasText: 'Emilka' }).waitFor(PATIENCE)
    await page.getByRole('link', { name: 'Settings of Danilo' }).waitFor({ ...PATIENCE, state: 'hidden' })
    expect(await prisma.entity.findUnique({ where: { id: dan.id } })).toMatchObject({ name: 'Erased', email: null })
    expect(await prisma.message.findFirst({ where: { senderId: dan.id } })).toMatchObject({ parts: [] })
  }, 90_000)

  test('usage is plotted by day and listed by agent, and every other page works', async () => {
    const { human, space } = await parley.room('Iris')
    parley.models.script(
      forAgent('Iris', steps([{ toolCall: 'send_message', input: { text: 'Yes.' } }], [{ text: 'ok' }])),
    )
    const { runs } = await parley.send(human, space.id, 'Hello?')
    await parley.runWhen(runs[0]?.id ?? '', 'COMPLETED')
    const { page, violations } = await openAs(parley.admin, '/usage')
    await page.getByRole('row', { name: /Iris/ }).first().waitFor(PATIENCE)
    await page.getByRole('button', { name: 'Spaces' }).click()
    await page
      .getByRole('row', { name: new RegExp(space.name) })
      .first()
      .waitFor(PATIENCE)
    expect(await page.getByRole('list', { name: 'Tokens by day' }).getByRole('listitem').count()).toBe(7)
    expect(await violations()).toEqual([])
    for (const [link, heading] of [
      ['Runs', 'Runs'],
      ['Agents', 'Agents'],
      ['Get started', 'Get started'],
    ] as const) {
      await page.getByRole('link', { name: link, exact: true }).click()
      await page.getByRole('heading', { name: heading, exact: true, level: 1 }).waitFor(PATIENCE)
      expect([link, await violations()]).toEqual([link, []])
    }
  }, 90_000)
})
