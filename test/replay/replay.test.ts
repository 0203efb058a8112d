import { expect, test } from 'vitest'
import { recordSpace } from '../../src/operation/recording.ts'
import { readRecording } from '../../src/replay/recording.ts'
import { describeReplay, replay } from '../../src/replay/replay.ts'
import { startApplication } from '../support/application.ts'
import { forAgent, steps } from '../support/model-server-script.ts'

test('a recorded space replays to an equal log', async () => {
  const parley = await startApplication({ isFresh: true })
  try {
    const { human, agent, space } = await parley.room('Ada', {}, { routing: 'BROADCAST' })
    parley.models.script(
      forAgent(
        'Ada',
        steps(
          [{ toolCall: 'enter_space', input: { spaceId: space.id } }],
          [{ toolCall: 'send_message', input: { text: 'Hello, Husam.' } }],
        ),
      ),
    )
    const { runs } = await parley.send(human, space.id, 'Hello, Ada.')
    await parley.runWhen(runs[0]!.id)
    const { limits, prices } = parley.app.platform.config
    let text = ''
    for await (const line of recordSpace(parley.app.platform, space.id, { release: 'test', limits, prices }))
      text += `${line}\n`
    const recording = readRecording('room', text)
    const replayed = await replay(recording)
    expect(replayed.isEqual, describeReplay('room', replayed)).toBe(true)
    expect(agent.name).toBe('Ada')
  } finally {
    await parley.close()
  }
})
