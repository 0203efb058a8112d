import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { backtest } from '../../src/replay/backtest.ts'
import { describeReplay, replay } from '../../src/replay/replay.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { recordingOf } from '../support/recorded-rooms.ts'
import { delegates, mentions, say, skips, type Turn, takesTurns } from '../support/turns.ts'
import { until } from '../support/until.ts'

// Records and replays the example conversations of the requirements.

interface Agent {
  id: string
  name: string
}

describe.each(['in a space', 'in a thread'])('a conversation of seed 002 %s replays to an equal log:', (place) => {
  let parley: TestApplication
  let husam: HumanViewer
  beforeAll(async () => {
    parley = await startApplication({ isFresh: true })
    husam = await parley.human('حسام')
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  async function agents<Names extends string[]>(...names: Names): Promise<{ [Index in keyof Names]: Agent }> {
    const made: Agent[] = []
    for (const name of names) made.push(await parley.agent(name))
    return made as { [Index in keyof Names]: Agent }
  }

  const plays = ({ name }: Agent, ...turns: Turn[]) => takesTurns(parley.models, name, ...turns)

  /** Posts a message to the agents, waits until the chain ends, and replays the space. Returns the number of runs. */
  async function replays(members: Agent[], ...texts: string[]): Promise<number> {
    const { prisma } = parley.app.platform.db
    const { sending } = parley.app.domain
    const memberIds = members.map(({ id }) => id)
    const { id: spaceId } = await parley.space(husam, memberIds, { name: 'Lobby', routing: 'MENTION_CHAIN' })
    let replyToId: string | null = null
    for (const text of texts) {
      const { message } = await sending.send(husam, { spaceId, text, replyToId })
      if (place === 'in a thread') replyToId ??= message.id
      await until(
        'every chain has ended',
        async () => (await prisma.chain.count({ where: { holderId: { not: null } } })) === 0,
      )
    }
    const { recording } = await recordingOf(parley, spaceId)
    const replayed = await replay(recording)
    expect(replayed.isEqual, describeReplay('seed', replayed)).toBe(true)
    const lanes = await backtest(recording, { changes: new Map(), checks: [], models: null, judge: null })
    expect(lanes.baseline).toBe(null)
    return recording.runs.length
  }

  test('one agent responds, the other never runs', async () => {
    const [demo, research] = await agents('Demo Agent', 'Research Agent')
    plays(demo, [[say('Good morning حسام!')]])
    expect(await replays([demo, research], 'good morning!')).toBe(1)
  })

  test('the turn passes on from message to message', async () => {
    const [demo, research] = await agents('Demo Agent A', 'Research Agent A')
    plays(demo, [[say('One.')]], [[say('Three.')]])
    plays(research, [[say('Two.')]])
    expect(await replays([demo, research], 'first', 'second', 'third')).toBe(3)
  })

  test('a hand-off', async () => {
    const [research, demo] = await agents('Research Agent B', 'Demo Agent B')
    plays(research, [[delegates(demo, 'has the data')]])
    plays(demo, [[say('It is 31 °C and clear.')]])
    expect(await replays([research, demo], "what's the weather like?")).toBe(2)
  })

  test('a mention that expects no reply', async () => {
    const [demo, research] = await agents('Demo Agent C', 'Research Agent C')
    plays(demo, [[say("Here's the image!")], [mentions(research, 'user wants research too', false)]])
    plays(research, [[say("Here's what I found...")]])
    expect(await replays([demo, research], 'research this and make me an image about it')).toBe(2)
  })

  test('a reply stack', async () => {
    const [hr, finance] = await agents('HR Agent D', 'Finance Agent D')
    plays(hr, [[say('Let me get the data first.'), mentions(finance, 'need salaries', true)]], [[say('The report.')]])
    plays(finance, [[say("Here's the salary data: ...")]])
    expect(await replays([hr, finance], 'prepare the monthly payroll report')).toBe(3)
  })

  test('a nested reply stack', async () => {
    const [hr, finance, data] = await agents('HR Agent E', 'Finance Agent E', 'Data Agent E')
    plays(hr, [[say('Getting the numbers.'), mentions(finance, 'need Q4 numbers', true)]], [[say('The review.')]])
    plays(finance, [[say('I need raw data.'), mentions(data, 'need raw data', true)]], [[say('The financials.')]])
    plays(data, [[say("Here's the raw data: ...")]])
    expect(await replays([hr, finance, data], 'prepare the quarterly business review')).toBe(5)
  })

  test('a skip in the chain', async () => {
    const [hr, finance] = await agents('HR Agent G', 'Finance Agent G')
    plays(hr, [[say('Let me ask.'), mentions(finance, 'need January', true)]], [[say('Without salaries.')]])
    plays(finance, [[skips('January is not closed yet')]])
    expect(await replays([hr, finance], 'prepare the monthly payroll report')).toBe(3)
  })

  test('a delegation in the chain', async () => {
    const [hr, finance, data] = await agents('HR Agent H', 'Finance Agent H', 'Data Agent H')
    plays(hr, [[say('Getting the numbers.'), mentions(finance, 'need Q4 numbers', true)]], [[say('Done.')]])
    plays(finance, [[delegates(data, 'has the raw data')]])
    plays(data, [[say("Here's the Q4 raw data: ...")]])
    expect(await replays([hr, finance, data], 'prepare the quarterly business review')).toBe(4)
  })
})
