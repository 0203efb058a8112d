import { afterAll, beforeAll, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import type { Space } from '../../src/generated/prisma/client.ts'
import { UnusableRecordingError } from '../../src/replay/recording.ts'
import { describeReplay, replay } from '../../src/replay/replay.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { forAgent, type ModelRequest, steps } from '../support/model-server-script.ts'
import { CANARIES, linesOf, recordingOf } from '../support/recorded-rooms.ts'
import { endedRun, gate, sayIn } from '../support/space-tools.ts'
import { inboxIn } from '../support/thinking.ts'
import { until } from '../support/until.ts'

// Creates a person and an agent in a confidential space, and in an open one that is recorded. The name of the confidential
// space, and of a member who is only there, also contain the canary.
const { otherSpace: CANARY } = CANARIES
const whole = (request: ModelRequest) => JSON.stringify([request.instructions, request.messages])

let parley: TestApplication
let alice: HumanViewer
let carol: HumanViewer
let bob: HumanViewer
beforeAll(async () => {
  parley = await startApplication({ isFresh: true })
  alice = await parley.human('Alice')
  bob = await parley.human('Bob')
  carol = await parley.human(`Carol ${CANARY}`)
})
afterAll(() => parley.close())

async function spacesOf(agentId: string): Promise<{ diary: Space; team: Space }> {
  const diary = await parley.space(alice, [agentId], {
    name: `Diary ${CANARY}`,
    description: CANARY,
    confidential: true,
  })
  const team = await parley.space(alice, [agentId], { name: 'Team' })
  const { members } = parley.app.domain
  await members.add(parley.admin, { spaceId: diary.id, entityId: carol.id })
  await members.add(parley.admin, { spaceId: team.id, entityId: bob.id })
  return { diary, team }
}

test.each(['ACTIVE_SPACE', 'SPACE_TOOLS'] as const)(
  'a recording has no text or name of another confidential space that a %s agent knows',
  async (toolset) => {
    const agent = await parley.agent(`Ada ${toolset}`, { toolset, maxConcurrentRuns: 4 })
    const { diary, team } = await spacesOf(agent.id)
    const isActive = toolset === 'ACTIVE_SPACE'
    const named = (active: string, other: string) => (isActive ? active : other)
    const post = (spaceId: string, text: string) =>
      isActive ? { toolCall: 'send_message', input: { text } } : sayIn(spaceId, text)
    const enter = (spaceId: string) => (isActive ? [{ toolCall: 'enter_space', input: { spaceId } }] : [])
    const held = gate()
    const notes = [
      {
        toolCall: named('set_memories', 'setMemories'),
        input: { memories: [{ key: `key ${CANARY}`, value: `value ${CANARY}` }] },
      },
      { toolCall: named('set_goals', 'setGoals'), input: { goals: [{ description: `goal ${CANARY}` }] } },
      {
        toolCall: named('set_plans', 'setPlans'),
        input: { plans: [{ name: `plan ${CANARY}`, instruction: `Do ${CANARY}.`, cron: '0 9 * * *' }] },
      },
    ]
    const inDiary = steps(notes, [...enter(diary.id), post(diary.id, `Noted ${CANARY}.`)], [{ gate: held.promise }])
    const looks = steps(
      [{ toolCall: named('get_my_runs', 'getMyRuns'), input: {} }],
      [{ toolCall: named('get_plans', 'getPlans'), input: {} }],
      [...enter(team.id), post(team.id, 'Hello, team.')],
    )
    // The third run in the open space reads the confidential one.
    const reads = isActive
      ? steps(enter(diary.id), [{ toolCall: 'read_messages', input: {} }], [{ text: `I have read ${CANARY}.` }])
      : steps([{ toolCall: 'readSpaceMessages', input: { spaceId: diary.id } }], [{ text: `I have read ${CANARY}.` }])
    const script = (request: ModelRequest) => {
      const trigger = request.messages.find(({ role }) => role === 'user')?.text ?? ''
      if (trigger.includes('Remember')) return inDiary(request)
      return trigger.includes('Read it') ? reads(request) : looks(request)
    }
    parley.models.script(forAgent(agent.name, script))
    await parley.send(carol, diary.id, `Remember ${CANARY}.`)
    await until('the notes are written', () =>
      parley.app.platform.db.prisma.message.findFirst({ where: { spaceId: diary.id, senderId: agent.id } }),
    )
    const { runs } = await parley.send(alice, team.id, 'Hello.')
    await parley.runWhen(runs[0]!.id)
    held.open()
    await endedRun(parley, agent.id)
    const before = await recordingOf(parley, team.id)
    expect(before.text).not.toContain(CANARY)
    const replayed = await replay(before.recording)
    expect(replayed.isEqual, describeReplay('team', replayed)).toBe(true)

    const { runs: reading } = await parley.send(alice, team.id, 'Read it.')
    await parley.runWhen(reading[0]!.id)
    expect(await linesOf(parley, team.id)).not.toContain(CANARY)
    // Its journal is left out, so the recording is refused, without a word from the confidential space.
    const error = await recordingOf(parley, team.id).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(UnusableRecordingError)
    expect(String(error)).toContain('content of another confidential space')
    expect(String(error)).not.toContain(CANARY)

    // The canary did exist: in the other space, and in prompts of this one.
    expect(await linesOf(parley, diary.id)).toContain(CANARY)
    const prompts = parley.models.requests.filter((request) => whole(request).includes('Read it'))
    expect(prompts.some((request) => whole(request).includes(CANARY))).toBe(true)
  },
)

test('a recording has nothing of another confidential space whose messages arrive during a cycle', async () => {
  const agent = await parley.agent('Eva', { mind: 'PERSISTENT', toolset: 'SPACE_TOOLS', cycle: {} })
  const { diary, team } = await spacesOf(agent.id)
  const held = gate()
  const script = (request: ModelRequest) => {
    if (!inboxIn(request).includes('Hello, Eva')) return [{ text: `Done with ${CANARY}.` }]
    return steps(
      [{ gate: held.promise }, { toolCall: 'getMyRuns', input: {} }],
      [{ toolCall: 'getPlans', input: {} }],
    )(request)
  }
  parley.models.script(forAgent('Eva', script))
  await parley.send(alice, team.id, 'Hello, Eva.')
  const { request } = parley.models
  await request((one) => whole(one).includes('Hello, Eva'))
  await parley.send(carol, diary.id, `This is ${CANARY}.`)
  held.open()
  const cycle = await endedRun(parley, agent.id)
  await endedRun(parley, agent.id, 1)
  // The prompts of the cycle contain the name of the confidential space.
  const journal = await parley.app.platform.db.prisma.step.findMany({ where: { runId: cycle.id } })
  expect(JSON.stringify(journal)).toContain(CANARY)
  const { text, recording } = await recordingOf(parley, team.id)
  expect(text).not.toContain(CANARY)
  const replayed = await replay(recording)
  expect(replayed.isEqual, describeReplay('team', replayed)).toBe(true)
})
