import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const hasBrowser = hasBrowserFor("the budgets' and plans' test")
/** A generation with 100 tokens. */
const FIGURES = { usage: { inputTokens: 90, outputTokens: 10 } }

describe.skipIf(!hasBrowser)('budgets and plans in the console', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  test('an agent’s budget is set and shown with its usage; a message names the agents whose budget is used up because of it', async () => {
    const { human, agent, space } = await parley.room('Iris', {}, { name: 'Kitchen' })
    parley.models.script(
      forAgent(
        'Iris',
        steps([{ toolCall: 'send_message', input: { text: 'Hello.' } }, FIGURES], [{ text: 'ok' }, FIGURES]),
      ),
    )
    const operator = await openAs(parley.admin, `/agents/${agent.id}/settings`)
    const budget = operator.page.getByRole('region', { name: 'Budget' })
    await budget.getByText('No limit is set. Spent today: 0 tokens.').waitFor(PATIENCE)
    await budget.getByLabel('Tokens per day').fill('200')
    await budget.getByRole('button', { name: 'Set budget' }).press('Enter')
    await budget.getByText('Saved. The budget applies at once.').waitFor(PATIENCE)
    await budget.getByText('0 of 200').waitFor(PATIENCE)
    const { runs } = await parley.send(human, space.id, 'Hi.')
    await parley.runWhen(runs[0]?.id ?? '', 'COMPLETED')
    await budget.getByText('200 of 200').waitFor(PATIENCE)
    await budget.getByText('Today’s budget is exhausted').waitFor(PATIENCE)
    await operator.page
      .getByRole('banner')
      .or(operator.page.locator('.page-head'))
      .getByText('budget spent')
      .waitFor(PATIENCE)
    expect(await operator.violations()).toEqual([])

    const ada = await openAs(human, `/spaces/${space.id}`, { width: 360, height: 740 })
    await ada.message('Hello.').waitFor(PATIENCE)
    await ada.say('And now?')
    await ada.message('And now?').getByText('Iris could not be woken.').waitFor(PATIENCE)
    expect(await ada.page.evaluate('document.documentElement.scrollWidth')).toBe(360)
    expect(await ada.violations()).toEqual([])

    await operator.page.goto(`${parley.origin}/spaces/${space.id}`)
    const told = operator.message('And now?')
    await told.getByText("The agent's budget for today is spent.").waitFor(PATIENCE)
    await told.getByRole('link', { name: 'Iris’s budget' }).click()
    await budget.getByLabel('Tokens per day').fill('', PATIENCE)
    await budget.getByRole('button', { name: 'Set budget' }).click()
    await budget.getByText('No limit is set. Spent today: 200 tokens.').waitFor(PATIENCE)
    await ada.say('Now then?')
    await ada.message('Now then?').getByText('Iris woke').waitFor(PATIENCE)
  }, 90_000)

  test('a space’s budget is set by an operator and visible to its members', async () => {
    const { human, space } = await parley.room('Tom', {}, { name: 'Attic' })
    const operator = await openAs(parley.admin, `/spaces/${space.id}`)
    await operator.page.getByRole('button', { name: 'About this space' }).click(PATIENCE)
    await operator.page.getByRole('heading', { name: 'Budget' }).click(PATIENCE)
    const fields = operator.page.getByRole('form', { name: 'Budget' })
    await fields.getByLabel('Tokens per day').fill('5000', PATIENCE)
    await fields.getByLabel('Tokens per request').fill('900')
    await fields.getByRole('button', { name: 'Set budget' }).click()
    await fields.getByText('Saved. The budget applies at once.').waitFor(PATIENCE)
    expect(await operator.violations()).toEqual([])
    const member = await openAs(human, `/spaces/${space.id}`)
    await member.page.getByRole('button', { name: 'About this space' }).click(PATIENCE)
    const seen = member.page.getByRole('region', { name: 'Budget' })
    await seen.getByRole('heading', { name: 'Budget' }).click(PATIENCE)
    await seen.getByText('0 of 5,000').waitFor(PATIENCE)
    await seen.getByText('may use 900 tokens').waitFor(PATIENCE)
    expect(await member.page.getByRole('form', { name: 'Budget' }).count()).toBe(0)
  }, 90_000)

  test('a plan is created, run manually, disabled and enabled, and each firing shows its result', async () => {
    const agent = await parley.agent('Noor')
    parley.models.script(forAgent('Noor', () => [{ text: 'Done.' }]))
    const { page, violations } = await openAs(parley.admin, `/agents/${agent.id}/plans`)
    const fields = page.getByRole('form', { name: 'New plan' })
    await fields.getByLabel('Name').fill('Minutes', PATIENCE)
    await fields.getByLabel('Instruction').fill('Write the minutes.')
    const times = fields.getByRole('status', { name: 'Next times' })
    await fields.getByLabel('Time zone').selectOption('Europe/Berlin')
    await times.getByText('Monday to Friday at 08:00, in Europe/Berlin:').waitFor(PATIENCE)
    await until('five times are shown', async () => (await times.getByRole('listitem').count()) === 5)
    for (const time of await times.getByRole('listitem').allTextContents())
      expect(time).toMatch(/^(Mon|Tue|Wed|Thu|Fri).*0?8:00/)
    await fields.getByLabel('Repeats').selectOption('CRON')
    expect(await fields.getByLabel('Schedule (cron)').inputValue()).toBe('0 8 * * 1-5')
    await fields.getByLabel('Schedule (cron)').fill('0 8 30 2 *')
    await times.getByText('Invalid cron schedule').waitFor(PATIENCE)
    expect(await times.getByText('in Europe/Berlin:').count()).toBe(0)
    await fields.getByLabel('Repeats').selectOption('WEEKLY')
    await fields.getByLabel('On', { exact: true }).selectOption('Friday')
    await times.getByText('Every Friday at 08:00, in Europe/Berlin:').waitFor(PATIENCE)
    await fields.getByRole('button', { name: 'Create' }).click()
    const plan = page.getByRole('listitem', { name: 'Plan Minutes' })
    await plan.getByText('Every Friday at 08:00, Europe/Berlin').waitFor(PATIENCE)
    await plan.getByText('Next 5 times').click()
    expect(await plan.getByRole('listitem').filter({ hasText: ':00' }).count()).toBe(5)
    await plan.getByRole('button', { name: 'Change the plan Minutes' }).click()
    const change = page.getByRole('form', { name: 'Change the plan' })
    expect(await change.getByLabel('Repeats').count()).toBe(0)
    await change.getByRole('button', { name: 'Change the schedule' }).click(PATIENCE)
    await change.getByLabel('Repeats').selectOption('DAILY', PATIENCE)
    await change.getByLabel('At', { exact: true }).fill('06:30')
    await change.getByRole('button', { name: 'Save' }).click()
    await plan.getByText('Every day at 06:30, Europe/Berlin').waitFor(PATIENCE)
    await plan.getByText('Not fired yet.').waitFor(PATIENCE)
    await plan.getByRole('button', { name: 'Run now' }).press('Enter')
    const last = plan.getByRole('list', { name: 'Last firing' })
    await last.getByText('Started a run.').waitFor(PATIENCE)
    await last.getByText('completed').waitFor(PATIENCE)
    await plan.getByRole('button', { name: 'Turn off' }).click()
    await plan.getByText('off', { exact: true }).waitFor(PATIENCE)
    await plan.getByRole('button', { name: 'Turn on' }).click()
    await plan.getByText('next', { exact: false }).first().waitFor(PATIENCE)

    await parley.app.domain.agents.update(parley.admin, { id: agent.id, budget: { tokensPerDay: 0 } })
    await plan.getByRole('button', { name: 'Run now' }).click()
    await last.getByText('Skipped: a budget is exhausted.').waitFor(PATIENCE)
    await plan.getByText('All firings').click()
    await plan.getByRole('list', { name: 'Firings' }).getByText('Started a run.').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    await page.getByRole('button', { name: 'Pause' }).click()
    await page.getByRole('button', { name: 'Resume' }).waitFor(PATIENCE)
    await plan.getByRole('button', { name: 'Run now' }).click()
    await plan
      .getByRole('alert')
      .getByText(/paused/)
      .waitFor(PATIENCE)
    await last.getByRole('link').waitFor({ ...PATIENCE, state: 'detached' })
    await plan.getByRole('link', { name: 'Open its run' }).click()
    await page.getByRole('heading', { name: 'Noor’s run' }).waitFor(PATIENCE)
  }, 90_000)
})
