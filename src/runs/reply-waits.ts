import type { Tx } from '../platform/db.ts'
import type { Reply } from '../spaces/reply-search.ts'

/** The state of a call that waits for a reply, as far as others read it. */
export interface WaitState {
  /** What answers comes after this message of the space, or is a later part of what was under way. */
  wait: {
    messageId: string
    afterSeq: number
    underWay: Record<string, number>
    /** A human may answer it. */
    asksPeople: boolean
  }
  /** What has answered it, once something has. */
  reply?: Reply
}

/** A call that waits for a reply. */
export interface WaitingCall {
  callId: string
  runId: string
  agentId: string
  /** The message that asks. */
  messageId: string
  spaceId: string
}

export interface SettledWait {
  reply: Reply | null
  /** The spaces, confidential now, that the reply comes from. */
  label: string[]
  afterCommit(): Promise<void>
}

/** How a wait for a reply goes on, and how it ends. */
export interface ReplyWaits {
  /** Of a call that a run which is taken up again waits with: how much of its time is left, by the database's clock. */
  leftMs(callId: string): Promise<number>
  /**
   * In the transaction that settles the call. What answers it is decided here, where no message that was posted meanwhile has done so;
   * `found` null: its time is up. The message that asked is whole then.
   */
  settle(tx: Tx, call: WaitingCall, found: Reply | null): Promise<SettledWait>
}
