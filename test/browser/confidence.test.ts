import { describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { hasBrowserFor } from '../support/browser.ts'
import { type ConsolePage, PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'

const hasBrowser = hasBrowserFor("the confidential spaces' test")
const MEANING = 'Agents repeat messages from here only where every reader is also a member of this space.'

describe.skipIf(!hasBrowser)('confidential spaces in the console', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  const lineOf = ({ page }: ConsolePage) => page.getByRole('main').getByText(`Confidential. ${MEANING}`)
  const widthOf = ({ page }: ConsolePage) => page.evaluate('document.documentElement.scrollWidth')

  async function openDetails({ page }: ConsolePage) {
    await page.getByRole('button', { name: /members, details/ }).click(PATIENCE)
    return page.getByRole('dialog').getByRole('region', { name: 'Confidentiality' })
  }

  test('a person makes a new space confidential and sees the consequences; only an admin can undo it', async () => {
    const { human, agent, space } = await parley.room('Iris', {}, { name: 'Kitchen' })
    const ada = await openAs(human, `/spaces/${space.id}`, { width: 360, height: 740 })
    await ada.page.getByRole('heading', { name: 'Kitchen', exact: true }).waitFor(PATIENCE)
    expect(await lineOf(ada).count()).toBe(0)
    await ada.page.getByRole('button', { name: 'Open the sidebar' }).click()
    await ada.page.getByRole('button', { name: 'New space' }).click()
    const fields = ada.page.getByRole('form', { name: 'New space' })
    await fields.getByLabel('Name', { exact: true }).fill('Diary')
    await fields.getByLabel('Confidential').check()
    await fields.getByLabel(agent.name).first().check(PATIENCE)
    expect(await ada.violations()).toEqual([])
    await fields.getByRole('button', { name: 'Create' }).click()
    await lineOf(ada).waitFor(PATIENCE)
    expect(await widthOf(ada)).toBe(360)
    const details = await openDetails(ada)
    await details.getByText(MEANING).waitFor(PATIENCE)
    await details.getByRole('link', { name: 'Iris' }).waitFor(PATIENCE)
    await details.getByText('Only an admin can turn this off.').waitFor(PATIENCE)
    expect(await details.getByRole('button').count()).toBe(0)
    expect(await ada.violations()).toEqual([])

    const operator = await openAs(parley.admin, new URL(ada.page.url()).pathname)
    await lineOf(operator).waitFor(PATIENCE)
    await operator.page.getByRole('link', { name: /^Diary Confidential/ }).waitFor(PATIENCE)
    const lifting = await openDetails(operator)
    await lifting.getByRole('button', { name: 'Turn off confidentiality…' }).click(PATIENCE)
    await lifting.getByRole('button', { name: 'Yes, turn it off' }).click(PATIENCE)
    await lifting.getByText('Not confidential').waitFor(PATIENCE)
    await details.getByText('Not confidential').waitFor(PATIENCE)
    await lineOf(ada).waitFor({ ...PATIENCE, state: 'detached' })
  }, 90_000)

  test('a member makes a space confidential, all members see the change at once, and a refusal is shown in place', async () => {
    const { human, agent, space } = await parley.room('Solo', {}, { name: 'Attic' })
    const bob = await parley.human('Bob')
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: bob.id })
    const [ada, other] = [await openAs(human, `/spaces/${space.id}`), await openAs(bob, `/spaces/${space.id}`)]
    await other.page.getByRole('heading', { name: 'Attic', exact: true }).waitFor(PATIENCE)
    const details = await openDetails(ada)
    await details.getByRole('button', { name: 'Make it confidential' }).press('Enter')
    await details.getByText('None of its agents is a member of another space.').waitFor(PATIENCE)
    await lineOf(other).waitFor(PATIENCE)
    expect(await other.violations()).toEqual([])

    const memberIds = [agent.id]
    const empty = await parley.app.domain.spaces.create(parley.admin, {
      name: 'Empty',
      routing: 'BROADCAST',
      memberIds,
    })
    const operator = await openAs(parley.admin, `/spaces/${empty.id}`)
    const refused = await openDetails(operator)
    await refused.getByRole('button', { name: 'Make it confidential' }).click(PATIENCE)
    await refused
      .getByRole('alert')
      .getByText('A confidential space needs at least one human member.')
      .waitFor(PATIENCE)
    expect(await operator.violations()).toEqual([])
  }, 90_000)

  test('an admin sees for a run its requesters, its label, and what was withheld from it', async () => {
    const [alice, bob] = [await parley.human('Alice'), await parley.human('Bob')]
    const agent = await parley.agent('Noor')
    const diary = await parley.space(alice, [agent.id], { name: 'Diary', confidential: true })
    const memberIds = [alice.id, bob.id, agent.id]
    const team = await parley.app.domain.spaces.create(parley.admin, { name: 'Team', routing: 'BROADCAST', memberIds })
    const note = { toolCall: 'set_memories', input: { memories: [{ key: 'merger', value: 'It is on Friday.' }] } }
    const runOf = async (sender: HumanViewer, spaceId: string, text: string) => {
      const { runs } = await parley.send(sender, spaceId, text)
      return parley.runWhen(runs[0]?.id ?? '')
    }
    parley.models.script(forAgent('Noor', steps([note], [{ text: 'Noted.' }])))
    const known = await runOf(alice, diary.id, 'The merger is on Friday.')
    parley.models.reset()
    parley.models.script(forAgent('Noor', steps([{ text: 'Nothing.' }])))
    const open = await runOf(bob, team.id, 'What do you know?')

    const operator = await openAs(parley.admin, `/runs/${known.id}`)
    const section = operator.page.getByRole('region', { name: 'Confidentiality' })
    await section.getByText(/The run acts on behalf of Alice, and has read messages of .*Diary/).waitFor(PATIENCE)
    await section.getByText('Steps 1 to 2').waitFor(PATIENCE)
    expect(await operator.violations()).toEqual([])
    await operator.page.goto(`${parley.origin}/runs/${open.id}`)
    await section.getByText('The run acts on behalf of Bob, and has read nothing').waitFor(PATIENCE)
    await section.getByText(/Not shown: 1 memory from .*Diary/).waitFor(PATIENCE)
    expect(await operator.violations()).toEqual([])
    await operator.page.goto(`${parley.origin}/agents/${agent.id}/mind`)
    await operator.page.locator('.confided').getByText('Diary').waitFor(PATIENCE)

    const member = await openAs(bob, `/runs/${open.id}`)
    await member.page.getByRole('heading', { name: 'Noor’s run' }).waitFor(PATIENCE)
    expect(await member.page.getByRole('region', { name: 'Confidentiality' }).count()).toBe(0)
  }, 90_000)
})
