const LOOKS: Record<string, string> = {
  QUEUED: 'waiting',
  RUNNING: 'working',
  STREAMING: 'working',
  WAITING_TOOL: 'asking',
  WAITING: 'asking',
  REQUIRES_ACTION: 'asking',
  PENDING: 'asking',
  NEEDS_APPROVAL: 'asking',
  GRANTED: 'good',
  COMPLETED: 'good',
  DONE: 'good',
  APPROVED: 'good',
  ANSWERED: 'good',
  FAILED: 'bad',
  TIMED_OUT: 'bad',
  EXPIRED: 'bad',
  OVER_BUDGET: 'asking',
  BUDGET_SPENT: 'asking',
  REFUSED: 'bad',
}

const WORDS: Record<string, string> = {
  QUEUED: 'queued',
  RUNNING: 'at work',
  STREAMING: 'writing',
  WAITING_TOOL: 'waits for an answer',
  WAITING: 'waits for an answer',
  TIMED_OUT: 'timed out',
  NEEDS_APPROVAL: 'waits for approval',
  GRANTED: 'active',
  USED_UP: 'used up',
  TOOL_CHANGED: 'ended: the tool was changed',
  DONE: 'done',
}

interface StatusProps {
  of: string
  /** Words to show instead of the usual ones. */
  words?: string | null
}

/** A status in a few words, with a colour that has the same meaning everywhere. */
export function Status({ of, words = null }: StatusProps) {
  return (
    <span className={`status ${LOOKS[of] ?? 'calm'}`}>
      {words ?? WORDS[of] ?? of.toLowerCase().replaceAll('_', ' ')}
    </span>
  )
}
