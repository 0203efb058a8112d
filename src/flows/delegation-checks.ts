import type { Discretion } from '../confidentiality/discretion.ts'
import type { PrismaClient } from '../generated/prisma/client.ts'
import type { Platform } from '../platform/platform.ts'
import type { Refusal } from '../rules/chain.ts'
import { type ChainState, NEW_CHAIN, refuseDelegation, refuseMention, runsToCome } from '../rules/chain.ts'
import type { Allowance } from '../rules/routing.ts'
import type { ClaimedRun } from '../runs/claiming.ts'
import { chainOfRow } from '../stores/chain-store.ts'
import { hadTrigger } from './delegate.ts'
import { triggerOf } from './delegated-trigger.ts'
import { allowance } from './loop-limits.ts'

/** A run, and the agent to which the run wants to pass its turn. */
export interface DelegationQuestion {
  run: ClaimedRun
  /** The space in which the run acts. */
  spaceId: string | null
  targetId: string
}

/** Checks whether a run may mention an agent, delegate or skip, so that tools can return a refusal to the model. */
export interface DelegationChecks {
  /**
   * Returns the space of the run's last message or, if it has posted none, `activeSpaceId`. A run that names a space
   * in each call mentions and delegates in this space.
   */
  placeOf(run: ClaimedRun, activeSpaceId: string | null): Promise<string | null>
  /**
   * Returns the reason why the run may not mention the agent in the space, or null if it may. The space must have
   * MENTION_CHAIN routing.
   */
  refuseMention(question: DelegationQuestion & { expectReply: boolean }): Promise<Refusal | null>
  /**
   * Returns the reason why the run may not delegate its trigger to the agent, or null if it may. With `inChain`, the
   * space must have MENTION_CHAIN routing. The target must also be a member of the trigger's space; otherwise it
   * could not read the trigger.
   */
  refuseDelegation(question: DelegationQuestion & { inChain: boolean }): Promise<Refusal | null>
  /** Returns the reason why the run may no longer skip, or null if it may. */
  refuseSkip(run: ClaimedRun): Promise<Refusal | null>
}

interface DelegationCheckParts {
  discretion: Pick<Discretion, 'toSpeak'>
}

/** Creates the checks. They are repeated when the run ends. */
export function createDelegationChecks(
  { db, config }: Platform,
  { discretion }: DelegationCheckParts,
): DelegationChecks {
  const { prisma } = db
  const { limits } = config

  const refuseByLimits = async ({ rootId }: ClaimedRun, { count, last }: { count: number; last: number }) =>
    tooFew(await allowance(prisma, { rootId, depth: last }, limits), count)

  return {
    async refuseSkip({ id }) {
      return (await hasMentioned(prisma, id)) ? ALREADY_MENTIONED : null
    },
    async placeOf({ id }, activeSpaceId) {
      const last = await prisma.message.findFirst({
        where: { runId: id },
        orderBy: { id: 'desc' },
        select: { spaceId: true },
      })
      return last?.spaceId ?? activeSpaceId
    },
    async refuseMention({ run, spaceId, ...asked }) {
      if (await hasMentioned(prisma, run.id)) return ALREADY_MENTIONED
      const state = await stateOf(prisma, run)
      const count = runsToCome(state, asked)
      return (
        (await refusePlace(prisma, spaceId)) ??
        (asked.targetId === run.agentId ? null : await refuseTarget(prisma, run, spaceId ?? '', asked.targetId)) ??
        refuseMention(state, run.agentId, asked, limits) ??
        (await refuseConfidential(discretion, run, spaceId)) ??
        (await refuseByLimits(run, { count, last: run.depth + count }))
      )
    },
    async refuseDelegation({ run, spaceId, targetId, inChain }) {
      if (await hasMentioned(prisma, run.id)) return ALREADY_MENTIONED
      if (spaceId === null) return NO_ACTIVE_SPACE
      const state = inChain ? await stateOf(prisma, run) : NEW_CHAIN
      const count = runsToCome(state, { expectReply: false })
      return (
        (inChain ? await refusePlace(prisma, spaceId) : null) ??
        (targetId === run.agentId ? SELF_DELEGATION : await refuseTarget(prisma, run, spaceId, targetId)) ??
        (await refuseHandoff(prisma, run, spaceId, targetId)) ??
        (inChain ? refuseDelegation(state, limits) : null) ??
        (await refuseConfidential(discretion, run, spaceId)) ??
        (await refuseByLimits(run, { count, last: run.depth + count - 1 }))
      )
    },
  }
}

/** Refuses if the target may not receive the run's content. The content includes the reason that the run gives. */
async function refuseConfidential(
  discretion: Pick<Discretion, 'toSpeak'>,
  run: ClaimedRun,
  spaceId: string | null,
): Promise<Refusal | null> {
  if (spaceId === null || run.label.length === 0) return null
  const clearance = await discretion.toSpeak(run, spaceId)
  return clearance.type === 'refused' ? clearance.refusal : null
}

/**
 * Refuses if fewer than `count` runs are left within the limit of runs. The next turn and the call-backs need this
 * many.
 */
function tooFew(allowed: Allowance, count: number): Refusal | null {
  if (allowed.count >= count) return null
  const why = allowed.count === 0 ? allowed.reason : NO_ROOM_FOR_REPLIES
  return { code: 'LOOP_LIMIT', message: `${why} Answer with what you have.` }
}

async function stateOf(prisma: PrismaClient, { chainId }: ClaimedRun): Promise<ChainState> {
  const row = chainId === null ? null : await prisma.chain.findUnique({ where: { id: chainId } })
  return row === null ? NEW_CHAIN : chainOfRow(row)
}

async function hasMentioned(prisma: PrismaClient, runId: string): Promise<boolean> {
  const where = { runId, toolName: 'mentionAgent', execution: null, status: 'DONE' as const }
  return (await prisma.toolCall.count({ where })) > 0
}

async function refuseTarget(
  prisma: PrismaClient,
  run: ClaimedRun,
  spaceId: string,
  targetId: string,
): Promise<Refusal | null> {
  const members = await prisma.entity.findMany({
    where: { memberships: { some: { spaceId } } },
    select: { id: true, name: true, kind: true, agent: { select: { paused: true } } },
  })
  const target = members.find(({ id }) => id === targetId)
  if (target?.agent?.paused === false) return null
  const others = members.filter(({ id, agent }) => agent?.paused === false && id !== run.agentId)
  const whom =
    others.length === 0
      ? 'No other agent here can be woken: answer, or end.'
      : `Choose one of the other agents of the space: ${others.map(({ id, name }) => `${name} (${id})`).join(', ')}.`
  if (target?.agent?.paused === true)
    return { code: 'AGENT_PAUSED', message: `${target.name} is paused: nothing wakes it now. ${whom}` }
  return target === undefined
    ? { code: 'NOT_A_MEMBER', message: `There is no member of this space with that id. ${whom}` }
    : { code: 'NOT_AN_AGENT', message: `${target.name} is a human: only agents can be woken. ${whom}` }
}

async function refusePlace(prisma: PrismaClient, spaceId: string | null): Promise<Refusal | null> {
  if (spaceId === null) return NO_ACTIVE_SPACE
  const space = await prisma.space.findUnique({ where: { id: spaceId }, select: { routing: true } })
  return space?.routing === 'MENTION_CHAIN' ? null : NO_CHAIN
}

/**
 * Refuses a delegation if the run has already posted or has no trigger, or if the target has already received the
 * trigger.
 */
async function refuseHandoff(
  prisma: PrismaClient,
  run: ClaimedRun,
  place: string,
  targetId: string,
): Promise<Refusal | null> {
  const places = [...new Set([place, run.triggerSpaceId ?? place])]
  if ((await prisma.message.count({ where: { runId: run.id, spaceId: { in: places } } })) > 0) return ALREADY_SPOKEN
  const knows = await prisma.membership.count({ where: { entityId: targetId, spaceId: { in: places } } })
  if (knows < places.length) return NOT_FOR_IT
  if (await hadTrigger(prisma, run, targetId)) return ALREADY_TRIGGERED
  return (await triggerOf(prisma, run)) === null ? NO_TRIGGER : null
}

const NO_ROOM_FOR_REPLIES = 'This task may start too few further runs to call back every agent that would wait.'
const NO_ACTIVE_SPACE = {
  code: 'NO_ACTIVE_SPACE',
  message: 'You have not entered a space yet: call enter_space first, with the id of one of YOUR SPACES.',
}
const NO_CHAIN = {
  code: 'NO_CHAIN',
  message: 'This space does not use MENTION_CHAIN routing: agents cannot pass the turn here. Answer, or end.',
}
const ALREADY_MENTIONED = {
  code: 'ALREADY_MENTIONED',
  message:
    'You have already mentioned an agent in this run; it is woken when the run ends. Post what is left to say, and end by calling no more tools.',
}
const SELF_DELEGATION = {
  code: 'SELF_MENTION',
  message: 'An agent cannot delegate to itself. Choose another agent, or answer.',
}
const ALREADY_SPOKEN = {
  code: 'ALREADY_SPOKEN',
  message: 'You have already posted here, and a run that has posted cannot delegate. Finish your answer instead.',
}
const NOT_FOR_IT = {
  code: 'NOT_A_MEMBER',
  message:
    'That agent is not a member of the space that woke you, so it may not see what you would delegate. Mention it instead, or choose another agent.',
}
const ALREADY_TRIGGERED = {
  code: 'ALREADY_TRIGGERED',
  message:
    'That agent has already received this message, so it cannot be delegated to that agent again. Choose another agent, or answer.',
}
const NO_TRIGGER = { code: 'NO_TRIGGER', message: 'There is nothing to delegate: this task is for you alone.' }
