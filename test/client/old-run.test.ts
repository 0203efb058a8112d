import { expect, test } from 'vitest'
import { liveRun } from '../../client/live-run.ts'

test('all recorded events of an old run, which share one cursor, are applied once', () => {
  const run = { id: 'run_1', status: 'COMPLETED' }
  const call = { id: 'tcl_1', toolName: 'send_message', status: 'DONE' }
  const usage = { totalTokens: 9 }
  const events = [
    { __typename: 'RunStarted', run },
    { __typename: 'RunTextDelta', step: 0, delta: 'First.' },
    { __typename: 'RunToolCalled', toolCall: call },
    { __typename: 'RunStepFinished', step: 0, usage },
    { __typename: 'RunTextDelta', step: 1, delta: 'Second.' },
    { __typename: 'RunStepFinished', step: 1, usage },
    { __typename: 'RunCompleted', run },
  ].map((event) => ({ ...event, cursor: 'same' }))
  const connection = {
    watch(_: unknown, __: unknown, { onData }: { onData(data: unknown): void }) {
      for (const runEvents of [...events, ...events]) onData({ runEvents })
      return () => {}
    },
  }
  const live = liveRun(connection as never, { runId: 'run_1' })
  live.subscribe(() => {})
  expect(live.getState().steps.map(({ text, calls }) => [text, calls.length])).toEqual([
    ['First.', 1],
    ['Second.', 0],
  ])
})
