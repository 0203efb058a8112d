import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { logContext } from '../../src/lib/log-context.ts'
import { requesterHere } from '../../src/lib/requester-context.ts'
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
