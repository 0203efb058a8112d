import type { Chain as Row } from '../generated/prisma/client.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Platform } from '../platform/platform.ts'

/**
 * An agent that mentioned another with `expectReply`, and is called back in that space when the
 * turns that it started have ended.
 */
export interface Waiter {
  entityId: string
  /** Why it mentioned the other agent. */
  reason: string | null
  spaceId: string
}

/** A sequence of runs that pass the turn. */
export interface Chain {
  id: string
  /** The space in which the chain began. */
  spaceId: string
  /** Runs so far, call-backs included. */
  depth: number
  /** The agent that has the turn, and its run (null for a persistent agent); both null once the chain has ended. */
  holderId: string | null
  holderRunId: string | null
  /** The agents that wait to be called back; the last one is called back first. */
  replyStack: Waiter[]
  /** `<from>-><to>` of every mention so far. */
  mentionedPairs: string[]
  /** The confidentiality label of what its agents passed on, apart from the chain's own space. */
  label: string[]
}

/** The agent that passed the turn to a run, by its name at that time. */
export type WokenBy =
  /** It posted a message and mentioned the run's agent, and waits for a reply if `expectReply`. */
  | { type: 'mention'; agentId: string; agentName: string; reason: string | null; expectReply: boolean }
  /** It delegated its own trigger without posting. */
  | { type: 'delegation'; agentId: string; agentName: string; reason: string | null }
  /** The run's agent had mentioned others (`askedFor`) and is called back; `ended` is the result of the last turn. */
  | {
      type: 'callback'
      agentId: string
      agentName: string
      askedFor: string | null
      ended: TurnOutcome
      /** The reason of a skip. */
      reason: string | null
    }

/**
 * How a turn in a chain ended, for the waiting agent. Without a message in the space where that
 * agent waits, a turn counts as skipped.
 */
export type TurnOutcome = 'responded' | 'skipped' | 'failed' | 'stopped' | 'unreachable'

export interface Chains {
  getMany(ids: readonly string[]): Promise<(Chain | null)[]>
}

export function createChains({ db }: Platform): Chains {
  return {
    async getMany(ids) {
      const rows = await db.prisma.chain.findMany({ where: { id: { in: [...ids] } } })
      return inOrderOf(ids, rows.map(chainOfRow))
    },
  }
}

export function chainOfRow({ replyStack, mentionedPairs, ...row }: Row): Chain {
  return {
    ...row,
    replyStack: replyStack as unknown as Waiter[],
    mentionedPairs: mentionedPairs as string[],
  }
}
