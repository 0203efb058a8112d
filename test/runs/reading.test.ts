import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer, Viewer } from '../../src/access/viewer.ts'
import type { Agent } from '../../src/agents/agents.ts'
import type { RunStatus } from '../../src/generated/prisma/client.ts'
import { runCursor, runsRequest } from '../../src/graphql/connections.ts'
import { encodeIdCursor } from '../../src/lib/id-cursor.ts'
import type { PageArguments } from '../../src/lib/page.ts'
import { createRunReading, type RunReading } from '../../src/runs/reading.ts'
import { type Domain, openDomain, RULE_DATABASES } from '../support/domain.ts'

describe.each(RULE_DATABASES)("an agent's runs on %s", (database) => {
  let domain: Domain
  let reading: RunReading
  let ada: HumanViewer
  let bob: HumanViewer
  let helper: Agent
  let other: Agent
  /**
   * The runs of `helper`, oldest first: one in Ada's space, one in both spaces, a failed one in the shared space, and one of a
   * service.
   */
  let runIds: string[]
  let otherRunId: string
  let service: Viewer

  beforeAll(async () => {
    domain = await openDomain(database)
    reading = createRunReading(domain.platform)
    ada = await domain.human('Ada')
    bob = await domain.human('Bob')
    helper = await domain.agent('Helper')
    other = await domain.agent('Other')
    service = await domain.service('Jira', null)
    const shared = await domain.space(domain.admin, [ada.id, bob.id])
    const adas = await domain.space(ada)
    const runs = [
      await domain.run(helper.id, { triggerSpaceId: adas.id }),
      await domain.run(helper.id, { triggerSpaceId: adas.id }),
      await domain.run(helper.id, { triggerSpaceId: shared.id, status: 'FAILED' }),
      await domain.run(helper.id, { triggerType: 'SERVICE', triggerServiceId: service.id }),
    ]
    runIds = runs.map(({ id }) => id)
    await domain.platform.db.prisma.runSpace.create({ data: { runId: runIds[1]!, spaceId: shared.id } })
    otherRunId = (await domain.run(other.id, { triggerSpaceId: shared.id })).id
  })
  afterAll(() => domain.close())

  /** Returns the page as positions in `runIds`, and both flags. */
  async function pageOf(viewer: Viewer, page: PageArguments = {}, statuses: RunStatus[] | null = null) {
    const [answer] = await reading.pageMany(viewer, [helper.id], runsRequest(page), statuses)
    if (answer === undefined || 'code' in answer) return answer?.code
    return [answer.items.map(({ id }) => runIds.indexOf(id)), answer.hasPreviousPage, answer.hasNextPage]
  }
  const at = (index: number) => runCursor({ id: runIds[index]!, agentId: helper.id })

  test('are newest first, if the viewer may see them', async () => {
    expect(await pageOf(domain.admin)).toEqual([[3, 2, 1, 0], false, false])
    expect(await pageOf(ada)).toEqual([[2, 1, 0], false, false])
    expect(await pageOf(bob)).toEqual([[2, 1], false, false])
    expect(await pageOf(service)).toEqual([[3], false, false])
  })

  test('runs have the requested statuses', async () => {
    expect(await pageOf(ada, {}, ['FAILED'])).toEqual([[2], false, false])
    expect(await pageOf(ada, {}, ['COMPLETED', 'QUEUED'])).toEqual([[1, 0], false, false])
    expect(await pageOf(ada, {}, [])).toEqual([[], false, false])
  })

  test('are paginated, with flags for the visible runs', async () => {
    expect(await pageOf(ada, { first: 1 })).toEqual([[2], false, true])
    expect(await pageOf(ada, { first: 1, after: at(2) })).toEqual([[1], true, true])
    expect(await pageOf(ada, { first: 2, after: at(1) })).toEqual([[0], true, false])
    expect(await pageOf(ada, { last: 1 })).toEqual([[0], true, false])
    expect(await pageOf(ada, { last: 5, before: at(0) })).toEqual([[2, 1], false, true])
    expect(await pageOf(bob, { first: 1, after: at(1) })).toEqual([[], true, false])
    expect(await pageOf(bob, { last: 1, before: at(3) })).toEqual([[], false, true])
    expect(await pageOf(ada, { first: 9, after: at(2), before: at(0) })).toEqual([[1], true, true])
    expect(await pageOf(ada, { first: 9, after: at(2) }, ['FAILED'])).toEqual([[], true, false])
  })

  test('each agent has its own page; the cursor of one is invalid for another', async () => {
    const agentIds = [other.id, helper.id, other.id]
    const pages = await reading.pageMany(ada, agentIds, runsRequest({ first: 1 }), null)
    const ids = pages.map((page) => ('items' in page ? page.items.map(({ id }) => id) : page.code))
    expect(ids).toEqual([[otherRunId], [runIds[2]], [otherRunId]])
    const after = await reading.pageMany(ada, [other.id, helper.id], runsRequest({ after: at(2) }), null)
    expect(after).toMatchObject([
      { code: 'BAD_INPUT', field: 'after' },
      { items: [{ id: runIds[1] }, { id: runIds[0] }] },
    ])
    const before = await reading.pageMany(ada, [other.id, helper.id], runsRequest({ before: at(1) }), null)
    expect(before).toMatchObject([{ code: 'BAD_INPUT', field: 'before' }, { items: [{ id: runIds[2] }] }])
  })

  test('a cursor of another connection is refused', () => {
    for (const after of [encodeIdCursor(helper.id), encodeIdCursor(helper.id, helper.id), runIds[0]]) {
      expect(() => runsRequest({ after })).toThrow(expect.objectContaining({ code: 'BAD_INPUT' }))
    }
  })
})
