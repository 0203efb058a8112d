import type { Tx } from '../platform/db.ts'
import type { Reply } from '../spaces/reply-search.ts'

/** The part of a waiting call's state that other modules read. */
export interface WaitState {
  /** A reply comes after this message of the space, or is a later part of an unfinished message. */
  wait: {
    messageId: string
    afterSeq: number
    underWay: Record<string, number>
    /** A human may answer. */
    asksPeople: boolean
  }
  /** The reply, once there is one. */
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
  /** The confidential spaces from which the reply comes. */
  label: string[]
  afterCommit(): Promise<void>
}

/** Waits for replies: their remaining time and their end. */
export interface ReplyWaits {
  /** The remaining time of a wait, by the database's clock, when a run is resumed. */
  leftMs(callId: string): Promise<number>
  /**
   * In the transaction that settles the call: determines the reply, unless a message posted in the
   * meantime has already done so, and finishes the asking message. `found` null: the wait timed
   * out.
   */
  settle(tx: Tx, call: WaitingCall, found: Reply | null): Promise<SettledWait>
}
