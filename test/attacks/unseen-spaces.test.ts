import { type GraphQLObjectType, getNamedType, isObjectType } from 'graphql'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { schema } from '../../src/graphql/schema.ts'
import { RULE_STACKS } from '../support/application.ts'
import { selectionOf } from '../support/every-field.ts'
import { forAgent, type ModelAction } from '../support/model-server-script.ts'
import type { LiveEvents } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { type Named, openStage, type Person, type Read, type Stage } from '../support/stage.ts'
import { enter, say } from '../support/turns.ts'
import { until } from '../support/until.ts'

const SEED = Number(process.env['RANDOM_SEED'] ?? 20_261_126)
const PEOPLE = 4
const SPACES = 4
const ROUNDS = 4

/** Returns a generator of numbers from 0 to `below`. Equal seeds give equal numbers. */
function createRandom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** Selects every field of a subscription's events and of their objects. */
function everyEvent(field: 'runEvents' | 'spaceMessages' | 'viewerEvents' | 'agentActivity'): string {
  const type = getNamedType(schema.getSubscriptionType()?.getFields()[field]?.type)
  const types = isObjectType(type) ? [type] : (schema.getPossibleTypes(type as never) as readonly GraphQLObjectType[])
  return `__typename ${types.map((one) => `... on ${one.name} { ${selectionOf(one, 1)} }`).join(' ')}`
}
const objectOf = (name: string) => schema.getType(name) as GraphQLObjectType
const textOf = (refusal: unknown) => JSON.stringify(refusal) + String(refusal)

describe.each(RULE_STACKS)(`a space that a viewer may not see, on the %s stack, by seed ${SEED}`, (stack) => {
  const random = createRandom(SEED)
  const watched: { person: Viewer; events: LiveEvents<Read> }[] = []
  let parley: TestServer
  let stage: Stage
  let spaces: (Named & { members: Set<string> })[]
  let people: Person[]
  let agents: Named[]

  type Viewer = Pick<Person, 'id' | 'name' | 'client'>

  beforeAll(async () => {
    parley = await startTestServer({ stack, settings: { PARLEY_RATE_REQUESTS: '0', PARLEY_MAX_ROOT_RUNS: '3' } })
    stage = await openStage(parley)
    people = await Promise.all(Array.from({ length: PEOPLE }, (_, index) => stage.person(`Person${index}`)))
    const approved = { name: 'pay', description: 'Pays.', inputSchema: { type: 'object' }, execution: 'INTERNAL' }
    agents = [
      await stage.bot('Roamer', { toolset: 'ACTIVE_SPACE', mind: 'STATELESS' }),
      await stage.bot('Payer', {
        toolset: 'ACTIVE_SPACE',
        tools: [{ ...approved, visible: true, approval: { quorum: 1, approverIds: people.map(({ id }) => id) } }],
      }),
      await stage.bot('Thinker', { toolset: 'ACTIVE_SPACE', mind: 'PERSISTENT' }),
    ]
    spaces = await Promise.all(
      Array.from({ length: SPACES }, async (_, index) => {
        // Each space is hidden from at least one viewer.
        const members = people.filter((_person, of) => of === index % PEOPLE || random(3) === 0)
        const input = { routing: 'BROADCAST', confidential: index === SPACES - 1 }
        const space = await stage.space(
          `Place-${index}-${random(2 ** 31).toString(36)}`,
          [...members, ...agents],
          input,
        )
        return { ...space, members: new Set(members.map(({ id }) => id)) }
      }),
    )
    for (const agent of agents) {
      parley.models.script(forAgent(agent.name, ({ step }) => actionsAt(agent, step)))
    }
  })
  afterAll(async () => {
    for (const { events } of watched) events.stop()
    await parley?.close()
  })

  const somewhere = () => spaces[random(spaces.length)] as Named
  /** The actions of an agent in one generation: it enters several spaces, and its posts mention none of them. */
  function actionsAt({ name }: Named, step: number): ModelAction[] {
    if (step >= 4) return [{ text: 'Done.' }]
    if (name === 'Payer' && step === 3) return [{ toolCall: 'pay', input: {} }]
    return step % 2 === 0 ? [enter(somewhere())] : [say(`Words ${random(1000)}`)]
  }

  const seesIt = (viewer: Viewer, { members }: (typeof spaces)[number]) => members.has(viewer.id)
  /** Returns the ids and names of spaces that the viewer may not see, but that the viewer's data contains. */
  const unseenIn = (viewer: Viewer, received: unknown) => {
    const text = JSON.stringify(received)
    return spaces
      .filter((space) => !seesIt(viewer, space) && (text.includes(space.id) || text.includes(space.name)))
      .map(({ name }) => name)
  }

  function watch(person: Viewer, field: Parameters<typeof everyEvent>[0], args = ''): void {
    const document = `subscription { ${field}${args} { ${everyEvent(field)} } }`
    watched.push({ person, events: person.client.subscribe<Read, object>({ toString: () => document }, {}) })
  }

  /** For every viewer: the list of spaces, and each space in it. */
  function watchSpaces(viewer: Viewer): void {
    watch(viewer, 'viewerEvents')
    for (const { id } of spaces.filter((space) => seesIt(viewer, space))) {
      watch(viewer, 'spaceMessages', `(spaceId: "${id}")`)
      watch(viewer, 'agentActivity', `(spaceId: "${id}")`)
    }
  }

  function watchRuns(viewer: Viewer, runs: readonly { id: string }[]): void {
    for (const { id } of runs) watch(viewer, 'runEvents', `(runId: "${id}")`)
  }

  async function talk(viewers: readonly Viewer[]): Promise<void> {
    for (let round = 0; round < ROUNDS; round++) {
      const space = spaces[random(spaces.length)] as (typeof spaces)[number]
      const person = people.find(({ id }) => space.members.has(id)) as Person
      const { runs } = await stage.say(person, space, `Go ${round}`)
      for (const viewer of viewers) watchRuns(viewer, runs)
    }
    const where = { status: { in: ['QUEUED' as const, 'RUNNING' as const] } }
    const { run } = parley.app.platform.db.prisma
    await until('no run executes any more', async () => (await run.count({ where })) === 0, { timeoutMs: 60_000 })
  }

  const of = (name: string, depth: number) => selectionOf(objectOf(name), depth)
  const documentsAbout = (runs: readonly { id: string }[]) => [
    `{ viewer { ${of('Viewer', 1)} } }`,
    `{ runs(first: 10) { edges { cursor node { ${of('Run', 1)} } } } }`,
    `{ agents(first: 3) { edges { cursor node { ${of('Agent', 1)} } } } }`,
    `{ spaces(first: 5) { edges { cursor node { ${of('Space', 1)} } } } }`,
    ...runs.map(({ id }) => `{ run(id: "${id}") { ${of('Run', 2)} } }`),
    ...spaces.map(({ id }) => `{ space(id: "${id}") { ${of('Space', 1)} } }`),
  ]

  async function readAll(viewer: Viewer, runs: readonly { id: string }[]): Promise<void> {
    for (const document of documentsAbout(runs)) {
      const { data, errors } = await viewer.client.ask<Read>(document)
      expect(errors).toBeUndefined()
      expect(unseenIn(viewer, data)).toEqual([])
    }
    for (const { id } of spaces.filter((space) => !seesIt(viewer, space))) {
      const { data } = await viewer.client.ask<Read>(`{ runs(filter: { spaceId: "${id}" }) { edges { node { id } } } }`)
      expect(data.runs.edges).toEqual([])
    }
  }

  test('appears in no event, neither with its id nor with its name, nor in any response about what the viewer may see', async () => {
    const grant = { scope: 'SERVICE', id: 'x', name: 'ci', agentIds: agents.map(({ id }) => id) }
    const viewers: Viewer[] = [...people, { id: 'x', name: 'ci', client: await parley.clientOf(grant as never) }]
    for (const viewer of viewers) watchSpaces(viewer)
    await talk(viewers)
    const runs = await parley.app.platform.db.prisma.run.findMany({ select: { id: true } })
    for (const viewer of viewers) watchRuns(viewer, runs)
    for (const viewer of viewers) await readAll(viewer, runs)
    const events = () => watched.flatMap(({ person, events: { seen } }) => seen.map((event) => ({ person, event })))
    const isEntered = ({ event }: { event: Read }) => event.runEvents?.__typename === 'RunSpaceEntered'
    await until('viewers of the space get the event of the entry', () => events().some(isEntered))
    const refusals = watched.map(({ events: { ended } }) => Promise.race([ended, null]))
    const words = new Set(
      (await Promise.all(refusals)).flatMap((refusal) => (refusal === null ? [] : [textOf(refusal)])),
    )
    for (const refusal of words) expect(refusal).toContain('NOT_FOUND')
    expect(new Set(events().map(({ event }) => Object.keys(event)[0])).size).toBe(4)
    for (const { person, event } of events()) expect(unseenIn(person, event)).toEqual([])
  }, 300_000)

  test('is null in an event whose operation selects nothing but the space', async () => {
    const { prisma } = parley.app.platform.db
    const ended = await prisma.run.findMany({ where: { status: 'COMPLETED' } })
    const written = await prisma.runSpace.findMany({ where: { runId: { in: ended.map(({ id }) => id) } } })
    const hidden = written.flatMap(({ runId, spaceId }) => {
      const trigger = ended.find(({ id }) => id === runId)?.triggerSpaceId
      const has = (space: string | null | undefined, person: Person) =>
        spaces.find(({ id }) => id === space)?.members.has(person.id) === true
      const person = people.find((one) => has(trigger, one) && !has(spaceId, one))
      return person === undefined ? [] : [{ person, runId }]
    })[0]
    if (hidden === undefined) throw new Error('this seed hides nothing: choose another one')
    const ask = async (fields: string) => {
      const document = `subscription { runEvents(runId: "${hidden.runId}") { __typename ... on RunSpaceEntered { ${fields} } } }`
      const events = hidden.person.client.subscribe<Read, object>({ toString: () => document }, {})
      await events.ended
      return events.seen.map(({ runEvents }) => runEvents).filter(({ __typename }) => __typename === 'RunSpaceEntered')
    }
    const bySpace = await ask('space { id }')
    expect(bySpace.some(({ space }) => space === null)).toBe(true)
    const byId = await ask('spaceId')
    expect(byId).toHaveLength(bySpace.filter(({ space }) => space !== null).length)
  })
})
