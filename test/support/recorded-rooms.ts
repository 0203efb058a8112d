import { createHash } from 'node:crypto'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import type { CreateSpaceInput } from '../../src/flows/create-space.ts'
import { recordSpace } from '../../src/operation/recording.ts'
import { type Recording, readRecording } from '../../src/replay/recording.ts'
import type { TestApplication } from './application.ts'
import type { ModelAction, ModelRequest } from './model-server-script.ts'
import { until } from './until.ts'

/** A kind of space; together they cover every combination of routing, memory mode and toolset. */
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
  confidential: boolean
}

const ROUTINGS = ['BROADCAST', 'ADMIN', 'MENTION_CHAIN'] as const
const MINDS = ['STATELESS', 'PERSISTENT'] as const
const TOOLSETS = ['ACTIVE_SPACE', 'SPACE_TOOLS'] as const
const HAPPENINGS: RoomKind['happens'][] = [
  ...(['talk', 'failure', 'approval', 'denial', 'answer', 'plan'] as const),
  ...(['service', 'memory', 'version', 'stop', 'edit', 'crowd'] as const),
]

/** Returns the nth kind of space: the first 12 have all combinations of routing, memory mode and toolset. */
export function roomKind(n: number): RoomKind {
  const routing = ROUTINGS[n % 3] ?? 'BROADCAST'
  const mind = MINDS[Math.floor(n / 3) % 2] ?? 'STATELESS'
  const toolset = TOOLSETS[Math.floor(n / 6) % 2] ?? 'ACTIVE_SPACE'
  const happens = HAPPENINGS[n % HAPPENINGS.length] ?? 'talk'
  const confidential = n % 4 === 3
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

/** Reads a recording of an idle space. */
export async function recordingOf(
  parley: TestApplication,
  spaceId: string,
): Promise<{ text: string; recording: Recording }> {
  const text = await linesOf(parley, spaceId)
  return { text, recording: readRecording(spaceId, text) }
}

/** Replaces lines of a recording, and its checksum. */
export function edited(
  text: string,
  change: (value: { table?: string; row?: Record<string, unknown> }) => void,
): string {
  const lines = text.trimEnd().split('\n').slice(0, -1)
  const body = lines.map((line) => {
    const value = JSON.parse(line)
    change(value)
    return JSON.stringify(value)
  })
  const sha256 = createHash('sha256')
    .update(`${body.join('\n')}\n`)
    .digest('hex')
  return `${[...body, JSON.stringify({ end: true, lines: body.length, sha256 })].join('\n')}\n`
}

let made = 0

/** Runs a space of this kind with scripted models until it is idle. `serviceUrl`: the service of the agents' HTTP tools. */
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
  const tool = (name: string, execution: 'HTTP' | 'SPACE', more: object = {}) => ({
    name,
    description: 'A tool.',
    inputSchema: SCHEMA,
    execution,
    mayReceiveConfidential: true,
    ...(execution === 'HTTP' ? { url: serviceUrl, headers: { authorization: CANARIES.header } } : {}),
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

  const post = (text: string): ModelAction[] =>
    kind.toolset === 'ACTIVE_SPACE'
      ? [{ toolCall: 'send_message', input: { text } }]
      : [{ toolCall: 'sendSpaceMessage', input: { spaceId, text } }]

  /** The call with which the event of this kind of space begins; null for none. */
  function firstCall(): ModelAction | null {
    const memory = { memories: [{ key: 'colour', value: 'green' }] }
    const isActive = kind.toolset === 'ACTIVE_SPACE'
    const calls: Partial<Record<RoomKind['happens'], ModelAction>> = {
      approval: { toolCall: 'refund', input: { amount: 42 } },
      denial: { toolCall: 'refund', input: { amount: 42 } },
      answer: { toolCall: 'ask', input: isActive ? { amount: 1 } : { targetSpaceId: spaceId, amount: 1 } },
      talk: { toolCall: 'lookup', input: { amount: round } },
      memory: { toolCall: isActive ? 'set_memories' : 'setMemories', input: memory },
    }
    return calls[kind.happens] ?? null
  }

  const posts = new Map<string, number>()

  /** Three agents read the space and answer people and one another, a few times each, all at the same time. */
  function decideInCrowd(name: string, request: ModelRequest): ModelAction[] {
    const pause = { delayMs: Math.floor(Math.random() * 20) }
    const called = request.messages.flatMap(({ toolCalls }) => toolCalls)
    const reads: ModelAction =
      kind.toolset === 'ACTIVE_SPACE'
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

  function decide(name: string, request: ModelRequest): ModelAction[] {
    if (isCrowd) return decideInCrowd(name, request)
    if (kind.happens === 'failure' && failures++ === 0) return [{ error: 'No such model.', status: 404 }]
    const trigger = request.messages.findLast(({ role, text }) => role === 'user' && /^(TRIGGER|INBOX)/.test(text))
    const called = request.messages.flatMap(({ toolCalls }) => toolCalls)
    // Agents do not answer one another, so that the room becomes idle.
    if (trigger?.text.includes('(agent') === true && !trigger.text.includes('(human')) return [{ text: 'Done.' }]
    if (kind.toolset === 'ACTIVE_SPACE' && called.every((call) => call.name !== 'enter_space'))
      return [{ toolCall: 'enter_space', input: { spaceId } }]
    const first = name === ada.name ? firstCall() : null
    if (first !== null && 'toolCall' in first && called.every((call) => call.name !== first.toolCall)) return [first]
    const said = `${name} answers ${trigger?.text.length}.`
    const hasSaid = called.some(({ input }) => JSON.stringify(input).includes(said))
    return hasSaid ? [{ text: 'Done.' }] : post(said)
  }

  parley.models.script((request) => {
    const name = names.find((one) => request.instructions.startsWith(`You are ${one},`))
    return name === undefined ? undefined : decide(name, request)
  })

  const rest = () =>
    until(`room ${round} is idle`, async () => {
      const agentId = { in: agents.map(({ id }) => id) }
      const active = await prisma.run.count({ where: { agentId, status: { in: ['QUEUED', 'RUNNING'] } } })
      const events = await prisma.inboxEvent.count({ where: { agentId, doneAt: null, retryAt: null, quiet: false } })
      const carried = await prisma.toolCall.count({ where: { agentId, carryAt: { not: null }, settledAt: null } })
      return active + events + carried === 0
    })
  const waitingCall = () =>
    until('a call waits', () =>
      prisma.toolCall.findFirst({ where: { agentId: { in: agents.map(({ id }) => id) }, status: 'WAITING' } }),
    )

  const { message } = await parley.send(human, spaceId, `Hello, number ${round}.`)
  await rest()
  if (kind.happens === 'approval' || kind.happens === 'denial') {
    const call = await waitingCall()
    await domain.control.decideToolCall(human, {
      toolCallId: call.id,
      approve: kind.happens === 'approval',
      reason: 'Because.',
    } as never)
  }
  if (kind.happens === 'answer') {
    const call = await waitingCall()
    await domain.control.submitToolResult(human, { toolCallId: call.id, result: { answer: 'yes' } })
  }
  if (kind.happens === 'plan') {
    const plan = await domain.plans.create(parley.admin, {
      agentId: ada.id,
      name: 'Daily',
      instruction: 'Say hello.',
      schedule: { cron: '0 9 * * *' },
    })
    await domain.plans.runNow(parley.admin, { id: plan.id })
  }
  if (kind.happens === 'service')
    await domain.control.triggerAgent(parley.admin, { agentId: ada.id, serviceName: 'Jira', payload: { issue: round } })
  if (kind.happens === 'version')
    await domain.agents.update(parley.admin, { id: ada.id, instructions: 'Answer very briefly.' })
  if (kind.happens === 'edit') await domain.messageChanges.edit(human, { messageId: message.id, text: 'Hello again.' })
  await rest()
  if (kind.happens !== 'stop') {
    await parley.send(human, spaceId, `And again, number ${round}.`)
    await rest()
  }
  return { spaceId, agents: [ada, bob] }
}
