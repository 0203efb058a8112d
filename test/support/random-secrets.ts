import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { HumanViewer } from '../../src/access/viewer.ts'
import type { ToolInput } from '../../src/agents/custom-tools.ts'
import { ConflictError } from '../../src/lib/errors.ts'
import { createMarkedRows } from './marked-rows.ts'
import type { ParleyClient } from './parley-client.ts'
import { tellsEverything } from './secret-teller.ts'
import { createHearing, type Place } from './secrets-heard.ts'
import type { TestServer } from './served.ts'
import { until } from './until.ts'

const SEEN = `{ runs(first: 15) { edges { node { id status error summary triggerSummary triggerMessage { text }
    chain { replyStack { reason } } parent { id triggerSummary error }
    toolCalls { id toolName input output error approval { state decisions { reason } } } } } }
  viewer { pendingToolCalls { id waitsFor input } } }`
const ROOM = `query ($id: ID!) { space(id: $id) { messages(last: 10) { edges { node { text
  origin { triggerName triggerMessage } outcomes { reason error } parts { ... on ToolCallPart { toolCall { input output error } } } } } } } }`
const TRIGGER = `mutation ($agentId: ID!) { triggerAgent(input: { agentId: $agentId, payload: "Go." }) { __typename } }`
const DECIDE = `mutation ($id: ID!) { decideToolCall(input: { toolCallId: $id, approve: true }) { __typename } }`
/** The maximum number of messages of a space that one action can change. */
const MOST_NEW = 60
/** Agents wake each other up to four times per action. This takes seconds, and longer if other processes use the CPU. */
const RESTS_WITHIN = { timeoutMs: 300_000 }
const ROUTINGS = ['BROADCAST', 'MENTION_CHAIN', 'ADMIN', 'MENTION_CHAIN'] as const

/**
 * Tests the real engine with people, agents and spaces, and a model that tries everything. The model enters spaces, reads,
 * posts everything that it has ever read wherever it can, delegates it, asks about it, remembers it, plans it, and passes it to
 * external tools. People join and leave, reply, decide, and read everything that they may see, and so does a service. The steps
 * are the actions of people and the calls of the model.
 * @returns the texts that reached anybody other than their recipients
 */
export async function playSecrets(
  parley: TestServer,
  { random, steps }: { random: (below: number) => number; steps: number },
): Promise<string[]> {
  const outside = await openOutside()
  const { prisma } = parley.app.platform.db
  const { domain } = parley.app
  const places: Place[] = []
  const hearing = createHearing(places)
  let time = 0
  let played = 0

  const one = <T>(list: readonly T[]): T => list[random(list.length)] as T
  const people: HumanViewer[] = []
  for (const name of ['Ann', 'Ben', 'Cem']) people.push(await parley.human(name))
  const tools = toolsOf(outside.url, people.slice(0, 2))
  const cycle = { urgentFrom: people.slice(0, 1).map(({ id }) => id) }
  const agents = [
    await parley.agent('Rooms', { tools, maxSteps: 4 }),
    await parley.agent('Names', { tools, maxSteps: 4, toolset: 'SPACE_TOOLS' }),
    await parley.agent('Minds', { tools, maxSteps: 4, mind: 'PERSISTENT', cycle }),
  ]
  for (const [index, routing] of ROUTINGS.entries()) {
    const humans = people.filter((_, n) => n !== index)
    const memberIds = [...humans, ...agents].map(({ id }) => id)
    const adminAgentId = routing === 'ADMIN' ? (agents[index % 2]?.id ?? null) : null
    const input = { name: `Room ${index}`, routing, memberIds, adminAgentId, confidential: index < 2 }
    const { id } = await domain.spaces.create(parley.admin, input)
    places.push({ id, humans: new Set(humans.map((human) => human.id)), since: index < 2 ? 0 : null })
  }
  const agentIds = agents.map(({ id }) => id)
  const clients = new Map<string, ParleyClient>()
  for (const human of people) clients.set(human.id, await parley.clientOf(human))
  const pager = await parley.clientOf({
    scope: 'SERVICE',
    id: 'pager',
    tokenId: null,
    expiresAt: null,
    name: 'Pager',
    agentIds,
  })
  const spaceIds = places.map(({ id }) => id)
  const onCall = () => {
    played += 1
  }
  parley.models.script(tellsEverything({ random, spaceIds, agentIds, wordsIn: hearing.wordsIn, onCall }))

  /** Returns the new messages and the displayed calls of a space. */
  async function listenIn(place: Place): Promise<void> {
    const newest = { orderBy: { id: 'desc' as const }, take: MOST_NEW }
    const messages = await prisma.message.findMany({ where: { spaceId: place.id }, ...newest })
    const isPart = { OR: [{ execution: { not: null } }, { approvalState: { not: null } }] }
    const calls = await prisma.toolCall.findMany({
      where: { spaceId: place.id, messageId: { not: null }, ...isPart },
      ...newest,
    })
    for (const { id, parts, origin } of messages)
      hears(place, id, [parts, (origin as { triggerName?: string } | null)?.triggerName])
    for (const { id, input, output, error, approval } of calls) {
      const { hidesOutput = false } = (approval ?? {}) as { hidesOutput?: boolean }
      hears(place, id, hidesOutput ? [input] : [input, output, error])
    }
  }

  const read = new Map<string, Set<string>>()
  function hears(place: Place, id: string, said: unknown): void {
    const known = read.get(id) ?? new Set()
    const words = hearing.wordsIn(JSON.stringify(said))
    hearing.saidIn(place, words.filter((word) => !known.has(word)).join(' '), `${place.id}, ${id}`)
    read.set(id, new Set([...known, ...words]))
  }

  async function listen(): Promise<void> {
    for (const place of places) await listenIn(place)
    for (const text of outside.posted.splice(0)) hearing.leaves(text, 'a tool')
  }

  const readMarkedRows = createMarkedRows(parley.app.platform.db)
  async function compareMarks(): Promise<void> {
    for (const { id, text, marks } of await readMarkedRows()) hearing.isKept(marks, text, id)
  }

  let lastCallId = ''
  let lastEventId = ''
  /**
   * Checks the spaces that runs have entered since the last check, and the events that cycles have claimed together. These
   * rules are not about who may read what.
   */
  async function watch(): Promise<void> {
    const where = {
      toolName: { in: ['enter_space', 'readSpaceMessages'] },
      status: 'DONE' as const,
      id: { gt: lastCallId },
    }
    for (const { id, runId, input } of await prisma.toolCall.findMany({ where, orderBy: { id: 'asc' } })) {
      lastCallId = id
      const place = places.find((one) => one.id === (input as { spaceId: string }).spaceId)
      const { askers, triggerType } = await prisma.run.findUniqueOrThrow({ where: { id: runId } })
      const isStranger = (askerId: string) => place?.since != null && !place.humans.has(askerId)
      // A cycle can get another requester after it has entered a space.
      if (triggerType !== 'INBOX' && askers.some(isStranger))
        hearing.betrayals.push(`${askers.join()} sends a run into ${place?.id}`)
    }
    const taken = await prisma.inboxEvent.findMany({
      where: { id: { gt: lastEventId }, runId: { not: null } },
      orderBy: { id: 'asc' },
    })
    lastEventId = taken.at(-1)?.id ?? lastEventId
    // A reply to a wait is in the inbox, marked as read.
    const events = taken.filter(({ payload }) => JSON.stringify(payload) !== '{}')
    const isNow = (spaceId: string) => places.find(({ id }) => id === spaceId)?.since != null
    const labelOf = (marks: string[][]) => [...new Set(marks.flat().filter(isNow))].sort().join()
    for (const [runId, together] of Map.groupBy(events, (event) => event.runId)) {
      const labels = new Set(together.map(({ places: from, label }) => labelOf([from, label])))
      if (labels.size > 1) hearing.betrayals.push(`${runId} thinks about ${[...labels].join(' and ')} together`)
    }
  }

  /** Reads the runs and rooms as each person sees them. */
  async function look(): Promise<void> {
    hearing.leaves(JSON.stringify((await pager.ask(SEEN)).data), 'what a service sees')
    for (const [humanId, client] of clients) {
      const runs = await client.ask(SEEN)
      const room = await client.ask(ROOM, { id: one(places).id })
      if (runs.errors ?? room.errors) throw new Error(JSON.stringify([runs.errors, room.errors]))
      hearing.shownTo(humanId, JSON.stringify(runs.data), 'runs')
      hearing.shownTo(humanId, JSON.stringify(room.data), 'a room')
    }
  }

  /** Replies to waits, and decides on pending calls, as a person. @returns the number of actions */
  async function answer(): Promise<number> {
    const waiting = await prisma.toolCall.findMany({ where: { status: 'WAITING' } })
    for (const { id: toolCallId, approvalState, execution, spaceId, input } of waiting) {
      if (approvalState === 'PENDING')
        for (const client of clients.values()) await client.ask(DECIDE, { id: toolCallId })
      if (approvalState === 'PENDING') continue
      if (execution === 'EXTERNAL') hearing.leaves(JSON.stringify(input), 'a tool that is answered')
      const place = places.find(({ id }) => id === spaceId)
      const result = place === undefined ? 'Done.' : `I say ${hearing.coin(place)}.`
      await domain.control.submitToolResult(parley.admin, { toolCallId, result }).catch(unlessLate)
    }
    return waiting.length
  }

  /**
   * While people join and leave, no agent is at work. Retries are made due at once, and one statement counts all unfinished
   * work.
   */
  async function rest(): Promise<void> {
    await until(
      'all triggered work has ended',
      async () => {
        await prisma.inboxEvent.updateMany({ where: { retryAt: { gt: new Date() } }, data: { retryAt: new Date() } })
        const answered = await answer()
        const open = await prisma.$queryRaw<object[]>`
        SELECT id, "runId", "waitsUntil", "retryAt" FROM "InboxEvent" WHERE "doneAt" IS NULL
        UNION ALL SELECT id, status::text, "claimableAt", "leaseUntil" FROM "Run" WHERE status IN ('QUEUED', 'RUNNING', 'WAITING_TOOL')
        UNION ALL SELECT id, status::text, "carryAt", "expiresAt" FROM "ToolCall" WHERE "carryAt" IS NOT NULL`
        if (open.length > 0) throw new Error(`at work: ${JSON.stringify(open)}`)
        return answered === 0
      },
      RESTS_WITHIN,
    )
  }

  async function speaks(place: Place): Promise<void> {
    const human = one(people)
    if (place.humans.has(human.id)) await parley.send(human, place.id, `Here is ${hearing.coin(place)}.`)
  }

  async function happens(): Promise<void> {
    const place = one(places)
    const kind = random(12)
    if (kind < 2) {
      const human = one(people)
      const input = { spaceId: place.id, entityId: human.id }
      if (place.humans.has(human.id)) await domain.members.remove(parley.admin, input)
      else await domain.members.add(parley.admin, input)
      if (!place.humans.delete(human.id)) place.humans.add(human.id)
    } else if (kind < 3 && place.humans.size > 0) {
      time += 1
      place.since = place.since === null ? time : null
      await domain.spaces.update(parley.admin, { id: place.id, confidential: place.since !== null })
    } else if (kind < 4) await pager.ask(TRIGGER, { agentId: one(agentIds) })
    else if (kind < 5) {
      const plans = await prisma.plan.findMany({ where: { agentId: { in: agentIds } }, orderBy: { id: 'asc' } })
      if (plans.length > 0) await domain.plans.runNow(parley.admin, { id: one(plans).id }).catch(unlessLate)
    } else for (const _ of [0, 1, 2].slice(random(3))) await speaks(one([place, one(places)]))
  }

  try {
    while (played < steps && hearing.betrayals.length === 0) {
      played += 1
      await happens()
      await rest()
      // Discards the recorded requests of the model server, which would take a hundred kilobytes for each of 20,000 steps.
      parley.models.requests.length = 0
      await listen()
      await watch()
      await compareMarks()
      await look()
    }
  } finally {
    await outside.close()
  }
  return hearing.betrayals
}

/** Ignore a conflict, because another person was faster, or the call has ended in the meantime. */
function unlessLate(error: unknown): void {
  if (!(error instanceof ConflictError)) throw error
}

function toolsOf(url: string, approvers: { id: string }[]): ToolInput[] {
  const tool = (name: string, more: Partial<ToolInput>): ToolInput => ({
    name,
    description: 'A tool.',
    inputSchema: { type: 'object' },
    execution: 'HTTP',
    ...more,
  })
  const marked = { mayReceiveConfidential: true }
  const approval = { quorum: 1, approverIds: approvers.map(({ id }) => id) }
  return [
    tool('post', { url }),
    tool('told', { url: `${url}marked`, ...marked }),
    tool('pay', { url: `${url}marked`, ...marked, approval, visible: true }),
    tool('hand', { execution: 'EXTERNAL' }),
    tool('ask', { execution: 'SPACE' }),
    tool('chart', { execution: 'INTERNAL', visible: true }),
  ]
}

/**
 * Starts the server of a tool, which returns its inputs. Records them, except those of the marked tool, which may receive
 * everything.
 */
async function openOutside() {
  const posted: string[] = []
  const server: Server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      if (request.url !== '/marked') posted.push(body)
      response.end(body)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { posted, url: `http://127.0.0.1:${port}/`, close: () => new Promise((resolve) => server.close(resolve)) }
}
