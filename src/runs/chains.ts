import type { Chain as Row } from '../generated/prisma/client.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Platform } from '../platform/platform.ts'

/** An agent that asked another with `expectReply`, and is called back in that space when all it asked for is over. */
export interface Waiter {
  entityId: string
  /** Why it asked. */
  reason: string | null
  spaceId: string
}

/** Agents that hand a conversation on. */
export interface Chain {
  id: string
  /** Where it began. */
  spaceId: string
  /** Runs in it so far, re-triggers included. */
  depth: number
  /** Whose turn it is, and its run (null for a persistent agent); both null once the chain has ended. */
  holderId: string | null
  holderRunId: string | null
  /** Who waits to be called back, the last to be asked last. */
  replyStack: Waiter[]
  /** `<from>-><to>` of every mention so far. */
  mentionedPairs: string[]
  /** Where what its agents have asked of one another may come from, besides its space. */
  label: string[]
}

/** The agent that handed a run on, by the name that it had then, how and why. */
export type WokenBy =
  /** It said something and mentioned the run's agent; it waits for a reply where that was expected. */
  | { type: 'mention'; agentId: string; agentName: string; reason: string | null; expectReply: boolean }
  /** It handed its own trigger over without a word. */
  | { type: 'delegation'; agentId: string; agentName: string; reason: string | null }
  /** The run's agent had asked (`askedFor`); the one whose turn came last ended like this. */
  | {
      type: 'callback'
      agentId: string
      agentName: string
      askedFor: string | null
      ended: TurnOutcome
      /** Why it skipped. */
      reason: string | null
    }

/** How a turn in a chain ended, for who waits: everything but a word in the space where it waits counts as a skip. */
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
