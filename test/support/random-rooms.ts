import fc from 'fast-check'
import { expect } from 'vitest'
import type { TestApplication } from './application.ts'
import type { ModelAction, ModelRequest } from './model-server-script.ts'
import { until } from './until.ts'

/** The actions in the rooms, one after the other. `agent` and `space` are taken modulo their number. */
export interface Happening {
  does: 'say' | 'reply' | 'delete' | 'leave' | 'join' | 'answer' | 'crash' | 'rest'
  agent: number
  space: number
  /** An earlier message of a person in the space, modulo the number of such messages. */
  message: number
}

export interface RandomRooms {
  happenings: Happening[]
  /** The spaces in which each agent is at first. */
  members: boolean[]
  /** The actions of the models, one list per generation. */
  choices: number[]
}

const does = fc.oneof(
  { weight: 8, arbitrary: fc.constant('say' as const) },
  { weight: 3, arbitrary: fc.constantFrom('reply' as const, 'delete' as const) },
  { weight: 3, arbitrary: fc.constantFrom('leave' as const, 'join' as const) },
  { weight: 3, arbitrary: fc.constantFrom('answer' as const, 'crash' as const, 'rest' as const) },
)

const AGENTS = 3
const SPACES = 3

export const randomRooms: fc.Arbitrary<RandomRooms> = fc.record({
  happenings: fc.array(
    fc.record({ does, agent: fc.nat(AGENTS - 1), space: fc.nat(SPACES - 1), message: fc.nat(1000) }),
    { minLength: 10, maxLength: 16 },
  ),
  members: fc.array(fc.boolean(), { minLength: AGENTS * SPACES, maxLength: AGENTS * SPACES }),
  choices: fc.array(fc.nat(1000), { minLength: 40, maxLength: 40 }),
})

const ASK = { name: 'ask', description: 'Asks.', inputSchema: { type: 'object' as const }, execution: 'SPACE' as const }
/** Each word is posted once, and searched as a whole word. */
const WORD = /zq\d+x\d+qz/g

interface Player {
  id: string
  name: string
  /** The words that the agent may have read: those of spaces in which it was at that time or later, unless they were deleted. */
  mayKnow: Set<string>
  /** The current spaces of the agent, and its former spaces with the time at which it left. */
  spaces: Set<string>
  left: Map<string, number>
}

/** The faults: a prompt with a word that the agent could not read, or without its trigger. */
export interface Findings {
  heard: string[]
  missing: string[]
  requests: number
  /** The number of words that were searched in prompts. */
  triggers: number
}

let played = 0

/** Plays one case to its end, on an application whose model server plays the agents. */
export async function playRooms(parley: TestApplication, rooms: RandomRooms): Promise<Findings> {
  const findings: Findings = { heard: [], missing: [], requests: 0, triggers: 0 }
  const { prisma } = parley.app.platform.db
  const round = played++
  const human = await parley.human('Husam')
  const players = await castOf(parley, round)
  const spaces = [0, 1, 2].map((n) => ({ name: `Room ${n}`, id: '', words: [] as string[] }))
  const choices = [...rooms.choices]
  const triggers = new Map<string, { word: string; spaceId: string; at: number }>()
  const messagesIn = (spaceId: string) => [...triggers.entries()].filter(([, { spaceId: id }]) => id === spaceId)
  /** The trigger of each request, the spaces that its agent had left by then, and the messages that triggered it. */
  const asked: { player: Player; left: Map<string, number>; told: string; messageIds: string[] }[] = []
  let words = 0
  let time = 0

  /** Returns a new word for a space, which all members of the space may read. */
  function wordFor(spaceId: string): string {
    const word = `zq${round}x${++words}qz`
    spaces.find(({ id }) => id === spaceId)?.words.push(word)
    for (const player of players) if (player.spaces.has(spaceId)) player.mayKnow.add(word)
    return word
  }

  function enrol(player: Player, spaceId: string): void {
    player.spaces.add(spaceId)
    for (const word of spaces.find(({ id }) => id === spaceId)?.words ?? []) player.mayKnow.add(word)
  }

  async function check(player: Player, request: ModelRequest): Promise<void> {
    findings.requests++
    const text = JSON.stringify(request.body)
    const alien = (text.match(WORD) ?? []).filter((word) => !player.mayKnow.has(word))
    if (alien.length > 0) findings.heard.push(`${player.name} was shown ${alien.join()}`)
    const left = new Map(player.left)
    asked.push({ player, left, told: toldOf(request), messageIds: await triggersOf(player, request) })
  }

  /** Returns the messages that triggered the run of a request: one for a stateless run, and the claimed ones for a cycle. */
  async function triggersOf({ id: agentId }: Player, { instructions }: ModelRequest): Promise<string[]> {
    const runId = /Run (run_\w+) \(this run\)/.exec(instructions)?.[1]
    const where = runId === undefined ? { agentId, status: 'RUNNING' as const } : { id: runId }
    const run = await prisma.run.findFirst({ where })
    const events = await prisma.inboxEvent.findMany({ where: { runId: run?.id ?? '', retryAt: null } })
    const ids = [run?.triggerMessageId ?? null, ...events.map(({ messageId }) => messageId)]
    return [...new Set(ids.filter((id) => id !== null))]
  }

  /** A request that arrives before the trigger message is known is checked at the end. */
  function findMissing(): void {
    for (const { player, left, told, messageIds } of asked) {
      for (const trigger of messageIds.flatMap((id) => triggers.get(id) ?? [])) {
        findings.triggers++
        const hasLeft = (left.get(trigger.spaceId) ?? -1) >= trigger.at
        if (!told.includes(trigger.word) && !hasLeft)
          findings.missing.push(`${player.name} was not shown its trigger ${trigger.word}`)
      }
    }
  }

  function decide(player: Player, request: ModelRequest): ModelAction[] {
    const results = request.messages.filter(({ role }) => role === 'tool').length
    const choice = choices.shift() ?? 0
    // Models also try forbidden actions.
    const own = [...player.spaces]
    const here = (choice % 3 === 0 ? undefined : own[choice % Math.max(1, own.length)]) ?? spaces[choice % SPACES]?.id
    if (results < 2) return [{ toolCall: 'enter_space', input: { spaceId: here } }]
    if (results > 12 || choice % 4 === 0) return [{ text: 'Done.' }]
    if (choice % 4 === 1) return [{ toolCall: 'read_messages', input: {} }]
    if (choice % 4 === 2) return [{ toolCall: 'ask', input: {} }]
    // Only the server knows the space of the message, whose members may all read it.
    const word = `zq${round}x${++words}qz`
    for (const other of players) other.mayKnow.add(word)
    return [{ toolCall: 'send_message', input: { text: word } }]
  }

  parley.models.script(async (request) => {
    const player = players.find(({ name }) => request.instructions.startsWith(`You are ${name},`))
    if (player === undefined) return undefined
    await check(player, request)
    return decide(player, request)
  })

  for (const [n, space] of spaces.entries()) {
    const ids = players.filter((_, index) => rooms.members[index * SPACES + n]).map(({ id }) => id)
    space.id = (await parley.space(human, ids, { name: space.name })).id
    for (const player of players) if (ids.includes(player.id)) enrol(player, space.id)
  }
  const waiting = () =>
    prisma.toolCall.findFirst({ where: { agentId: { in: players.map(({ id }) => id) }, status: 'WAITING' } })
  const isIdle = async () => {
    const agentId = { in: players.map(({ id }) => id) }
    const living = await prisma.run.count({ where: { agentId, status: { in: ['QUEUED', 'RUNNING'] } } })
    // A quiet event, such as a deletion, does not wake the agent, but waits for the agent's next cycle.
    const events = await prisma.inboxEvent.count({ where: { agentId, doneAt: null, retryAt: null, quiet: false } })
    return living + events === 0
  }

  async function answerOne(): Promise<boolean> {
    const call = await waiting()
    if (call === null) return false
    const input = { toolCallId: call.id, result: { ok: true } }
    await parley.app.domain.control.submitToolResult(parley.admin, input).catch(() => {})
    return true
  }

  async function post(spaceId: string, replyToId?: string): Promise<void> {
    const word = wordFor(spaceId)
    const { message } = await parley.app.domain.sending.send(human, {
      spaceId,
      text: word,
      replyToId: replyToId ?? null,
    })
    triggers.set(message.id, { word, spaceId, at: time })
  }

  /** Deletes a message while no agent is at work. No later prompt may contain the word, not even prompts of runs that wait. */
  async function remove(space: { words: string[] }, messageId: string, word: string): Promise<void> {
    await until('all runs have ended', isIdle)
    await parley.app.domain.messageChanges.delete(parley.admin, { messageId })
    triggers.delete(messageId)
    space.words.splice(space.words.indexOf(word), 1)
    for (const { mayKnow } of players) mayKnow.delete(word)
  }

  async function happen({ does, agent, space: place, message }: Happening): Promise<void> {
    const [player, space] = [players[agent] as Player, spaces[place] as (typeof spaces)[number]]
    const membership = { spaceId: space.id, entityId: player.id }
    const said = messagesIn(space.id)
    const old = said[message % Math.max(1, said.length)]
    time++
    if (does === 'say') await post(space.id)
    else if (does === 'reply') await post(space.id, old?.[0])
    else if (does === 'delete' && old !== undefined) await remove(space, old[0], old[1].word)
    else if (does === 'join' && !player.spaces.has(space.id)) {
      enrol(player, space.id)
      await parley.app.domain.members.add(human, membership)
    } else if (does === 'leave' && player.spaces.has(space.id)) {
      player.left.set(space.id, time)
      await parley.app.domain.members.remove(human, membership)
      player.spaces.delete(space.id)
    } else if (does === 'answer') await answerOne()
    else if (does === 'rest') await until('all runs have ended', isIdle)
    else if (does === 'crash') await crash(parley, players)
  }

  for (const happening of rooms.happenings) await happen(happening)
  await until('all work has ended', async () => (await isIdle()) && !(await answerOne()))
  findMissing()
  return findings
}

/** Returns the part of a prompt that contains the trigger, because quotations elsewhere can contain the same words. */
const toldOf = ({ messages }: ModelRequest): string =>
  messages
    .filter(({ role, text }) => role === 'user' && /^(TRIGGER|INBOX|\[URGENT\])/.test(text))
    .map(({ text }) => text.split(/\n(?:RECENT MESSAGES|THIS THREAD)/)[0])
    .join('\n')

/** Two stateless agents and a persistent one. */
async function castOf(parley: TestApplication, round: number): Promise<Player[]> {
  const cast = [
    await parley.agent(`Ada${round}x`, { tools: [ASK] }),
    await parley.agent(`Bob${round}x`, { tools: [ASK] }),
    await parley.agent(`Mia${round}x`, { tools: [ASK], mind: 'PERSISTENT' }),
  ]
  return cast.map(({ id, name }) => ({ id, name, mayKnow: new Set(), spaces: new Set(), left: new Map() }))
}

/** Simulates the death of the worker of the current run. Another claim resumes the run, and this worker may no longer write. */
async function crash(parley: TestApplication, players: Player[]): Promise<void> {
  const ids = players.map(({ id }) => id)
  await parley.app.platform.db.prisma.$executeRaw`
    UPDATE "Run" SET "claimableAt" = now(), "leaseUntil" = NULL, "fruitlessAttempts" = 0
    WHERE status = 'RUNNING' AND "agentId" = ANY(${ids}::text[])`
}

/** In every case, nobody reads texts of spaces without being a member, and every prompt has its trigger. */
export async function expectDiscretion(
  parley: TestApplication,
  { numRuns, seed }: { numRuns: number; seed: number },
): Promise<void> {
  let [requests, triggers] = [0, 0]
  const property = fc.asyncProperty(randomRooms, async (rooms) => {
    const findings = await playRooms(parley, rooms)
    requests += findings.requests
    triggers += findings.triggers
    expect(findings).toMatchObject({ heard: [], missing: [] })
  })
  await fc.assert(property, { numRuns, seed, endOnFailure: true })
  expect(requests).toBeGreaterThan(numRuns)
  expect(triggers).toBeGreaterThan(numRuns)
}
