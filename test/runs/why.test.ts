import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { forAgent, steps, when } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { type Named, type Person, playScenarios, type Read, type Stage, wokenBy } from '../support/stage.ts'
import { until } from '../support/until.ts'

const WHY = 'query ($id: ID!) { why(id: $id) { steps { kind id text at causes } } }'

describe.each(RULE_STACKS)('why, on the %s stack', (stack) => {
  let parley: TestServer
  let stage: Stage
  playScenarios(stack, (opened) => {
    parley = opened.parley
    stage = opened.stage
  })

  const why = async (client: Person['client'], id: string): Promise<Read[] | null> =>
    (await stage.ask(client, WHY, { id }))?.steps ?? null
  const prisma = () => parley.app.platform.db.prisma
  const kinds = (trace: Read[] | null) => trace?.map(({ kind }) => kind)
  const causesOf = (trace: Read[], step: Read): Read[] => step.causes.map((index: number) => trace[index])
  const byKind = (trace: Read[] | null, kind: string): Read => trace?.find((step) => step.kind === kind)
  const sayIn = (space: Named, text: string) => ({ toolCall: 'sendSpaceMessage', input: { spaceId: space.id, text } })

  test('traces a message through call, step, run, version and memory to people', async () => {
    const ann = await stage.person('Ann')
    const bot = await stage.bot('Iris')
    const space = await stage.space('Desk', [ann, bot])
    parley.models.script(
      when(
        wokenBy('Note it'),
        steps([{ toolCall: 'setMemories', input: { memories: [{ key: 'tone', value: 'CANARY tone' }] } }]),
      ),
    )
    await stage.say(ann, space, 'Note it')
    await stage.endedRuns(bot, 1)
    parley.models.script(when(wokenBy('Speak up'), steps([sayIn(space, 'Hello there')])))
    await stage.say(ann, space, 'Speak up')
    await stage.endedRuns(bot, 2)
    const answer = (await stage.messagesIn(space)).at(-1)

    const trace = (await why(stage.admin, answer.id))!
    expect(trace[0]).toMatchObject({ kind: 'MESSAGE', id: answer.id })
    expect(trace[0].text).toContain('Hello there')
    const [call] = causesOf(trace, trace[0])
    const [step] = causesOf(trace, call)
    expect([call.kind, step.kind]).toEqual(['TOOL_CALL', 'STEP'])
    const [run, memory] = causesOf(trace, step)
    expect([run.kind, memory.kind, memory.text]).toEqual(['RUN', 'MEMORY', 'Memory "tone"'])
    const [trigger, version] = causesOf(trace, run)
    expect([trigger.kind, version.kind]).toEqual(['MESSAGE', 'AGENT_VERSION'])
    expect(causesOf(trace, trigger)).toMatchObject([{ kind: 'HUMAN', id: ann.id, text: 'Ann' }])
    const [noting] = causesOf(trace, memory)
    expect(noting).toMatchObject({ kind: 'TOOL_CALL', text: expect.stringContaining('setMemories') })
    const whyMemory = (await why(stage.admin, memory.id))!
    expect(whyMemory[0].id).toBe(memory.id)
    expect(kinds(whyMemory)).toContain('HUMAN')
    expect(kinds(await why(stage.admin, call.id))?.[0]).toBe('TOOL_CALL')
    expect(kinds(await why(stage.admin, run.id))?.[0]).toBe('RUN')

    const seen = (await why(ann.client, answer.id))!
    expect(kinds(seen)).toEqual(['MESSAGE', 'TOOL_CALL', 'HIDDEN', 'RUN', 'MESSAGE', 'HIDDEN', 'HUMAN'])
    for (const hidden of seen.filter(({ kind }) => kind === 'HIDDEN'))
      expect(hidden).toMatchObject({ id: null, at: null })
    expect(JSON.stringify(seen)).not.toMatch(/CANARY|tone|mem_|stp_|agv_/)
    expect(await why(ann.client, memory.id)).toBeNull()
    const bob = await stage.person('Bob')
    for (const id of [answer.id, call.id, run.id, memory.id, space.id, 'nonsense'])
      expect(await why(bob.client, id)).toBeNull()
  })

  test('hides everything from a space of others, including the people behind it', async () => {
    const [ann, bob] = [await stage.person('Ann'), await stage.person('CANARY Bob')]
    const bot = await stage.bot('Vera')
    const [here, there] = [await stage.space('Here', [ann, bot]), await stage.space('CANARY room', [bob, bot])]
    parley.models.script(forAgent('Vera', steps([sayIn(here, 'News')])))
    await stage.say(bob, there, 'CANARY words')
    await stage.endedRuns(bot, 1)
    const [news] = await stage.messagesIn(here)
    const trace = await why(ann.client, news.id)
    expect(kinds(trace)).toEqual(['MESSAGE', 'TOOL_CALL', 'HIDDEN', 'RUN', 'HIDDEN'])
    expect(JSON.stringify(trace)).not.toMatch(/CANARY/)
    expect(JSON.stringify(trace)).not.toContain(bob.id)
    expect(kinds(await why(stage.admin, news.id))).toContain('HUMAN')
  })

  test('ends at a plan, a service, an original, and an erased object', async () => {
    const ann = await stage.person('Ann')
    const bot = await stage.bot('Otto')
    const space = await stage.space('Desk', [ann, bot])
    parley.models.script(forAgent('Otto', steps([sayIn(space, 'On time')])))
    const plan = await parley.app.domain.plans.create(parley.admin, {
      agentId: bot.id,
      name: 'Daily',
      instruction: 'Say it',
      schedule: { cron: '0 0 1 1 *' },
    })
    await parley.app.domain.plans.runNow(parley.admin, { id: plan.id })
    await stage.endedRuns(bot, 1)
    const said = (await stage.messagesIn(space))[0]
    expect(byKind(await why(stage.admin, said.id), 'PLAN')).toMatchObject({ id: plan.id, text: 'Plan "Daily"' })
    expect(kinds(await why(ann.client, said.id))).not.toContain('PLAN')

    const { accessToken } = await parley.app.domain.tokens.create(parley.admin, {
      grant: { service: { name: 'billing', agentIds: [bot.id] } },
    })
    const service = {
      scope: 'SERVICE' as const,
      id: accessToken.id,
      name: 'billing',
      agentIds: [bot.id],
      tokenId: accessToken.id,
      expiresAt: null,
    }
    await parley.app.domain.control.triggerAgent(service, { agentId: bot.id, payload: {} })
    const [, run] = await stage.endedRuns(bot, 2)
    expect(byKind(await why(stage.admin, run.id), 'SERVICE')).toMatchObject({
      id: accessToken.id,
      text: 'Service "billing"',
    })

    const { space: copy } = await stage.ask(
      stage.admin,
      'mutation ($id: ID!) { forkSpace(input: { spaceId: $id }) { ... on ForkSpacePayload { space { id } } } }',
      { id: space.id },
    )
    const copied = (await stage.messagesIn(copy))[0]
    const trace = (await why(stage.admin, copied.id))!
    expect(causesOf(trace, trace[0])).toMatchObject([{ kind: 'MESSAGE', id: said.id }])

    await until(
      'the run is over',
      async () => (await prisma().run.count({ where: { agentId: bot.id, finishedAt: null } })) === 0,
    )
    await prisma().run.deleteMany({ where: { agentId: bot.id } })
    await prisma().toolCall.deleteMany({ where: { agentId: bot.id } })
    expect(kinds(await why(stage.admin, said.id))).toEqual(['MESSAGE', 'ERASED'])
  })
})
