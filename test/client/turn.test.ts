import { expect, test } from 'vitest'
import type { Connection } from '../../client/connection.ts'
import type { LiveSpace } from '../../client/live-space.ts'
import type { RunEvent } from '../../client/run-record.ts'
import type { Message } from '../../client/space-events.ts'
import { followTurn } from '../../client/turn.ts'

const QUESTION: Message = {
  id: 'msg_1',
  seq: 1,
  status: 'COMPLETE',
  createdAt: '2026-11-25T00:00:00Z',
  sender: { id: 'hum_1', name: 'Ann', kind: 'HUMAN' },
  actingAdmin: null,
  mentionedAgent: null,
  mentions: [],
  run: null,
  origin: null,
  outcomes: [
    { kind: 'RUN', agent: { id: 'agt_1', name: 'Ada' }, reason: null, error: null, run: { id: 'run_1' } },
  ] as unknown as Message['outcomes'],
  waitingCall: null,
  rootUsage: null,
  editedAt: null,
  deletedAt: null,
  replyTo: null,
  threadRootId: null,
  reactions: [],
  parts: [],
}

test('a run that ends before its FAILED outcome arrives is shown as failed, with a one-line reason', async () => {
  const space = {
    getState: () => ({ status: 'live', messages: [QUESTION], error: null }),
    subscribe: () => () => {},
  } as unknown as LiveSpace
  const connection = {
    watch(_operation, _variables, { onData, onEnd }) {
      const run = { id: 'run_1', status: 'FAILED', error: 'No such key.\nThe rest.' }
      const runEvents = { __typename: 'RunFailed', cursor: 'c', error: run.error, run } as unknown as RunEvent
      onData({ runEvents } as never)
      onEnd(null)
      return () => {}
    },
  } as Partial<Connection> as Connection

  const failures = await new Promise((resolve) => {
    followTurn(connection, space, QUESTION, { onAnswers() {}, onEnd: (_answers, failures) => resolve(failures) })
  })
  expect(failures).toEqual(['No such key.'])
})
