import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { recordSpace } from '../../src/operation/recording.ts'
import { readRecording } from '../../src/replay/recording.ts'
import { replay } from '../../src/replay/replay.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import type { ModelAction } from '../support/model-server-script.ts'
import { until } from '../support/until.ts'

describe('a recording', () => {
  let parley: TestApplication
  let husam: HumanViewer
  beforeEach(async () => {
    parley = await startApplication({ isFresh: true })
    husam = await parley.human('Husam')
  })
  afterEach(() => parley.close())

  async function record(spaceId: string, embeddingModel: string | null = null) {
    const { limits, prices } = parley.app.platform.config
    let text = ''
    for await (const line of recordSpace(parley.app.platform, spaceId, {
      release: '0.2.0',
      limits,
      prices,
      embeddingModel,
    }))
      text += `${line}\n`
    const lines = text.trimEnd().split('\n').slice(1)
    const rowsOf = (table: string) =>
      lines.flatMap((line) => {
        const value = JSON.parse(line) as { table?: string; row: Record<string, unknown> }
        return value.table === table ? [value.row] : []
      })
    return { text, rowsOf }
  }

  /** Scripts the model to give one of these answers to each following request, in order, and then a text. */
  function play(...answers: ModelAction[][]): void {
    parley.models.script(() => answers.shift() ?? [{ text: 'Done.' }])
  }

  async function sayIn(spaceId: string, text: string): Promise<void> {
    const { runs } = await parley.send(husam, spaceId, text)
    for (const { id } of runs) await parley.runWhen(id)
  }

  const remembers = (key: string, value: string): ModelAction[] => [
    { toolCall: 'set_memories', input: { memories: [{ key, value }] } },
  ]
  const leaves = (spaceId: string, entityId: string) =>
    parley.app.domain.members.remove(parley.admin, { spaceId, entityId })
  const calls = (agentId: string) =>
    parley.app.domain.control.triggerAgent(parley.admin, { agentId, serviceName: 'Jira', payload: { canary: 'issue' } })

  test('has the knowledge from other spaces that a run had read, and no other', async () => {
    const ada = await parley.agent('Ada')
    const here = await parley.space(husam, [ada.id], { name: 'Here' })
    const there = await parley.space(husam, [ada.id], { name: 'There' })
    play(remembers('known', 'said "there"'))
    await sayIn(there.id, 'Remember this.')
    play(remembers('own', 'of here'))
    await sayIn(here.id, 'Hello.')
    play(remembers('later', 'canary-later'))
    await sayIn(there.id, 'And this.')
    const { prisma } = parley.app.platform.db
    const from = { agentId: ada.id, places: [there.id], updatedAt: new Date() }
    await prisma.goal.create({ data: { ...from, id: `gol_${'1'.repeat(32)}`, description: 'canary-goal' } })
    const { updatedAt: _, ...ofPlan } = from
    const plan = { id: `pln_${'1'.repeat(32)}`, name: 'Later', instruction: 'canary-plan', enabled: false }
    await prisma.plan.create({ data: { ...ofPlan, ...plan } })

    const { text, rowsOf } = await record(here.id)
    expect(text).not.toMatch(/canary-(later|goal|plan)/)
    expect(rowsOf('Memory').map(({ key }) => key)).toEqual(['known', 'own'])
    const recording = readRecording('here', text)
    expect(recording.heading).toMatchObject({ lacks: [], omitted: ['Memory', 'Goal', 'Plan'] })
    expect(await replay(recording)).toMatchObject({ isEqual: true, notes: [] })

    // The memory that the prompt contained is missing now.
    await prisma.memory.deleteMany({ where: { key: 'known' } })
    expect(await replay(readRecording('here', (await record(here.id)).text))).toMatchObject({
      divergence: { kind: 'prompt' },
      notes: [
        'The recording lacks the memories, goals, plans that its agents have from other spaces, so prompts in the replay may lack them too.',
      ],
    })
  })

  test('has only events of recorded runs', async () => {
    const bob = await parley.agent('Bob', { mind: 'PERSISTENT', cycle: {} })
    const here = await parley.space(husam, [bob.id], { name: 'Here' })
    const there = await parley.space(husam, [bob.id], { name: 'There' })
    const { prisma } = parley.app.platform.db
    const taken = (count: number) =>
      until(`${count} events are done`, async () => {
        const done = await prisma.inboxEvent.count({ where: { agentId: bob.id, doneAt: { not: null } } })
        const open = await prisma.run.count({ where: { agentId: bob.id, finishedAt: null } })
        return done === count && open === 0
      })
    play()
    await parley.send(husam, here.id, 'Here.')
    await taken(1)
    const own = await prisma.inboxEvent.findMany({ where: { agentId: bob.id } })
    await calls(bob.id)
    await taken(2)
    await parley.send(husam, there.id, 'There.')
    await taken(3)
    const { text, rowsOf } = await record(here.id)
    expect(rowsOf('InboxEvent').map(({ id }) => id)).toEqual(own.map(({ id }) => id))
    expect(rowsOf('RunVersion').map(({ id }) => id)).toEqual(own.map(({ runId }) => runId))
    expect(text).not.toContain('canary')
  })

  test('has no runs without a trigger that read another space, or that began while their agent was in another one', async () => {
    const cyd = await parley.agent('Cyd')
    const { prisma } = parley.app.platform.db
    const serve = async () => {
      const { run } = (await calls(cyd.id)) as unknown as { run: { id: string } | null }
      const id = run?.id ?? (await prisma.run.findFirstOrThrow({ orderBy: { id: 'desc' } })).id
      await parley.runWhen(id)
      return id
    }
    const there = await parley.space(husam, [cyd.id], { name: 'There' })
    play()
    await serve()
    await leaves(there.id, cyd.id)
    const here = await parley.space(husam, [cyd.id], { name: 'Here' })
    await serve()
    const again = await parley.space(husam, [cyd.id], { name: 'Again' })
    play([{ toolCall: 'enter_space', input: { spaceId: again.id } }])
    await serve()
    await leaves(again.id, cyd.id)
    play([{ toolCall: 'enter_space', input: { spaceId: here.id } }])
    const own = await serve()
    expect((await record(here.id)).rowsOf('RunVersion').map(({ id }) => id)).toEqual([own])

    // If a space is gone, nothing shows who its members were.
    await prisma.formerMember.deleteMany({ where: { spaceId: { not: here.id } } })
    expect((await record(here.id)).rowsOf('RunVersion')).toHaveLength(2)
  })

  test('has the agent versions since the space began, and URLs without query values', async () => {
    const tool = {
      name: 'hook',
      description: 'A hook.',
      inputSchema: { type: 'object' as const },
      execution: 'HTTP' as const,
      method: 'GET' as const,
      url: 'https://example.com/{id}?key=canary-key&canary-bare{&limit}',
    }
    const dot = await parley.agent('Dot', { instructions: 'version-a', tools: [tool] as never })
    const becomes = (instructions: string) =>
      parley.app.domain.agents.update(parley.admin, { id: dot.id, instructions })
    await becomes('version-b')
    await becomes('version-c')
    const here = await parley.space(husam, [dot.id])
    await becomes('version-d')
    await becomes('version-e')
    const { text, rowsOf } = await record(here.id)
    const versions = () =>
      rowsOf('AgentVersion').map(({ definition }) => (definition as { instructions: string }).instructions)
    expect(versions()).toEqual(['version-c', 'version-d', 'version-e'])
    expect(text).not.toContain('canary')
    expect(rowsOf('AgentTool')).toMatchObject([{ url: 'https://example.com/{id}?key=&{&limit}' }])

    await parley.space(husam, [dot.id], { name: 'Secret', confidential: true })
    const closed = await record(here.id)
    expect(closed.rowsOf('AgentVersion')).toHaveLength(3)
    expect(closed.text).not.toMatch(/version-[a-d]/)
  })

  test.each<[string, string | null, string]>([
    ['files of tools', null, 'The tool search_messages returned files, which are not recorded.'],
    ['answers of agents elsewhere', null, 'The agent "Eve" runs on another server'],
    ['searches by meaning', 'openai:bag', 'The tool search_messages searched by meaning (PARLEY_EMBEDDINGS)'],
    ['nothing', null, ''],
  ])('a recording that lacks %s reports this, and is not replayed', async (what, embeddingModel, sentence) => {
    const eve = await parley.agent('Eve')
    const here = await parley.space(husam, [eve.id])
    play([{ toolCall: 'search_messages', input: { query: 'hello' } }])
    await sayIn(here.id, 'Hello.')
    const { prisma } = parley.app.platform.db
    if (what === 'files of tools') await prisma.toolCall.updateMany({ data: { files: [{ mediaType: 'image/png' }] } })
    if (what === 'answers of agents elsewhere')
      await prisma.step.updateMany({ data: { model: 'a2a:https://example.com/card?key=canary' } })
    const { text } = await record(here.id, embeddingModel)
    expect(text).not.toContain('canary')
    if (sentence === '') expect(readRecording('here', text).heading.lacks).toEqual([])
    else expect(() => readRecording('here', text)).toThrow(`here cannot be replayed. ${sentence}`)
  })
})
