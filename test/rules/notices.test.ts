import { describe, expect, test } from 'vitest'
import {
  channelsOf,
  lineOf,
  type NoticeCause,
  type NoticeKind,
  type NotifyLevel,
  nextMailAt,
  noticeKindOf,
  pathOfNotice,
} from '../../src/rules/notices.ts'

const message = (senderId: string, ...mentionedIds: string[]): NoticeCause => ({
  type: 'message',
  senderId,
  mentionedIds,
})
const decision = (...deciderIds: string[]): NoticeCause => ({ type: 'decision', deciderIds })
const failedRun = (...askerIds: string[]): NoticeCause => ({ type: 'failed-run', askerIds })

describe('a human called “me” is notified', () => {
  const table: [what: string, cause: NoticeCause, byLevel: Record<NotifyLevel | 'none', NoticeKind | null>][] = [
    [
      'of a message that mentions me',
      message('you', 'him', 'me'),
      { ALL: 'MENTION', MENTIONS: 'MENTION', NOTHING: null, none: null },
    ],
    ['of another message', message('you', 'him'), { ALL: 'MESSAGE', MENTIONS: null, NOTHING: null, none: null }],
    ['not of my own message', message('me', 'me'), { ALL: null, MENTIONS: null, NOTHING: null, none: null }],
    [
      'of a decision of mine, whatever the level, and as a named approver outside the space',
      decision('you', 'me'),
      { ALL: 'DECISION_WAITING', MENTIONS: 'DECISION_WAITING', NOTHING: 'DECISION_WAITING', none: 'DECISION_WAITING' },
    ],
    ['not of a decision of others', decision('you'), { ALL: null, MENTIONS: null, NOTHING: null, none: null }],
    [
      'of a failed run of mine in my space',
      failedRun('you', 'me'),
      { ALL: 'RUN_FAILED', MENTIONS: 'RUN_FAILED', NOTHING: null, none: null },
    ],
    ['not of a failed run of others', failedRun('you'), { ALL: null, MENTIONS: null, NOTHING: null, none: null }],
  ]
  test.each(table)('%s', (_, cause, byLevel) => {
    for (const [level, kind] of Object.entries(byLevel)) {
      const reader = { id: 'me', level: level === 'none' ? null : (level as NotifyLevel) }
      expect([level, noticeKindOf(cause, reader)]).toEqual([level, kind])
    }
  })
})

describe('the channels of a notice', () => {
  const person = {
    push: true,
    mail: true,
    notifyAfterMinutes: 15,
    subscriptionIds: ['one', 'two'],
    hasAddress: true,
    sendsMail: true,
  }
  test.each([
    ['all push subscriptions, and a mail later', {}, ['one', 'two'], 15],
    ['no push if it is off', { push: false }, [], 15],
    ['no mail if it is off', { mail: false }, ['one', 'two'], null],
    ['no mail without an address', { hasAddress: false }, ['one', 'two'], null],
    ['no mail if this server sends none', { sendsMail: false }, ['one', 'two'], null],
    ['a mail at once', { notifyAfterMinutes: 0, subscriptionIds: [] }, [], 0],
  ])('%s', (_, change, subscriptionIds, mailAfterMinutes) => {
    expect(channelsOf({ ...person, ...change })).toEqual({ subscriptionIds, mailAfterMinutes })
  })
})

test('at most ten mails are sent per hour', () => {
  const now = new Date('2026-01-01T12:00:00Z')
  const ago = (minutes: number) => new Date(now.getTime() - minutes * 60_000)
  const nine = [59, 50, 40, 30, 20, 10, 5, 3, 1].map(ago)
  expect(nextMailAt(nine, now)).toEqual(now)
  expect(nextMailAt([ago(61), ...nine], now)).toEqual(now)
  expect(nextMailAt([ago(59.5), ...nine], now)).toEqual(new Date('2026-01-01T12:00:30Z'))
})

test('lines and paths contain only ids', () => {
  const ids = { spaceId: 'spc_1', messageId: 'msg_1', toolCallId: null, runId: null }
  expect(pathOfNotice({ kind: 'MENTION', ...ids })).toBe('/spaces/spc_1#msg_1')
  expect(pathOfNotice({ kind: 'DECISION_WAITING', ...ids, toolCallId: 'tcl_1' })).toBe('/spaces/spc_1#msg_1')
  const elsewhere = { spaceId: null, messageId: null, toolCallId: 'tcl_1', runId: 'run_1' }
  expect(pathOfNotice({ kind: 'DECISION_WAITING', ...elsewhere })).toBe('/waiting')
  expect(pathOfNotice({ kind: 'RUN_FAILED', ...ids, runId: 'run_1' })).toBe('/runs/run_1')
  expect(lineOf('MENTION')).toBe('Somebody mentioned you.')
  expect(lineOf('MENTION', 2)).toBe('2 messages mention you.')
})
