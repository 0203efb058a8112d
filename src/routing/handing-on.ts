import type { PrismaClient, Run } from '../generated/prisma/client.ts'
import type { Platform } from '../platform/platform.ts'
import { chainOfRow } from '../runs/chains.ts'
import type { HandingOn, Refusal } from '../runs/handing-on.ts'
import { type ChainState, NEW_CHAIN, refuseDelegation, refuseMention } from './chain-rules.ts'
import { triggerOf } from './handed-trigger.ts'
import { hadTrigger, placeOfHandoff } from './handoff.ts'
import { allowance } from './loop-limits.ts'

/** Whether a run may hand on: what the tools ask before, so that a model can act on a refusal. The run's end asks again. */
export function createHandingOn({ db, config }: Platform): HandingOn {
  const { prisma } = db
  const { limits } = config

  async function refuseByLimits(rootId: string, depth: number): Promise<Refusal | null> {
    const allowed = await allowance(prisma, { rootId, depth }, limits)
    return allowed.count > 0 ? null : { code: 'LOOP_LIMIT', message: `${allowed.reason} Answer with what you have.` }
  }

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
      return (
        (await refusePlace(prisma, spaceId)) ??
        (asked.targetId === run.agentId ? null : await refuseTarget(prisma, spaceId ?? '', asked.targetId)) ??
        refuseMention(await stateOf(prisma, run), run.agentId, asked, limits) ??
        (await refuseByLimits(run.rootId, run.depth + 1))
      )
    },
    async refuseDelegation({ run, spaceId, targetId, inChain }) {
      if (await hasMentioned(prisma, run.id)) return ALREADY_MENTIONED
      const place = placeOfHandoff({ triggerSpaceId: run.triggerSpaceId, activeSpaceId: spaceId })
      if (place === null) return NO_ACTIVE_SPACE
      return (
        (inChain ? await refusePlace(prisma, place) : null) ??
        (targetId === run.agentId ? SELF_DELEGATION : await refuseTarget(prisma, place, targetId)) ??
        (await refuseHandoff(prisma, run, place, targetId)) ??
        (inChain ? refuseDelegation(await stateOf(prisma, run), limits) : null) ??
        (await refuseByLimits(run.rootId, run.depth))
      )
    },
  }
}

async function stateOf(prisma: PrismaClient, { chainId }: Run): Promise<ChainState> {
  const row = chainId === null ? null : await prisma.chain.findUnique({ where: { id: chainId } })
  return row === null ? NEW_CHAIN : chainOfRow(row)
}

async function hasMentioned(prisma: PrismaClient, runId: string): Promise<boolean> {
  const where = { runId, toolName: 'mentionAgent', execution: null, status: 'DONE' as const }
  return (await prisma.toolCall.count({ where })) > 0
}

async function refuseTarget(prisma: PrismaClient, spaceId: string, targetId: string): Promise<Refusal | null> {
  const members = await prisma.entity.findMany({
    where: { memberships: { some: { spaceId } } },
    select: { id: true, name: true, kind: true },
  })
  const target = members.find(({ id }) => id === targetId)
  if (target?.kind === 'AGENT') return null
  const agents = members.filter(({ kind }) => kind === 'AGENT').map(({ id, name }) => `${name} (${id})`)
  const whom = `Choose one of the agents of the space: ${agents.join(', ')}.`
  return target === undefined
    ? { code: 'NOT_A_MEMBER', message: `There is no member of this space with that id. ${whom}` }
    : { code: 'NOT_AN_AGENT', message: `${target.name} is a human: only agents can be woken. ${whom}` }
}

async function refusePlace(prisma: PrismaClient, spaceId: string | null): Promise<Refusal | null> {
  if (spaceId === null) return NO_ACTIVE_SPACE
  const space = await prisma.space.findUnique({ where: { id: spaceId }, select: { routing: true } })
  return space?.routing === 'MENTION_CHAIN' ? null : NO_CHAIN
}

/** A handoff is silent, of something, and to somebody to whom it is new. */
async function refuseHandoff(prisma: PrismaClient, run: Run, place: string, targetId: string): Promise<Refusal | null> {
  if ((await prisma.message.count({ where: { runId: run.id, spaceId: place } })) > 0) return ALREADY_SPOKEN
  if (await hadTrigger(prisma, run, targetId)) return ALREADY_TRIGGERED
  return (await triggerOf(prisma, run)) === null ? NO_TRIGGER : null
}

const NO_ACTIVE_SPACE = {
  code: 'NO_ACTIVE_SPACE',
  message: 'You are in no space yet: call enter_space first, with the id of one of YOUR SPACES.',
}
const NO_CHAIN = {
  code: 'NO_CHAIN',
  message: 'Agents do not hand on by mentions or delegation in this space: its routing is another. Answer, or end.',
}
const ALREADY_MENTIONED = {
  code: 'ALREADY_MENTIONED',
  message:
    'You have mentioned an agent in this run already; it is woken when the run ends. Say what is left to say, and end by calling no more tools.',
}
const SELF_DELEGATION = {
  code: 'SELF_MENTION',
  message: 'An agent cannot delegate to itself. Choose another agent, or answer.',
}
const ALREADY_SPOKEN = {
  code: 'ALREADY_SPOKEN',
  message: 'You have said something here already: a handoff is silent or it is none. Finish your answer instead.',
}
const ALREADY_TRIGGERED = {
  code: 'ALREADY_TRIGGERED',
  message: 'That agent has had this message already: it cannot be handed to it again. Choose another agent, or answer.',
}
const NO_TRIGGER = { code: 'NO_TRIGGER', message: 'There is nothing that could be handed on: this is for you alone.' }
