import { createHash } from 'node:crypto'
import type { AgentDefinition } from '../agents/agent-definition.ts'
import type {
  AgentVersion,
  AuditEntry,
  Decision,
  Entity,
  File,
  Goal,
  GrantDecision,
  InboxEvent,
  McpServer,
  Membership,
  Memory,
  Message,
  MessageReaction,
  MessageVersion,
  Outcome,
  Plan,
  PlanFiring,
  Run,
  Space,
  StandingGrant,
  Step,
  ToolCall,
} from '../generated/prisma/client.ts'
import { isObject, oneLine } from '../lib/json.ts'
import type { FileBytes } from '../operation/moved-files.ts'
import { MOVED_TABLES } from '../operation/moved-tables.ts'
import {
  type KnowledgeTable,
  RECORDED_TABLES,
  RECORDING_FORMAT,
  RECORDING_VERSION,
  type RecordingHeading,
} from '../operation/recording.ts'
import { DELETED_TEXT } from '../rules/deleted-text.ts'

/** A file that cannot be replayed. The error's message says in one sentence what is wrong and what to do. */
export class UnusableRecordingError extends Error {
  override readonly name = 'UnusableRecordingError'
}

/** A row as JSON, with times as strings. */
export type Recorded<T> = {
  [K in keyof T]: T[K] extends Date ? string : T[K] extends Date | null ? string | null : T[K]
}

/** The rows of a recording, or of the space that a replay has created, by table. */
export interface RoomRows {
  space: Recorded<Space>
  entities: Recorded<Entity>[]
  mcpServers: Recorded<McpServer>[]
  memberships: Recorded<Membership>[]
  formerMembers: { spaceId: string; entityId: string }[]
  /** The messages, ordered by `seq`. */
  messages: Recorded<Message>[]
  messageVersions: Recorded<MessageVersion>[]
  reactions: Recorded<MessageReaction>[]
  files: Recorded<File>[]
  outcomes: Recorded<Outcome>[]
  /** The runs, ordered by id and so by time. */
  runs: Recorded<Run>[]
  /** The steps, ordered by run and index. */
  steps: Recorded<Step>[]
  /** The calls, ordered by id. */
  calls: Recorded<ToolCall>[]
  decisions: Recorded<Decision>[]
}

/** A recording that has been read completely. */
export interface Recording extends RoomRows {
  /** The name of the recording's file, for error messages. */
  name: string
  heading: RecordingHeading
  /** The export's lines with people, agents and grants. */
  castLines: { table: string; row: Record<string, unknown> }[]
  versions: (Omit<Recorded<AgentVersion>, 'definition'> & { definition: AgentDefinition })[]
  memories: Recorded<Memory>[]
  goals: Recorded<Goal>[]
  plans: Recorded<Plan>[]
  firings: Recorded<PlanFiring>[]
  inboxEvents: Recorded<InboxEvent>[]
  audit: Recorded<AuditEntry>[]
  grants: Recorded<StandingGrant>[]
  grantDecisions: Recorded<GrantDecision>[]
  /** The bytes of files, by the file's id. */
  fileBytes: Map<string, Buffer>
  /** The version of its agent with which each run began. */
  versionOfRun: Map<string, number>
}

const CAST = [
  'Entity',
  'Agent',
  'AgentTool',
  'McpServer',
  'Space',
  'FormerMember',
  'StandingGrant',
  'GrantDecision',
  'Membership',
]

/** Groups rows by table. */
export type Tables = Map<string, Record<string, unknown>[]>

export function addRow(tables: Tables, table: string, row: Record<string, unknown>): void {
  const rows = tables.get(table)
  if (rows === undefined) tables.set(table, [row])
  else rows.push(row)
}

/** Returns the rows of a space in the order in which they are compared. */
export function roomOf(tables: Tables): RoomRows {
  const rows = <T>(table: string) => (tables.get(table) ?? []) as unknown as Recorded<T>[]
  const byId = <T extends { id: string }>(list: T[]) => list.toSorted((a, b) => (a.id < b.id ? -1 : 1))
  const [space] = rows<Space>('Space')
  if (space === undefined) throw new UnusableRecordingError('The file has no row of its space.')
  return {
    space,
    entities: rows<Entity>('Entity'),
    mcpServers: rows<McpServer>('McpServer'),
    memberships: rows<Membership>('Membership'),
    formerMembers: rows<{ spaceId: string; entityId: string }>('FormerMember'),
    messages: rows<Message>('Message').toSorted((a, b) => a.seq - b.seq),
    messageVersions: rows<MessageVersion>('MessageVersion').toSorted((a, b) => a.number - b.number),
    reactions: rows<MessageReaction>('MessageReaction'),
    files: rows<File>('File'),
    outcomes: rows<Outcome>('Outcome'),
    runs: byId(rows<Run>('Run')),
    steps: rows<Step>('Step').toSorted((a, b) =>
      a.runId === b.runId ? a.index - b.index : a.runId < b.runId ? -1 : 1,
    ),
    calls: byId(rows<ToolCall>('ToolCall')),
    decisions: rows<Decision>('Decision'),
  }
}

/**
 * Reads a recording. Checks that it is complete and unchanged, has this format, and contains everything that influenced
 * the outcome. @throws UnusableRecordingError
 */
export function readRecording(name: string, text: string): Recording {
  try {
    return checkedRecording(name, text)
  } catch (error) {
    if (!(error instanceof UnusableRecordingError)) throw error
    throw new UnusableRecordingError(`${name} cannot be replayed. ${error.message}`)
  }
}

function checkedRecording(name: string, text: string): Recording {
  const { heading, values } = readLines(text)
  const tables: Tables = new Map()
  const castLines: Recording['castLines'] = []
  const fileBytes = new Map<string, Buffer>()
  for (const [index, value] of values.entries()) {
    if ('fileId' in value) {
      const { fileId, data } = value as unknown as FileBytes
      fileBytes.set(fileId, Buffer.concat([fileBytes.get(fileId) ?? Buffer.alloc(0), Buffer.from(data, 'base64')]))
      continue
    }
    const { table, row } = value
    if (typeof table !== 'string' || !isObject(row) || !isTable(table))
      throw new UnusableRecordingError(`Line ${index + 2} is not a row of a recording.`)
    addRow(tables, table, row)
    if (CAST.includes(table)) castLines.push({ table, row })
  }
  const rows = <T>(table: string) => (tables.get(table) ?? []) as unknown as Recorded<T>[]
  const recording: Recording = {
    name,
    heading,
    castLines,
    ...roomOf(tables),
    versions: rows<AgentVersion>('AgentVersion').toSorted(
      (a, b) => a.number - b.number,
    ) as unknown as Recording['versions'],
    memories: rows<Memory>('Memory'),
    goals: rows<Goal>('Goal'),
    plans: rows<Plan>('Plan'),
    firings: rows<PlanFiring>('PlanFiring'),
    inboxEvents: rows<InboxEvent>('InboxEvent'),
    audit: rows<AuditEntry>('AuditEntry'),
    grants: rows<StandingGrant>('StandingGrant'),
    grantDecisions: rows<GrantDecision>('GrantDecision'),
    fileBytes,
    versionOfRun: new Map(
      (rows('RunVersion') as unknown as { id: string; agentVersion: number }[]).map(({ id, agentVersion }) => [
        id,
        agentVersion,
      ]),
    ),
  }
  checkIsComplete(recording)
  return recording
}

const isTable = (table: string): boolean =>
  Object.hasOwn(MOVED_TABLES, table) || (RECORDED_TABLES as readonly string[]).includes(table)

/** Checks the heading, the last line and the checksum. */
function readLines(text: string): { heading: RecordingHeading; values: Record<string, unknown>[] } {
  const lines = text.split('\n')
  const isTerminated = lines.at(-1) === ''
  if (isTerminated) lines.pop()
  const [first = '', ...others] = lines
  const heading = parsed(first)
  if (heading?.['format'] === 'parley-space')
    throw new UnusableRecordingError(
      'The file is an export: `parley import` reads it. Record the space with `parley record`.',
    )
  if (heading === null || heading['format'] !== RECORDING_FORMAT)
    throw new UnusableRecordingError(
      'The file is not a Parley recording: its first line is not the heading of a recording.',
    )
  const { version } = heading
  if (typeof version !== 'number' || version > RECORDING_VERSION)
    throw new UnusableRecordingError(
      `The file has version ${oneLine(String(version))} of the format, which is newer than version ${RECORDING_VERSION} of this release (made by ${oneLine(String(heading['release']))}). Use that release or a newer one.`,
    )
  const end = parsed(others.at(-1) ?? '')
  if (end?.['end'] !== true)
    throw new UnusableRecordingError(
      `The file is truncated after line ${lines.length}: its last line is missing. Record the space again.`,
    )
  const body = lines.slice(0, -1)
  if (end['lines'] !== body.length)
    throw new UnusableRecordingError(
      `The file has ${body.length} lines, but its last line says that there are ${oneLine(String(end['lines']))}: lines were removed or added. Record the space again.`,
    )
  const checksum = createHash('sha256')
    .update(`${body.join('\n')}\n`)
    .digest('hex')
  if (end['sha256'] !== checksum)
    throw new UnusableRecordingError(
      'The file was edited or damaged: its checksum does not match. Record the space again.',
    )
  const values = body.slice(1).map((line, index) => {
    const value = parsed(line)
    if (value === null) throw new UnusableRecordingError(`Line ${index + 2} is not a JSON object.`)
    return value
  })
  return { heading: heading as unknown as RecordingHeading, values }
}

function parsed(line: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(line)
    return isObject(value) ? value : null
  } catch {
    return null
  }
}

/**
 * Returns a sentence about knowledge that may be missing from the replay, because it comes from other spaces. Returns
 * nothing if the recording omits none.
 */
export function omissionOf({ heading: { omitted = [] } }: Pick<Recording, 'heading'>): string[] {
  const names = omitted.map((table) => OMITTED_NAMES[table])
  return names.length === 0
    ? []
    : [
        `The recording lacks the ${names.join(', ')} that its agents have from other spaces, so prompts in the replay may lack them too.`,
      ]
}

const OMITTED_NAMES: Record<KnowledgeTable, string> = { Memory: 'memories', Goal: 'goals', Plan: 'plans' }

/** A message can have a slightly earlier time than the message before it, because transactions overlap. */
const OVERLAP_MS = 1000

/** Reports rows that are missing because of retention, deletion or confidentiality, and clocks that were set back. */
function checkIsComplete(recording: Recording): void {
  const [lack] = recording.heading.lacks ?? []
  if (lack !== undefined) fail(oneLine(lack))
  checkMessages(recording)
  for (const { id, name, goneAt } of recording.entities)
    if (goneAt !== null)
      fail(
        `${id.startsWith('agt_') ? 'The agent' : 'The person'} ${JSON.stringify(oneLine(name))} (${id}) was deleted or erased.`,
      )
  const stepsOf = Map.groupBy(recording.steps, ({ runId }) => runId)
  for (const run of recording.runs) checkRun(run, stepsOf.get(run.id) ?? [])
  checkDeletions(recording)
  checkFiles(recording)
  checkTools(recording)
}

function fail(reason: string): never {
  throw new UnusableRecordingError(reason)
}

/** Whether a time precedes another one by more than the possible overlap of transactions. */
const isBefore = (at: string, other: string): boolean => Date.parse(at) + OVERLAP_MS < Date.parse(other)

function checkMessages({ castLines, space, messages, runs, outcomes }: Recording): void {
  const known = new Set(runs.map(({ id }) => id))
  const seqOf = new Map(messages.map(({ id, seq }) => [id, seq]))
  // A think cycle that is not recorded also worked for other spaces, and changed nothing in this space.
  const thinkers = new Set(castLines.flatMap(({ row }) => (row['mind'] === 'PERSISTENT' ? [row['id']] : [])))
  for (const { agentId, messageId, runId } of outcomes)
    if (runId !== null && !known.has(runId) && !thinkers.has(agentId))
      fail(
        `The run that message ${seqOf.get(messageId)} started is missing: retention has deleted it (PARLEY_KEEP_RUNS_DAYS).`,
      )
  for (const [index, { seq, senderId, runId, createdAt }] of messages.entries()) {
    if (seq !== index + 1) fail(missingMessages(index, seq))
    if (runId === null && senderId.startsWith('agt_'))
      fail(
        `The run that posted the message ${seq} is missing: retention has deleted it (PARLEY_KEEP_RUNS_DAYS), or it worked in other spaces.`,
      )
    if (runId !== null && !known.has(runId))
      fail(
        `The message ${seq} was posted by the run ${runId}, which is not recorded because it also worked for other spaces.`,
      )
    const before = messages[index - 1]?.createdAt ?? createdAt
    if (isBefore(createdAt, before))
      fail(`The clock jumped: the message ${seq} is dated ${createdAt}, and the previous message is dated ${before}.`)
  }
  if (messages.length < space.lastSeq)
    fail(`The message ${messages.length + 1} is missing: the space changed while it was recorded.`)
}

/** Reports data that deletions have removed in addition to the texts of the deleted messages. */
function checkDeletions({ messages, inboxEvents, calls }: Recording): void {
  const edits = inboxEvents.filter(({ payload }) => isObject(payload) && payload['change'] === 'EDITED')
  for (const { id, seq, deletedAt, runId, parts } of messages) {
    if (deletedAt !== null && edits.some(({ messageId }) => messageId === id))
      fail(`The message ${seq} was edited before it was deleted, and the deletion has removed the time of the edit.`)
    if (deletedAt === null && isRemovedFromRun(calls, { id, runId, parts }))
      fail(`The deletion of another message with the same text has removed the text of message ${seq} from its run.`)
  }
}

/** Whether the deletion of a message's text has also removed the text from the call that posted the message. */
const isRemovedFromRun = (
  calls: readonly Recorded<ToolCall>[],
  { id, runId, parts }: Pick<Recorded<Message>, 'id' | 'runId' | 'parts'>,
): boolean =>
  !JSON.stringify(parts).includes(DELETED_TEXT) &&
  calls.some(
    (call) =>
      call.runId === runId &&
      isObject(call.output) &&
      call.output['messageId'] === id &&
      isObject(call.input) &&
      call.input['text'] === DELETED_TEXT,
  )

/** A replay uploads people's files again, so it needs their bytes. Agents' files are created by their calls. */
function checkFiles({ messages, files, fileBytes }: Recording): void {
  const known = new Map(files.map((file) => [file.id, file]))
  for (const { seq, runId, parts } of messages) {
    if (runId !== null) continue
    for (const { type, fileId = '', name = '' } of parts as { type: string; fileId?: string; name?: string }[]) {
      if (type !== 'file') continue
      const [file, bytes] = [known.get(fileId), fileBytes.get(fileId)]
      const hash = createHash('sha256')
        .update(bytes ?? '')
        .digest('hex')
      if (file?.hash !== hash)
        fail(`The file ${JSON.stringify(oneLine(name))} of the message ${seq} is missing, or its bytes are damaged.`)
    }
  }
}

const missingMessages = (index: number, seq: number): string =>
  index === 0
    ? `Its first ${seq - 1} messages are missing: retention has deleted them (PARLEY_KEEP_MESSAGES_DAYS).`
    : `The message ${index + 1} is missing: retention or a deletion has removed it.`

function checkRun({ id, stepCount, startedAt, finishedAt }: Recorded<Run>, steps: readonly Recorded<Step>[]): void {
  if (steps.length < stepCount)
    fail(
      `The journal of the run ${id} has ${steps.length} of its ${stepCount} steps: it has content of another confidential space, or retention has deleted them.`,
    )
  if (startedAt !== null && finishedAt !== null && isBefore(finishedAt, startedAt))
    fail(`The clock jumped: the run ${id} began at ${startedAt} and ended at ${finishedAt}.`)
  for (const [index, step] of steps.entries())
    if (isBefore(step.startedAt, steps[index - 1]?.startedAt ?? step.startedAt))
      fail(`The clock jumped: step ${index} of the run ${id} is dated before step ${index - 1}.`)
}

/** Reports MCP tools whose definition has changed since the recorded calls. */
function checkTools({ calls, versions, mcpServers }: Recording): void {
  for (const server of mcpServers) {
    const listing = (server.listing ?? []) as unknown as { name: string; fingerprint: string }[]
    for (const { name, fingerprint } of listing) {
      const isUsed = calls.some(
        ({ agentId, toolName }) => agentId === server.agentId && toolName === `${server.name}__${name}`,
      )
      if (!isUsed) continue
      for (const { agentId, definition, number } of versions) {
        if (agentId !== server.agentId) continue
        const defined = definition.mcpServers.find((one) => one.name === server.name)
        const then = (defined?.fingerprints as Record<string, string> | undefined)?.[name]
        if (then !== undefined && then !== fingerprint)
          fail(
            `The tool ${server.name}__${name} has changed: its definition is not the one of version ${number} of its agent.`,
          )
      }
    }
  }
}
