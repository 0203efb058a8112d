import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import type { CreateSpaceInput } from '../../src/flows/create-space.ts'
import { recordSpace } from '../../src/operation/recording.ts'
import { type Recording, readRecording } from '../../src/replay/recording.ts'
import { isOutside } from '../../src/replay/schedule.ts'
import type { TestApplication } from './application.ts'
import type { ModelAction, ModelRequest } from './model-server-script.ts'
import { until } from './until.ts'

/** A kind of space. Together, the kinds cover every combination of routing, memory mode and toolset. */
export interface RoomKind {
  name: string
  routing: CreateSpaceInput['routing']
  mind: 'STATELESS' | 'PERSISTENT'
  toolset: 'ACTIVE_SPACE' | 'SPACE_TOOLS'
  happens:
    | 'talk'
    | 'failure'
    | 'approval'
    | 'denial'
    | 'answer'
    | 'plan'
    | 'service'
    | 'memory'
    | 'version'
    | 'stop'
    | 'edit'
    | 'crowd'
    | 'thread'
    | 'deletion'
    | 'deletion by an agent'
    | 'file'
    | 'tool failure'
    | 'chain'
  confidential: boolean
}

const ROUTINGS = ['BROADCAST', 'ADMIN', 'MENTION_CHAIN'] as const
const MINDS = ['STATELESS', 'PERSISTENT'] as const
const TOOLSETS = ['ACTIVE_SPACE', 'SPACE_TOOLS'] as const
const HAPPENINGS: RoomKind['happens'][] = [
  'thread',
  'deletion',
  'file',
  'tool failure',
  'chain',
  'deletion by an agent',
  'talk',
  'failure',
  'approval',
  'denial',
  'answer',
  'plan',
  'service',
  'memory',
  'version',
  'stop',
  'edit',
  'crowd',
]

/**
 * Returns the nth kind of space. Every 12 kinds have all combinations of routing, memory mode and toolset. Over 216 kinds, each
 * combination meets each event, in open and in confidential spaces, except that persistent agents delete no message.
 */
export function roomKind(n: number): RoomKind {
  const round = Math.floor(n / 12)
  const routing = ROUTINGS[n % 3] ?? 'BROADCAST'
  const mind = MINDS[Math.floor(n / 3) % 2] ?? 'STATELESS'
  const toolset = TOOLSETS[Math.floor(n / 6) % 2] ?? 'ACTIVE_SPACE'
  const event = HAPPENINGS[(n + round) % HAPPENINGS.length] ?? 'talk'
  // A room in which a persistent agent deletes its message cannot be replayed yet.
  const happens = event === 'deletion by an agent' && mind === 'PERSISTENT' ? 'talk' : event
  const confidential = (n + 2 * round) % 4 === 3
  return {
    name: `${routing} ${mind} ${toolset} ${happens}${confidential ? ' confidential' : ''}`,
    routing,
    mind,
    toolset,
    happens,
    confidential,
  }
}

/** Text that a recording must not contain. */
export const CANARIES = {
  header: 'canary-header-3f1c',
  email: 'canary-3f1c@example.com',
  externalId: 'canary-external-3f1c',
  otherSpace: 'canary-other-space-3f1c',
}

const SCHEMA = { type: 'object' as const, properties: { amount: { type: 'integer' } }, required: ['amount'] }

/** Records a space. */
export async function linesOf({ app: { platform } }: TestApplication, spaceId: string): Promise<string> {
  const { limits, prices } = platform.config
  let text = ''
  for await (const line of recordSpace(platform, spaceId, { release: '0.2.0', limits, prices })) text += `${line}\n`
  return text
}

/** Reads the recording of an idle space. */
export async function recordingOf(
  parley: TestApplication,
  spaceId: string,
): Promise<{ text: string; recording: Recording }> {
  const text = await linesOf(parley, spaceId)
  return { text, recording: readRecording(spaceId, text) }
}

type RowLine = { table: string; row: Record<string, unknown> }

/** Changes the heading and the lines with rows of a recording, and updates the checksum. */
export function changed(text: string, change: (lines: RowLine[], heading: Record<string, unknown>) => unknown): string {
  const [heading, ...values] = text
    .trimEnd()
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line))
  const rows = values.filter(({ row }) => row !== undefined) as RowLine[]
  const bytes = Map.groupBy(
    values.filter(({ row }) => row === undefined),
    ({ fileId }) => fileId,
  )
  change(rows, heading)
  const lines = rows.flatMap((line) => [line, ...(line.table === 'File' ? (bytes.get(line.row['id']) ?? []) : [])])
  return sealed([heading, ...lines])
}

/** Changes lines of a recording, and updates the checksum. */
export function edited(
  text: string,
  change: (value: { table?: string; row?: Record<string, unknown> }) => void,
): string {
  const lines = text.trimEnd().split('\n').slice(0, -1)
  return sealed(
    lines.map((line) => {
      const value = JSON.parse(line)
      change(value)
      return value
    }),
  )
}

/** Returns a recording of these lines, with its last line. */
function sealed(values: readonly object[]): string {
  const body = values.map((value) => JSON.stringify(value))
  const sha256 = createHash('sha256')
    .update(`${body.join('\n')}\n`)
    .digest('hex')
  return `${[...body, JSON.stringify({ end: true, lines: body.length, sha256 })].join('\n')}\n`
}

let made = 0

/**
 * Runs a space of this kind with scripted models until it is idle. `serviceUrl` is that of the service for the agents' HTTP
 * tools.
 */
export async function playRoom(
  parley: TestApplication,
  kind: RoomKind,
  serviceUrl: string,
): Promise<{ spaceId: string; agents: { id: string; name: string }[] }> {
  const { domain, platform } = parley.app
  const { prisma } = platform.db
  const round = ++made
  const human = await parley.human('Husam')
  await prisma.entity.update({
    where: { id: human.id },
    data: { email: `${round}${CANARIES.email}`, externalId: `${CANARIES.externalId}-${round}` },
  })
  const url = kind.happens === 'tool failure' ? `${serviceUrl}?status=500` : serviceUrl
  const tool = (name: string, execution: 'HTTP' | 'SPACE', more: object = {}) => ({
    name,
    description: 'A tool.',
    inputSchema: SCHEMA,
    execution,
    mayReceiveConfidential: true,
    ...(execution === 'HTTP' ? { url, headers: { authorization: CANARIES.header } } : {}),
    ...more,
  })
  const tools: CreateAgentInput['tools'] = [
    tool('lookup', 'HTTP'),
    tool('refund', 'HTTP', { approval: { quorum: 1, approverIds: [human.id] } }),
    tool('ask', 'SPACE', { visible: true }),
  ] as never
  const isCrowd = kind.happens === 'crowd'
  const names = ['Ada', 'Bob', ...(isCrowd ? ['Cid'] : [])].map((name) => `${name} ${round}`)
  const agents: { id: string; name: string }[] = []
  for (const name of names)
    agents.push(
      await parley.agent(name, {
        mind: kind.mind,
        toolset: kind.toolset,
        tools,
        ...(kind.mind === 'PERSISTENT' ? { cycle: {} } : {}),
      }),
    )
  const [ada, bob] = agents as [{ id: string; name: string }, { id: string; name: string }]
  const space = await parley.space(
    human,
    agents.map(({ id }) => id),
    {
      name: `Room ${round}`,
      routing: kind.routing,
      confidential: kind.confidential,
      ...(kind.routing === 'ADMIN' ? { adminAgentId: ada.id } : {}),
    },
  )
  const spaceId = space.id
  let failures = 0
  const isActive = kind.toolset === 'ACTIVE_SPACE'

  const post = (text: string): ModelAction[] =>
    isActive
      ? [{ toolCall: 'send_message', input: { text } }]
      : [{ toolCall: 'sendSpaceMessage', input: { spaceId, text } }]

  let sentFileId = ''

  const call = (toolCall: string, input: object) => ({ toolCall, input })

  /** How the agent with the first turn involves the other one. */
  function involvesOther() {
    const targetAgentEntityId = bob.id
    if (kind.routing === 'MENTION_CHAIN')
      return call('mentionAgent', { targetAgentEntityId, reason: 'Bob knows.', expectReply: true })
    if (kind.routing === 'ADMIN') return call('delegateToAgent', { targetAgentEntityId })
    return call(isActive ? 'get_my_runs' : 'getMyRuns', {})
  }

  /** Returns the call with which the event of this kind of space begins; null for none. */
  function firstCall() {
    const memory = { memories: [{ key: 'colour', value: 'green' }] }
    const calls: Partial<Record<RoomKind['happens'], ReturnType<typeof call>>> = {
      approval: call('refund', { amount: 42 }),
      denial: call('refund', { amount: 42 }),
      answer: call('ask', isActive ? { amount: 1 } : { targetSpaceId: spaceId, amount: 1 }),
      talk: call('lookup', { amount: round }),
      'tool failure': call('lookup', { amount: round }),
      file: call(isActive ? 'read_file' : 'readFile', { fileId: sentFileId }),
      chain: involvesOther(),
      memory: call(isActive ? 'set_memories' : 'setMemories', memory),
    }
    return calls[kind.happens] ?? null
  }

  /** Returns the call with which the run of the first agent ends after its message; null for none. */
  function lastCall({ messages }: ModelRequest) {
    if (kind.happens === 'file') {
      const file = { name: 'answer.txt', mediaType: 'text/plain', text: `The answer ${round}.` }
      return isActive ? call('send_file', file) : call('sendFile', { ...file, spaceId })
    }
    if (kind.happens !== 'deletion by an agent') return null
    const results = messages.filter(({ role }) => role === 'tool').map(({ text }) => text)
    const [, messageId = ''] = /"messageId":\s*"(msg_[0-9a-f]{32})"/.exec(results.at(-1) ?? '') ?? []
    return call(isActive ? 'delete_message' : 'deleteMessage', { messageId })
  }

  const posts = new Map<string, number>()

  /** Three agents read the space and answer people and each other, a few times each, all at the same time. */
  function decideInCrowd(name: string, request: ModelRequest): ModelAction[] {
    const pause = { delayMs: Math.floor(Math.random() * 20) }
    const called = request.messages.flatMap(({ toolCalls }) => toolCalls)
    const reads: ModelAction = isActive
      ? { toolCall: 'enter_space', input: { spaceId } }
      : { toolCall: 'readSpaceMessages', input: { spaceId } }
    const count = posts.get(name) ?? 0
    if (called.length === 0 && count < 4) return [pause, reads]
    const hasPosted = called.some((call) => call.name === 'send_message' || call.name === 'sendSpaceMessage')
    if (hasPosted || count >= 4) return [pause, { text: 'Done.' }]
    posts.set(name, count + 1)
    const text = `${name} says ${count + 1}, after ${request.messages.length} messages.`
    const streamed = post(text).map((action) => ({ ...action, chunks: 20, delayMs: Math.floor(Math.random() * 4) }))
    return [pause, ...streamed, ...(Math.random() < 0.3 ? [reads] : [])]
  }

  let isToBeStopped = kind.happens === 'stop'
  let isReached = false

  function decide(name: string, request: ModelRequest): ModelAction[] {
    if (isCrowd) return decideInCrowd(name, request)
    if (kind.happens === 'failure' && failures++ === 0) return [{ error: 'No such model.', status: 404 }]
    const trigger = request.messages.findLast(({ role, text }) => role === 'user' && /^(TRIGGER|INBOX)/.test(text))
    const called = request.messages.flatMap(({ toolCalls }) => toolCalls)
    // Agents do not answer each other, so that the room becomes idle.
    if (trigger?.text.includes('(agent') === true && !trigger.text.includes('(human')) return [{ text: 'Done.' }]
    const said = `${name} answers ${createHash('sha256').update(String(trigger?.text)).digest('hex').slice(0, 8)}.`
    // The deletion also removes the text from the agent's own calls.
    const isDeleted = called.some((one) => /^delete_?message$/i.test(one.name))
    const isSaid = isDeleted || called.some(({ input }) => JSON.stringify(input).includes(said))
    const next = callsOf(name, request, isSaid).find(({ toolCall }) => called.every((one) => one.name !== toolCall))
    if (next !== undefined) return [next]
    if (name === ada.name && isToBeStopped) return waitToBeStopped()
    return isSaid ? [{ text: 'Done.' }] : post(said)
  }

  /** The calls that an agent makes once each, before or after it has posted. */
  function callsOf(name: string, request: ModelRequest, isSaid: boolean) {
    const enter = isActive ? call('enter_space', { spaceId }) : null
    const own = isSaid ? lastCall(request) : firstCall()
    return [enter, name === ada.name ? own : null].filter((one) => one !== null)
  }

  function waitToBeStopped(): ModelAction[] {
    isReached = true
    return [{ delayMs: 600_000 }, { text: 'Too late.' }]
  }

  parley.models.script((request) => {
    const name = names.find((one) => request.instructions.startsWith(`You are ${one},`))
    return name === undefined ? undefined : decide(name, request)
  })

  // Use one statement, because between several a call could be settled unseen, and its run continue.
  const rest = () =>
    until(`room ${round} is idle`, async () => {
      const ids = agents.map(({ id }) => id)
      const [row] = await prisma.$queryRaw<{ isBusy: boolean }[]>`
        SELECT EXISTS (SELECT 1 FROM "Run" WHERE "agentId" = ANY(${ids}) AND (
            status IN ('QUEUED', 'RUNNING') OR (status = 'WAITING_TOOL' AND "claimableAt" IS NOT NULL)))
          OR EXISTS (SELECT 1 FROM "InboxEvent" WHERE "agentId" = ANY(${ids}) AND "doneAt" IS NULL AND "retryAt" IS NULL AND NOT quiet)
          OR EXISTS (SELECT 1 FROM "ToolCall" WHERE "agentId" = ANY(${ids}) AND "carryAt" IS NOT NULL AND "settledAt" IS NULL) AS "isBusy"`
      return row?.isBusy === false
    })
  const waitingCall = () =>
    until('a call waits', () =>
      prisma.toolCall.findFirst({ where: { agentId: { in: agents.map(({ id }) => id) }, status: 'WAITING' } }),
    )

  async function sendFirst(): Promise<{ id: string }> {
    const text = `Hello, number ${round}.`
    if (kind.happens !== 'file') return (await parley.send(human, spaceId, text)).message
    const bytes = Buffer.from(`The notes of room ${round}.`)
    const body = Readable.from([bytes])
    sentFileId = (await domain.files.upload(human, { name: 'notes.txt', body, bytes: bytes.byteLength })).id
    return (await domain.sending.send(human, { spaceId, text, fileIds: [sentFileId] })).message
  }

  /** Lets people act after the first message was answered. */
  async function peopleAct(messageId: string): Promise<void> {
    const { admin } = parley
    switch (kind.happens) {
      case 'approval':
      case 'denial': {
        const { id: toolCallId } = await waitingCall()
        const approve = kind.happens === 'approval'
        await domain.control.decideToolCall(human, { toolCallId, approve, reason: 'Because.' } as never)
        break
      }
      case 'answer': {
        const { id: toolCallId } = await waitingCall()
        await domain.control.submitToolResult(human, { toolCallId, result: { answer: 'yes' } })
        break
      }
      case 'plan': {
        const schedule = { cron: '0 9 * * *' }
        const input = { agentId: ada.id, name: 'Daily', instruction: 'Say hello.', schedule }
        const plan = await domain.plans.create(admin, input)
        await domain.plans.runNow(admin, { id: plan.id })
        break
      }
      case 'service':
        await domain.control.triggerAgent(admin, { agentId: ada.id, serviceName: 'Jira', payload: { issue: round } })
        break
      case 'version':
        await domain.agents.update(admin, { id: ada.id, instructions: 'Answer very briefly.' })
        break
      case 'edit':
        await domain.messageChanges.edit(human, { messageId, text: 'Hello again.' })
        break
      case 'thread':
        for (const text of [`In the thread, number ${round}.`, `Again in the thread, number ${round}.`]) {
          await domain.sending.send(human, { spaceId, text, replyToId: messageId })
          await rest()
        }
        break
      case 'deletion': {
        await domain.messageChanges.delete(human, { messageId })
        const senderId = { in: agents.map(({ id }) => id) }
        const answer = await prisma.message.findFirst({ where: { spaceId, senderId } })
        if (answer !== null) await domain.messageChanges.delete(admin, { messageId: answer.id })
        break
      }
      case 'talk':
      case 'failure':
      case 'memory':
      case 'stop':
      case 'crowd':
      case 'deletion by an agent':
      case 'file':
      case 'tool failure':
      case 'chain':
        break
    }
  }

  async function stopRun(): Promise<void> {
    await until('the model of the run to stop is called', () => isReached)
    const run = await prisma.run.findFirstOrThrow({ where: { agentId: ada.id, status: 'RUNNING' } })
    isToBeStopped = false
    await domain.control.stopRun(parley.admin, { runId: run.id, cascade: false })
  }

  const { id: messageId } = await sendFirst()
  if (isToBeStopped) await stopRun()
  await rest()
  await peopleAct(messageId)
  await rest()
  await parley.send(human, spaceId, `And again, number ${round}.`)
  await rest()
  return { spaceId, agents: [ada, bob] }
}

/** The aspects that the rooms of the long form must contain, each with a condition on the recording. */
const ASPECTS: Record<string, (recording: Recording) => boolean> = {
  BROADCAST: ({ space }) => space.routing === 'BROADCAST',
  ADMIN: ({ space }) => space.routing === 'ADMIN',
  MENTION_CHAIN: ({ space }) => space.routing === 'MENTION_CHAIN',
  ...Object.fromEntries(
    [...MINDS, ...TOOLSETS].map((value) => [
      value,
      ({ castLines }: Recording) => castLines.some(({ row }) => row['mind'] === value || row['toolset'] === value),
    ]),
  ),
  'a provider failure': ({ runs }) => runs.some(({ stopReason }) => stopReason === 'MODEL_FAILED'),
  'a tool failure': ({ calls }) => calls.some((call) => isOutside(call) && call.status === 'FAILED'),
  'an approval that was granted': ({ calls }) => calls.some(({ approvalState }) => approvalState === 'APPROVED'),
  'an approval that was denied': ({ calls }) => calls.some(({ approvalState }) => approvalState === 'DENIED'),
  'an answer of a person': ({ calls }) => calls.some(({ answeredById }) => answeredById !== null),
  'a plan that fired': ({ firings }) => firings.length > 0,
  'the call of a service': ({ runs, inboxEvents }) =>
    runs.some(({ triggerType }) => triggerType === 'SERVICE') || inboxEvents.some(({ type }) => type === 'SERVICE'),
  'a confidential space': ({ space }) => space.confidential,
  'a thread': ({ messages }) => messages.some(({ threadRootId, runId }) => threadRootId !== null && runId !== null),
  'an edit': ({ messageVersions }) => messageVersions.length > 0,
  'a deletion by a person': ({ messages }) => messages.some((one) => one.deletedAt !== null && one.runId === null),
  'a deletion by an agent': ({ calls }) =>
    calls.some(({ toolName, status }) => /^delete_?message$/i.test(toolName) && status === 'DONE'),
  'a file of a person': ({ files, messages }) =>
    files.some((file) => messages.some(({ id, runId }) => id === file.messageId && runId === null)),
  'a file of an agent': ({ files, messages }) =>
    files.some((file) => messages.some(({ id, runId }) => id === file.messageId && runId !== null)),
  'a mention of an agent': ({ calls }) =>
    calls.some((call) => call.toolName === 'mentionAgent' && call.status === 'DONE'),
  'a delegation': ({ calls }) => calls.some((call) => call.toolName === 'delegateToAgent' && call.status === 'DONE'),
  'a run that somebody stopped': ({ runs }) => runs.some(({ stopReason }) => stopReason === 'STOPPED'),
  'a memory': ({ memories }) => memories.length > 0,
  'a new version of an agent': ({ versions }) => versions.some(({ number }) => number > 1),
}

export const ASPECT_NAMES = Object.keys(ASPECTS)

/** Returns the names of the aspects that a recording contains. */
export const aspectsOf = (recording: Recording): string[] => ASPECT_NAMES.filter((name) => ASPECTS[name]?.(recording))
