/** Changes of message outcomes by the end of a cycle, in its transaction. */
export interface OutcomeChanges {
  set(outcome: {
    messageId: string
    agentId: string
    kind: 'SKIPPED' | 'FAILED' | 'INBOX' | 'DROPPED' | 'OVER_BUDGET'
    reason: string | null
    error?: string | null
    runId: string | null
  }): Promise<void>
  announce(): Promise<void>
}
