import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { logContext } from '../../src/lib/log-context.ts'
import { requesterHere } from '../../src/lib/requester-context.ts'
import { STACKS } from '../support/application.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const SEND = `mutation ($spaceId: ID!) { sendMessage(input: { spaceId: $spaceId, text: "Hello" }) { ... on SendMessagePayload { runs { id } } } }`

interface Sent {
  sendMessage: { runs: { id: string }[] }
}

describe('a statement for somebody', () => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer()
  })
  afterAll(() => parley?.close())

  test('names the requester of each statement, in requests and in the runs that work for them', async () => {
    const { human, space } = await parley.room()
    const { db } = parley.app.platform
    const [query, transaction] = [db.query, db.transaction]
    const seen: { requester: string | undefined; isRun: boolean }[] = []
    const note = () => seen.push({ requester: requesterHere(), isRun: 'runId' in (logContext() ?? {}) })
    db.query = (statement) => {
      note()
      return query(statement)
    }
    db.transaction = (work) => {
      note()
      return transaction(work)
    }
    try {
      const client = await parley.clientOf(human)
      const { data } = await client.ask<Sent>(SEND, { spaceId: space.id })
      await until('the request has written', async () =>
        seen.some(({ requester, isRun }) => requester === human.id && !isRun),
      )
      await parley.runWhen(data?.sendMessage.runs[0]?.id ?? '')
      const ofRuns = await until('the run has written', async () => {
        const some = seen.filter(({ isRun }) => isRun)
        return some.length > 0 ? some : undefined
      })
      expect(new Set(ofRuns.map(({ requester }) => requester))).toEqual(new Set([human.id]))
    } finally {
      Object.assign(db, { query, transaction })
    }
  })
})

describe.each(STACKS)('the lookups for an event on the %s stack', (stack) => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer({ stack, worker: false })
  })
  afterAll(() => parley?.close())

  test('count for its only subscriber, or else for all subscribers of the space together, never for the poster', async () => {
    const ada = await parley.human('Ada')
    const people = [await parley.human('Bob'), await parley.human('Carol')]
    const { id } = await parley.space(ada, [])
    for (const { id: entityId } of people) await parley.app.domain.members.add(parley.admin, { spaceId: id, entityId })
    const poster = await parley.clientOf(ada)
    const requesters: (string | undefined)[] = []
    const { reading } = parley.app.domain
    const getMany = reading.getMany.bind(reading)
    vi.spyOn(reading, 'getMany').mockImplementation((...request) => {
      requesters.push(requesterHere())
      return getMany(...request)
    })
    const watch = async (n: number) => {
      const client = await parley.clientOf(people[n]!)
      const query = `subscription { spaceMessages(spaceId: "${id}") { __typename ... on MessagePosted { message { text } } } }`
      const live = client.subscribe({ toString: () => query }, {})
      await live.first(() => true)
      return live
    }
    const first = await watch(0)
    await poster.ask(SEND, { spaceId: id })
    await until('the message is delivered', () => first.seen.length === 2)
    expect(requesters).toEqual([people[0]?.id])
    const second = await watch(1)
    await poster.ask(SEND, { spaceId: id })
    await until('the message is delivered', () => first.seen.length === 3 && second.seen.length === 2)
    expect(new Set(requesters.slice(1))).toEqual(new Set([`events:${id}`]))
    first.stop()
    second.stop()
  })
})
