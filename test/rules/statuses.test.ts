import { describe, expect, test } from 'vitest'
import { MessageStatus, RunStatus, ToolCallStatus } from '../../src/generated/prisma/enums.ts'
import {
  ACTIVE_RUN_STATUSES,
  ENDED_RUN_STATUSES,
  FINAL_MESSAGE_STATUSES,
  isEndedRun,
  isFinalMessage,
  isHandedOutCall,
  OPEN_CALL_STATUSES,
  OPEN_MESSAGE_STATUSES,
  SETTLED_CALL_STATUSES,
} from '../../src/rules/statuses.ts'
import { ACTIVE_RUNS_SQL, OPEN_CALLS_SQL } from '../../src/stores/status-sql.ts'

describe('statuses', () => {
  test.each([
    ['a run', Object.values(RunStatus), ACTIVE_RUN_STATUSES, ENDED_RUN_STATUSES],
    ['a tool call', Object.values(ToolCallStatus), OPEN_CALL_STATUSES, SETTLED_CALL_STATUSES],
    ['a message', Object.values(MessageStatus), OPEN_MESSAGE_STATUSES, FINAL_MESSAGE_STATUSES],
  ])('each status of %s is either open or final', (_, all, open, final) => {
    expect([...open, ...final].sort()).toEqual([...all].sort())
  })

  test('predicates are true for exactly the statuses of their set', () => {
    expect(Object.values(RunStatus).filter(isEndedRun)).toEqual(['COMPLETED', 'FAILED', 'CANCELED'])
    expect(Object.values(MessageStatus).filter(isFinalMessage)).toEqual(['COMPLETE', 'INTERRUPTED'])
    expect(Object.values(ToolCallStatus).filter(isHandedOutCall)).toEqual(['WAITING', 'DONE', 'TIMED_OUT'])
  })

  test('SQL lists are literals without parameters, so that partial indexes match', () => {
    expect(ACTIVE_RUNS_SQL.sql).toBe("('QUEUED', 'RUNNING', 'WAITING_TOOL')")
    expect(OPEN_CALLS_SQL).toMatchObject({ sql: "('STREAMING', 'RUNNING', 'WAITING')", values: [] })
  })
})
