import { union } from '../confidentiality/marks.ts'
import type { FileReading, FileText } from '../files/file-reading.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Json } from '../lib/json.ts'
import type { Platform } from '../platform/platform.ts'
import { type MessageOrigin, messageOfRow } from '../rules/message.ts'
import type { Claim, ClaimedRun } from '../runs/claiming.ts'
import { loadReadableText } from '../runs/readable-calls.ts'
import type { Withheld } from '../runs/withheld.ts'
import { type History, type HistoryLine, type HistoryScope, labelOf } from '../spaces/history.ts'
import { readOnFrom } from '../tools/space/read-messages.ts'
import { type ChainScene, loadChain } from './chain-section.ts'
import { loadTasks, taskToTell } from './chain-task.ts'
import { type EventSource, originOfEvents } from './cycle-origin.ts'
import { discreet } from './discreet-scene.ts'
import { createSceneReading, type SceneAgent, type SceneRun, type SceneSpace } from './scene-reading.ts'

export type { SceneAgent, SceneRun, SceneSpace } from './scene-reading.ts'

/** The data from which a run's prompt and tools are built, as it was when the run was claimed. */
export interface Scene {
  agent: SceneAgent
  /** The spaces that the run may see. */
  spaces: SceneSpace[]
  /** The agent's other queued, running or waiting runs, oldest first. */
  otherRuns: SceneRun[]
  /**
   * The latest messages of the trigger's space up to the trigger, oldest first. They are messages outside of threads
   * or, for a trigger in a thread, the thread's first message and the latest replies. Empty without a space, and if the
   * agent has left the space. Also empty after the first step, because the journal then contains the messages that were
   * shown.
   */
  history: HistoryLine[]
  /** The message that triggered the run. */
  triggerMessage: HistoryLine | null
  /** The text of the files of that message, up to the limit of a prompt. */
  triggerTexts: FileText[]
  /** The origin of the run's trigger. */
  origin: MessageOrigin
  /** For a think cycle: the events that it has claimed so far. */
  sources: EventSource[]
  /** The chain of the run; null if the run has no turn in a chain. */
  chain: ChainScene | null
  /** For a run that is called back in a chain: the chain's original task, unless the history shows it. */
  task: Json
  worksIn: string | null
  /** The spaces from which any cycle of the agent comes, and which were confidential when the run was claimed. */
  cycleMarks: string[]
  /** The agent's notes that are withheld from the run. */
  withheld: Withheld[]
  /** How often the text of a deleted message was removed from the run's journal. */
  redactions: number
}

/** Whether the agent is a member of the space. False if `spaceId` is null. */
export function belongsTo({ spaces }: Pick<Scene, 'spaces'>, spaceId: string | null): boolean {
  return spaceId === null || spaces.some(({ id }) => id === spaceId)
}

export interface SceneLoader {
  /** Loads the scene of a run. Also returns the union of the run's label and the scene's labels. */
  load(claim: Claim): Promise<{ scene: Scene; label: string[] }>
  /**
   * Rereads everything that can change: the agent's spaces, its notes and its other runs. Updates `scene`, and returns
   * the union of the run's label and the scene's labels.
   */
  refresh(claim: Claim, scene: Scene): Promise<{ label: string[] }>
  /**
   * Returns the messages that others have posted in a space since the run made a call; null if the agent has left the
   * space.
   */
  meanwhile(claim: Claim, since: { spaceId: string; callId: string }): Promise<Meanwhile | null>
}

/** Messages that were posted in a space during a wait. */
export interface Meanwhile {
  spaceName: string
  /** The `seq` of the latest message. */
  seq: number
  /** The messages, oldest first. */
  lines: HistoryLine[]
}

/** The size limit of a prompt's initial history, as JSON. */
const HISTORY_CHARACTERS = 60_000
/** The size limit of the text of the trigger's files. */
const FILE_CHARACTERS = 20_000

export function createSceneLoader(
  platform: Platform,
  { history, files }: { history: History; files: Pick<FileReading, 'textsOf'> },
): SceneLoader {
  const { db, config } = platform
  const { historyLimit } = config.limits
  const reading = createSceneReading(platform, {
    history: history.rowsOf({
      spaceId: Prisma.sql`r."triggerSpaceId"`,
      readerId: Prisma.sql`r."agentId"`,
      scope: { type: 'outside' },
      upToSeq: Prisma.sql`r."enteredSeq"`,
      // `load` includes two messages in full: the trigger, and the task of the chain in which the run was called back.
      isWhole: Prisma.sql`m.id IS NOT DISTINCT FROM r."triggerMessageId" OR r."chainId" IS NOT NULL`,
      limit: historyLimit,
      characters: HISTORY_CHARACTERS,
    }),
  })

  return {
    async load({ run }) {
      const { redactions } = run
      const [{ lines, ...rows }, chain, tasks] = await Promise.all([
        reading.whole(run.id),
        loadChain(db.prisma, run),
        loadTasks(db.prisma, run),
      ])
      const discreetScene = await discreet(db, reading, run, { ...rows, ...rows.agent })
      const { spaces, otherRuns, notes, withheld } = discreetScene
      const agent = { ...rows.agent, ...notes }
      // If a cycle started the chain because of many messages, one of these is shown in full regardless of its size.
      const whole = [run.triggerMessageId, tasks[0]?.messageId ?? null]
      const shown = { limit: historyLimit, characters: HISTORY_CHARACTERS, whole }
      const told = !belongsTo({ spaces }, run.triggerSpaceId)
        ? []
        : showsThread(run)
          ? await readThread(history, run, shown)
          : history.linesOf(lines, { ...shown, readOn: readOnFrom })
      const triggerMessage = told.find(({ id }) => id === run.triggerMessageId) ?? null
      const fileIds = triggerMessage?.files?.map(({ fileId }) => fileId) ?? []
      const triggerTexts = fileIds.length === 0 ? [] : await files.textsOf(fileIds, FILE_CHARACTERS)
      const origin = originSeen(run, spaces, triggerMessage) ?? (await loadOrigin(db.prisma, run))
      const { sources, worksIn, cycleMarks } = rows
      const task = taskToTell(tasks, { history: told, spaces })
      const seen = { agent, spaces, otherRuns, sources, worksIn, cycleMarks, withheld, redactions }
      const scene = { ...seen, history: told, triggerMessage, triggerTexts, origin, chain, task }
      return { scene, label: union(discreetScene.label, labelOf(told)) }
    },
    async refresh({ run }, scene) {
      const rows = await reading.changing(run.id)
      const { spaces, otherRuns, notes, withheld, label } = await discreet(db, reading, run, rows)
      Object.assign(scene.agent, { budgetState: rows.budgetState }, notes)
      Object.assign(scene, { spaces, otherRuns, withheld, worksIn: rows.worksIn, redactions: rows.redactions })
      // The quotation is removed, because it may come from the deleted message.
      if (rows.redactions > run.redactions) scene.origin = { ...scene.origin, triggerMessage: null }
      return { label }
    },
    meanwhile: (claim, since) => loadMeanwhile(db.prisma, { history, historyLimit }, claim, since),
  }
}

/**
 * Whether the run's prompt shows the thread of the trigger, which it does before the first step. The inbox message of a
 * think cycle contains its events instead.
 */
const showsThread = ({ threadRootId, triggerType, stepCount }: ClaimedRun) =>
  threadRootId !== null && triggerType !== 'INBOX' && stepCount === 0

/**
 * Reads the first message of a run's thread, which is always shown, and the latest replies. Returns them oldest first.
 */
async function readThread(
  history: History,
  run: ClaimedRun,
  { limit, characters, whole }: { limit: number; characters: number; whole: (string | null)[] },
): Promise<HistoryLine[]> {
  const { triggerSpaceId: spaceId, threadRootId, agentId: readerId, enteredSeq: upToSeq } = run
  if (spaceId === null || threadRootId === null) return []
  const range = { spaceId, readerId, upToSeq, whole, readOn: readOnFrom }
  // The limit is 1, with which `read` does not truncate the text.
  const one = (id: string) =>
    history.read({ ...range, scope: { type: 'root', threadRootId: id }, limit: 2, characters })
  const { triggerMessageId } = run
  const [root, trigger] = await Promise.all([
    one(threadRootId),
    // The trigger is always shown, because it can be older than the latest replies or outside of the thread.
    triggerMessageId === null || triggerMessageId === threadRootId ? [] : one(triggerMessageId),
  ])
  const left = Math.max(1, characters - JSON.stringify([...root, ...trigger]).length)
  const most = Math.max(1, limit - root.length)
  const scope = { type: 'replies' as const, threadRootId }
  const latest = await history.read({ ...range, scope, limit: most, characters: left })
  if (trigger.length === 0 || latest.some(({ id }) => id === triggerMessageId)) return [...root, ...latest]
  const fitting = latest.length < most ? latest : latest.slice(1)
  const later = [...trigger, ...fitting].sort((line, other) => line.timestamp.localeCompare(other.timestamp))
  return [...root, ...later]
}

async function loadMeanwhile(
  db: Prisma.TransactionClient,
  { history, historyLimit: limit }: { history: History; historyLimit: number },
  { run }: Claim,
  { spaceId, callId }: { spaceId: string; callId: string },
): Promise<Meanwhile | null> {
  const [space, call] = await Promise.all([
    history.enter(spaceId, run.agentId),
    readAskingCall(db, { spaceId, callId }),
  ])
  if (space === null || call === null) return null
  const own = run.triggerSpaceId === spaceId ? run.threadRootId : null
  // People answer in the thread of the question, or in a thread that the question starts. The run's trigger can be in
  // another thread.
  const threadRootIds = [own, call.threadRootId ?? call.messageId].filter((id) => id !== null)
  const scope: HistoryScope = { type: 'among', threadRootIds, withOutside: own === null }
  const lines = await history.read({
    spaceId,
    scope,
    readerId: run.agentId,
    upToSeq: space.lastSeq,
    since: { at: call.createdAt, butOfRun: run.id },
    limit,
    characters: HISTORY_CHARACTERS,
    readOn: readOnFrom,
  })
  return { spaceName: space.name, seq: space.lastSeq, lines }
}

/** Returns when a call was made. If a message of the space shows the call, also returns this message and its thread. */
async function readAskingCall(
  db: Prisma.TransactionClient,
  { spaceId, callId }: { spaceId: string; callId: string },
): Promise<{ createdAt: Date; messageId: string | null; threadRootId: string | null } | null> {
  const [call] = await db.$queryRaw<{ createdAt: Date; messageId: string | null; threadRootId: string | null }[]>`
    SELECT c."createdAt", m.id AS "messageId", m."threadRootId" FROM "ToolCall" c
    LEFT JOIN "Message" m ON m.id = c."messageId" AND m."spaceId" = ${spaceId} WHERE c.id = ${callId}`
  return call ?? null
}

/** Returns the origin of a message that the run posts in a space; null if the trigger is from that space. */
export function originIn({ origin, sources }: Scene, { run }: Claim, spaceId: string): MessageOrigin | null {
  if (sources.length > 0) return originOfEvents(sources, spaceId)
  return run.triggerSpaceId === spaceId ? null : origin
}

function originOf({ triggerType, triggerName, triggerSpaceId }: ClaimedRun): MessageOrigin {
  const unknown = { triggerSpaceName: null, triggerSenderName: null, triggerMessage: null }
  return { triggerType, triggerName, triggerSpaceId, ...unknown }
}

/** Returns the origin of the run's trigger if the scene already contains it, which is nearly always the case. */
function originSeen(run: ClaimedRun, spaces: SceneSpace[], message: HistoryLine | null): MessageOrigin | null {
  if (run.triggerSpaceId === null) return originOf(run)
  const space = spaces.find(({ id }) => id === run.triggerSpaceId)
  if (space === undefined || message === null || message.senderId !== run.triggerSenderId) return null
  const { sender: triggerSenderName, text: triggerMessage } = message
  return { ...originOf(run), triggerSpaceName: space.name, triggerSenderName, triggerMessage }
}

async function loadOrigin(db: Prisma.TransactionClient, run: ClaimedRun): Promise<MessageOrigin> {
  const origin = originOf(run)
  const [row] = await db.$queryRaw<
    { spaceName: string; senderName: string | null; message: Parameters<typeof messageOfRow>[0] | null }[]
  >`
    SELECT s.name AS "spaceName", e.name AS "senderName", to_jsonb(m) AS message
    FROM "Space" s LEFT JOIN "Message" m ON m.id = ${run.triggerMessageId} LEFT JOIN "Entity" e ON e.id = ${run.triggerSenderId}
    WHERE s.id = ${run.triggerSpaceId}`
  if (row === undefined) return origin
  return {
    ...origin,
    triggerSpaceName: row.spaceName,
    triggerSenderName: row.senderName,
    triggerMessage: row.message === null ? null : await loadReadableText(db, messageOfRow(row.message).parts),
  }
}
