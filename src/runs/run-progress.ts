import { decodeCursor, encodeCursor } from '../broker/cursor.ts'
import { type RunLogEvent, runTopic } from '../broker/topics.ts'
import type { Run, RunStatus, ToolCall, ToolCallStatus, ToolExecution } from '../generated/prisma/client.ts'
import { messageOf } from '../lib/errors.ts'
import { cut, oneLine } from '../lib/json.ts'
import type { Platform } from '../platform/platform.ts'

/** The progress of a run, as its own agent sees it. */
export interface RunReport {
  /** The sender or other source of the run's trigger, with its space. */
  triggerSource: string
  /** The subject of the trigger. */
  about: string
  /** The names of the called tools in order. For a waiting call, the entry also says what the call waits for. */
  toolsCalled: string[]
  /** The text that the model has generated so far, including reasoning, shortened; null if there is none. */
  textGenerated: string | null
  reasoning: string | null
  /** The run's last message in a space, shortened; null if there is none. */
  said: string | null
}

/** Reports on active runs. Reads their journals, and their event logs for the current generation. */
export interface RunProgress {
  ofRuns(runs: Run[]): Promise<Map<string, RunReport>>
  /** Returns each run's last message in a space, shortened, by run. The map has no entry for a run without messages. */
  lastWords(runs: Run[]): Promise<Map<string, string>>
}

/** The text and reasoning that a run has generated. */
interface Thoughts {
  text: string
  reasoning: string
}

/** The journaled data of a step. */
interface StepRow {
  runId: string
  assistant: unknown
}

const LONGEST_EXCERPT = 200
/** How many of the last log entries are searched for the unfinished generation. */
const LAST_ENTRIES = 2000

export function createRunProgress({ db, log, logger }: Pick<Platform, 'db' | 'log' | 'logger'>): RunProgress {
  const { prisma } = db

  async function sourcesOf(runs: Run[]): Promise<(run: Run) => string> {
    const ids = (pick: (run: Run) => string | null) => [...new Set(runs.map(pick).filter((id) => id !== null))]
    const [senders, spaces] = await Promise.all([
      prisma.entity.findMany({ where: { id: { in: ids(({ triggerSenderId }) => triggerSenderId) } } }),
      prisma.space.findMany({ where: { id: { in: ids(({ triggerSpaceId }) => triggerSpaceId) } } }),
    ])
    const nameOf = (rows: { id: string; name: string }[], id: string | null) =>
      oneLine(rows.find((row) => row.id === id)?.name ?? 'somebody')
    return (run) =>
      run.triggerType === 'SPACE_MESSAGE'
        ? `${nameOf(senders, run.triggerSenderId)} in ${nameOf(spaces, run.triggerSpaceId)}`
        : oneLine(run.triggerName ?? run.triggerSummary)
  }

  /** Returns the text of the current generation, which is not in the journal yet. */
  async function thoughtsOfStep(runId: string, step: number): Promise<Thoughts> {
    const thoughts = { text: '', reasoning: '' }
    const topic = runTopic(runId)
    try {
      const [head = ''] = await log.heads([topic])
      const { epoch, offset } = decodeCursor(head)
      const after = encodeCursor({ epoch, offset: Math.max(0, offset - LAST_ENTRIES) })
      const delivery = await log.read(topic, after, LAST_ENTRIES)
      if (delivery.type === 'gap') return thoughts
      for (const { event } of delivery.publications as { event: RunLogEvent }[]) {
        if (event.type === 'RunTextDelta' && event.step === step) thoughts.text += event.delta
        if (event.type === 'RunReasoningDelta' && event.step === step) thoughts.reasoning += event.delta
      }
    } catch (error) {
      logger.warn({ runId, error: messageOf(error) }, 'could not read the streaming output of a run')
    }
    return thoughts
  }

  async function thoughtsOf(run: Run, steps: StepRow[]): Promise<Thoughts> {
    const all = steps.map(({ assistant }) => thoughtsIn(assistant))
    if (run.status === 'RUNNING') all.push(await thoughtsOfStep(run.id, steps.length))
    const joined = (of: (thoughts: Thoughts) => string) => all.map(of).filter(Boolean).join('\n')
    return { text: joined(({ text }) => text), reasoning: joined(({ reasoning }) => reasoning) }
  }

  async function lastWords(runs: Run[]): Promise<Map<string, string>> {
    const rows = await prisma.message.findMany({
      where: { runId: { in: runs.map(({ id }) => id) } },
      orderBy: { id: 'asc' },
      select: { runId: true, parts: true },
    })
    return new Map(
      rows.flatMap(({ runId, parts }): [string, string][] => {
        const texts = (parts as { type: string; text?: string }[]).flatMap(({ text }) => text ?? [])
        const said = excerpt(texts.join('\n'))
        return runId === null || said === null ? [] : [[runId, said]]
      }),
    )
  }

  return {
    lastWords,
    async ofRuns(runs) {
      if (runs.length === 0) return new Map()
      const runId = { in: runs.map(({ id }) => id) }
      const [sourceOf, said, calls, steps] = await Promise.all([
        sourcesOf(runs),
        lastWords(runs),
        prisma.toolCall.findMany({ where: { runId }, orderBy: { id: 'asc' }, select: BRIEF_COLUMNS }),
        prisma.step.findMany({ where: { runId }, orderBy: { index: 'asc' }, select: { runId: true, assistant: true } }),
      ])
      const report = async (run: Run): Promise<[string, RunReport]> => {
        const own = calls.filter((call) => call.runId === run.id)
        const thoughts = await thoughtsOf(
          run,
          steps.filter((step) => step.runId === run.id),
        )
        const toolsCalled = own.map((call) => `${call.toolName}${waitOf(callInBrief(call))?.mark ?? ''}`)
        const textGenerated = excerpt(thoughts.text)
        const reasoning = excerpt(thoughts.reasoning)
        return [
          run.id,
          {
            triggerSource: sourceOf(run),
            about: run.triggerSummary,
            toolsCalled,
            textGenerated,
            reasoning,
            said: said.get(run.id) ?? null,
          },
        ]
      }
      return new Map(await Promise.all(runs.map(report)))
    },
  }
}

/** Returns the text and reasoning of a journaled generation, given as an assistant message of the AI SDK. */
function thoughtsIn(assistant: unknown): Thoughts {
  const { content } = (assistant ?? { content: [] }) as { content: string | { type: string; text?: string }[] }
  if (typeof content === 'string') return { text: content, reasoning: '' }
  const joined = (type: string) => content.flatMap((part) => (part.type === type ? [part.text ?? ''] : [])).join('')
  return { text: joined('text'), reasoning: joined('reasoning') }
}

function excerpt(text: string): string | null {
  const trimmed = text.trim()
  if (trimmed === '') return null
  return trimmed.length <= LONGEST_EXCERPT ? trimmed : `${cut(trimmed, LONGEST_EXCERPT)}...`
}

/** The fields of a call that show the progress of its run. */
export interface CallInBrief {
  toolName: string
  status: ToolCallStatus
  execution: ToolExecution | null
  isSettled: boolean
  /** Whether the call waits for a reply. */
  waits: boolean
}

/** The columns of a call that its progress needs. Inputs and outputs are not loaded, because they can be large. */
const BRIEF_COLUMNS = {
  runId: true,
  toolName: true,
  status: true,
  execution: true,
  settledAt: true,
  state: true,
} as const

function callInBrief({
  toolName,
  status,
  execution,
  settledAt,
  state,
}: Pick<ToolCall, keyof typeof BRIEF_COLUMNS>): CallInBrief {
  const waits = (state as { wait?: unknown } | null)?.wait !== undefined
  return { toolName, status, execution, isSettled: settledAt !== null, waits }
}

/** Returns the people or agents for whom a call waits. */
function waitOf({
  toolName,
  status,
  execution,
  isSettled,
  waits,
}: CallInBrief): { mark: string; doing: string } | null {
  if (isSettled) return null
  if (status === 'WAITING' && execution === 'SPACE') {
    return { mark: ' (waiting for user input)', doing: `waiting on ${toolName} input` }
  }
  if (status === 'WAITING') return { mark: ' (waiting for a result)', doing: `waiting on ${toolName} result` }
  return waits ? { mark: ' (waiting for reply)', doing: `waiting on ${toolName} reply` } : null
}

/** Describes in a few words what a run is doing. Uses its unsettled calls and its last call. */
export function doingNow(status: RunStatus, calls: readonly CallInBrief[]): string {
  if (status === 'QUEUED') return 'not begun yet'
  const waits = calls.flatMap((call) => waitOf(call)?.doing ?? [])
  if (waits.length > 0) return waits.join(', ')
  const last = calls.at(-1)
  if (last === undefined) return 'thinking'
  return last.isSettled ? `thinking after ${last.toolName}` : `calling ${last.toolName}`
}
