import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { copyAgents } from '../agents/copy-agents.ts'
import { marksOf } from '../confidentiality/marks.ts'
import type { Run, ToolCall } from '../generated/prisma/client.ts'
import { copiedId } from '../lib/copied-id.ts'
import { BadInputError, ConflictError, NotFoundError } from '../lib/errors.ts'
import { isForeignModel } from '../lib/foreign-model.ts'
import { newId, wellFormedIds } from '../lib/ids.ts'
import { cut, isObject, type Json } from '../lib/json.ts'
import { checkText, LONGEST_INSTRUCTIONS } from '../lib/validate.ts'
import type { Models } from '../models/models.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { MessagePart } from '../rules/message.ts'
import { requireAdmin } from '../rules/permissions.ts'
import { isEndedRun } from '../rules/statuses.ts'
import type { Runs } from '../runs/runs.ts'
import type { SpacePublisher } from '../spaces/space-publisher.ts'
import { recordCopy } from '../stores/copy-store.ts'
import {
  copiedAmong,
  type Fork,
  holdSources,
  insertBeginning,
  type JournalBeginning,
  lastSeqBefore,
  readBeginning,
} from '../stores/fork-store.ts'
import { insertMembers } from '../stores/membership-store.ts'
import { type AdoptedMessage, adoptMessages, keepParts } from '../stores/message-store.ts'
import { insertSpace } from '../stores/space-store.ts'
import { copySpace } from './fork-space.ts'
import { publishWoken, startRun } from './wake.ts'

/** Starts runs that repeat an earlier run from one of its steps. */
export interface Rerunning {
  /**
   * Starts a run in a copy of the space. The new run continues an ended run from just before one of its steps, with
   * other instructions or another model. The original stays unchanged. Only admins may do this.
   * @throws NotFoundError, ForbiddenError; BadInputError if the run does not have the step; ConflictError if the run
   * is active or is a think cycle, or if its journal or its agent was deleted
   */
  rerun(viewer: Viewer, input: RerunStepInput): Promise<Run>
}

export interface RerunStepInput {
  runId: string
  step: number
  instructions?: string | null
  model?: string | null
}

interface RerunningParts {
  visibility: Pick<Visibility, 'runs'>
  runs: Pick<Runs, 'getMany'>
  publisher: Pick<SpacePublisher, 'created'>
  models: Pick<Models, 'check' | 'lookFor'>
}

/** The run to repeat, the step from which to repeat it, and the changes. */
interface Repeat {
  run: Run
  step: number
  instructions: string | null
  model: string | null
}

export function createRerunning(
  platform: Platform,
  { visibility, runs, publisher, models }: RerunningParts,
): Rerunning {
  const { db } = platform

  async function checkModel(model: string | null): Promise<void> {
    if (model === null) return
    await models.lookFor([model])
    const fault = isForeignModel(model)
      ? 'A step cannot be repeated with an agent on another server as its model.'
      : models.check(model)
    if (fault !== null) throw new BadInputError(fault, 'input.model')
  }

  return {
    async rerun(viewer, { runId, step, instructions = null, model = null }) {
      const [run] = await runs.getMany([runId])
      if (run == null || !(await visibility.runs(viewer, [run])).has(run.id))
        throw new NotFoundError('There is no such run.')
      requireAdmin(viewer, 'run a step again')
      if (!isEndedRun(run.status))
        throw new ConflictError('The run has not ended. Wait until it ends, or stop it first.')
      if (step < 0 || step >= run.stepCount)
        throw new BadInputError(`The run has ${run.stepCount} steps, counted from 0.`, 'input.step')
      if (run.triggerType === 'INBOX')
        throw new ConflictError(
          "A think cycle cannot be repeated, because a copy of the space does not contain the agent's consciousness.",
        )
      if (instructions !== null) checkText(instructions, LONGEST_INSTRUCTIONS, 'input.instructions')
      await checkModel(model)
      const { again, space, memberIds } = await db.transaction((tx) =>
        repeat(tx, platform, viewer, { run, step, instructions, model }),
      )
      await publisher.created(space, memberIds)
      await publishWoken(platform, { runs: [again], inboxes: [] })
      return again
    },
  }
}

async function repeat(tx: Tx, platform: Platform, viewer: Viewer, { run, step, ...changed }: Repeat) {
  const at = (await tx.step.findUnique({ where: { runId_index: { runId: run.id, index: step } } }))?.startedAt
  const journal = await readBeginning(tx, run.id, step)
  if (at === undefined || journal.steps.length < step)
    throw new ConflictError('The journal of the run was deleted by retention.')
  const change = {
    agentId: run.agentId,
    ...(changed.instructions === null ? {} : { instructions: changed.instructions }),
    ...(changed.model === null ? {} : { model: changed.model }),
  }
  const { fork, memberIds } = await scratchCopy(tx, platform, viewer, { run, at, change })
  const started = await startRun(tx, await newRunOf(tx, fork, viewer, run))
  const again = started?.runs[0]
  if (again === undefined) throw new Error(`The run ${run.id} could not be repeated.`)
  await recordCopy(tx, { id: again.rootId, ofId: run.rootId, ownerId: viewer.scope === 'HUMAN' ? viewer.id : null })
  for (const message of await adoptMessages(tx, fork, { from: run.id, into: again.id })) {
    const kept = message.composite ? partsBefore(message, journal.calls, fork.intoId) : message.parts
    if (kept.length < message.parts.length) await keepParts(tx, message.id, kept)
  }
  if (step > 0) await insertBeginning(tx, fork, again.id, await copyOfJournal(tx, fork, { run, again, journal }))
  return { again, space: { id: fork.intoId, lastSeq: fork.atSeq }, memberIds }
}

/**
 * Returns the parts that these calls had added to an unfinished message, to which several calls contribute. Each call
 * either sends a text or a file, or appears in the message itself.
 */
function partsBefore({ originalId, parts }: AdoptedMessage, calls: readonly ToolCall[], intoId: string): MessagePart[] {
  const shown = new Set(calls.map(({ id }) => copiedId(id, intoId)))
  const sent = calls.filter(({ output }) => isObject(output) && output['messageId'] === originalId).length
  let others = 0
  const end = parts.findIndex((part) => (part.type === 'tool' ? !shown.has(part.toolCallId) : ++others > sent))
  return end < 0 ? parts : parts.slice(0, end)
}

interface Scratch {
  run: Run
  at: Date
  change: Parameters<typeof copyAgents>[2]['change'] & object
}

/**
 * Copies the space in which the run worked, as it was at a given time. If the run did not work in a space, creates a
 * space for the agent alone.
 */
async function scratchCopy(tx: Tx, platform: Platform, viewer: Viewer, { run, at, change }: Scratch) {
  const spaceId = run.triggerSpaceId ?? run.activeSpaceId
  if ((await tx.agent.count({ where: { id: run.agentId } })) === 0) throw new ConflictError('The agent was deleted.')
  if (spaceId === null) return scratchSpace(tx, platform, viewer, { run, at, change })
  const isMember = await tx.membership.count({ where: { spaceId, entityId: run.agentId, space: { deletedAt: null } } })
  if (isMember === 0) throw new ConflictError('The agent has left the space in which the run worked.')
  const atSeq = await lastSeqBefore(tx, { spaceId, messageId: run.triggerMessageId, at })
  const { name } = await tx.space.findUniqueOrThrow({ where: { id: spaceId }, select: { name: true } })
  return copySpace(tx, platform, viewer, { spaceId, atSeq, name: nameOf(name), change })
}

const nameOf = (name: string) => `${cut(name, 180)} (rerun)`

async function scratchSpace(tx: Tx, platform: Platform, viewer: Viewer, { run, change }: Scratch) {
  const now = new Date(platform.clock.now())
  const heldIds = await holdSources(tx, [run.agentId])
  const fork: Fork = { fromId: '', intoId: newId('spc'), atSeq: 0, agentIds: [run.agentId] }
  const spaceId = fork.intoId
  const creatorId = viewer.scope === 'HUMAN' ? viewer.id : null
  const name = nameOf(run.triggerName ?? run.triggerSummary)
  await insertSpace(tx, { id: spaceId, name, routing: 'BROADCAST', createdAt: now, creatorId })
  await copyAgents(tx, fork, { viewer, at: now, secretBox: platform.secretBox, heldIds, change })
  const memberIds = [...(creatorId === null ? [] : [creatorId]), copiedId(run.agentId, spaceId)]
  await insertMembers(
    tx,
    memberIds.map((entityId) => ({ spaceId, entityId, joinedAt: now })),
  )
  return { fork, memberIds }
}

/**
 * Creates the new run in the copied space, with the trigger of the original. Its requester is the viewer. It has a
 * new root, which shares the budget of the original's root.
 */
async function newRunOf(tx: Tx, fork: Fork, viewer: Viewer, run: Run) {
  const { triggerType, triggerName, triggerSummary, triggerSpaceId, triggerMessageId, triggerSenderId } = run
  const { fromId, intoId, atSeq, agentIds } = fork
  const isSpaceCopied = fromId !== ''
  const [messageId] = triggerMessageId === null ? [] : await copiedAmong(tx, fork, [triggerMessageId])
  const [threadRootId] = run.threadRootId === null ? [] : await copiedAmong(tx, fork, [run.threadRootId])
  const senderIsCopied = triggerSenderId !== null && agentIds.includes(triggerSenderId)
  const marks = marksOf(run)
  return {
    agentId: copiedId(run.agentId, intoId),
    dedupKey: null,
    triggerType,
    triggerName,
    triggerSummary,
    triggerSpaceId: triggerSpaceId === null ? null : intoId,
    triggerMessageId: messageId === undefined ? null : copiedId(messageId, intoId),
    threadRootId: threadRootId === undefined ? null : copiedId(threadRootId, intoId),
    triggerSenderId: senderIsCopied ? copiedId(triggerSenderId, intoId) : triggerSenderId,
    triggerPayload: run.triggerPayload as Json,
    activeSpaceId: isSpaceCopied && run.activeSpaceId !== null ? intoId : null,
    enteredSeq: isSpaceCopied && run.activeSpaceId !== null ? atSeq : null,
    depth: 0,
    rootId: newId('trg'),
    wokenBy: run.wokenBy as Json,
    places: [...new Set([...marks, ...(isSpaceCopied ? [fromId] : [])])].sort(),
    label: [],
    askers: viewer.scope === 'HUMAN' ? [viewer.id] : [],
  }
}

const AN_ID = /\b(?:msg|fil)_[0-9a-f]{32}\b/g
const COPIED_ID = /\b(?:spc|agt|run|tcl|stp|msg|fil)_[0-9a-f]{32}\b/g

/**
 * Returns the rows of a journal for the new run. Replaces the ids in prompts, calls and results with those of the
 * copies.
 */
async function copyOfJournal(
  tx: Tx,
  fork: Fork,
  { run, again, journal }: { run: Run; again: Run; journal: JournalBeginning },
): Promise<JournalBeginning> {
  const { fileIds, ...rows } = journal
  const text = JSON.stringify(rows)
  const copied = new Set([
    ...fork.agentIds,
    ...fileIds,
    ...journal.steps.map(({ id }) => id),
    ...journal.calls.map(({ id }) => id),
    ...(await copiedAmong(tx, fork, wellFormedIds([...new Set(text.match(AN_ID))]))),
  ])
  const idOf = (id: string) => {
    if (id === run.id) return again.id
    if (id === fork.fromId) return fork.intoId
    return copied.has(id) ? copiedId(id, fork.intoId) : id
  }
  const { steps, calls } = JSON.parse(text.replace(COPIED_ID, idOf)) as typeof rows
  const isCopiedMessage = (index: number) => copied.has(journal.calls[index]?.messageId ?? '')
  return {
    steps,
    fileIds,
    calls: calls.map((call, index) => ({
      ...call,
      ...(isCopiedMessage(index) ? {} : { messageId: null, spaceId: null }),
      ...(call.settledAt === null ? { status: 'CANCELED' as const, settledAt: new Date() } : {}),
      approvalState: call.approvalState === 'PENDING' ? 'CANCELED' : call.approvalState,
      expiresAt: null,
      escalatesAt: null,
      carryAt: null,
      grantId: null,
    })),
  }
}
