import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer, ServiceViewer, Viewer } from '../../src/access/viewer.ts'
import type { VisibleToolCall } from '../../src/access/visibility.ts'
import type { Agent } from '../../src/agents/agents.ts'
import type { Run } from '../../src/generated/prisma/client.ts'
import { newId } from '../../src/lib/ids.ts'
import { type Domain, openDomain, RULE_DATABASES } from '../support/domain.ts'

describe.each(RULE_DATABASES)('visibility on the %s stack', (database) => {
  let domain: Domain
  let ada: HumanViewer
  let bob: HumanViewer
  let stranger: HumanViewer
  let helper: Agent
  let other: Agent
  let service: ServiceViewer
  let narrow: ServiceViewer
  let shared: string
  let adas: string

  beforeAll(async () => {
    domain = await openDomain(database)
    ada = await domain.human('Ada')
    bob = await domain.human('Bob')
    stranger = await domain.human('Stranger')
    helper = await domain.agent('Helper')
    other = await domain.agent('Other')
    service = await domain.service('Everything', null)
    narrow = await domain.service('Narrow', [helper.id])
    shared = (await domain.space(domain.admin, [ada.id, bob.id, helper.id])).id
    adas = (await domain.space(ada, [helper.id])).id
  })
  afterAll(() => domain.close())

  const set = (...values: string[]) => new Set(values)

  test('spaces are visible to members and admins', async () => {
    const { spaces, isMember } = domain.visibility
    const ids = [shared, adas, newId('spc')]
    expect(await spaces(ada, ids)).toEqual(set(shared, adas))
    expect(await spaces(bob, ids)).toEqual(set(shared))
    expect(await spaces(service, ids)).toEqual(set())
    expect(await spaces(domain.admin, ids)).toEqual(new Set(ids))
    expect([await isMember(adas, helper.id), await isMember(adas, bob.id)]).toEqual([true, false])
  })

  test('humans see all agents; a service sees those that its token grants', async () => {
    const ids = [helper.id, other.id]
    expect(await domain.visibility.entities(stranger, ids)).toEqual(new Set(ids))
    expect(domain.visibility.agents(service, ids)).toEqual(new Set(ids))
    expect(domain.visibility.agents(narrow, ids)).toEqual(set(helper.id))
    expect(await domain.visibility.entities(narrow, [...ids, ada.id])).toEqual(set(helper.id))
    expect(await domain.visibility.entities(service, [...ids, ada.id])).toEqual(new Set(ids))
  })

  test('humans see themselves, members of their spaces, and former members', async () => {
    const { entities } = domain.visibility
    const ids = [ada.id, bob.id, stranger.id, newId('hum'), newId('agt')]
    expect(await entities(ada, ids)).toEqual(set(ada.id, bob.id))
    expect(await entities(stranger, ids)).toEqual(set(stranger.id))
    const guest = await domain.human('Guest')
    const silent = await domain.human('Silent')
    for (const entityId of [guest.id, silent.id]) await domain.members.add(domain.admin, { spaceId: shared, entityId })
    await domain.message(shared, guest.id)
    for (const entityId of [guest.id, silent.id]) await domain.members.remove(ada, { spaceId: shared, entityId })
    expect(await entities(ada, [guest.id, silent.id])).toEqual(set(guest.id, silent.id))
    expect(await entities(stranger, [guest.id, silent.id])).toEqual(set())
    expect(await entities(silent, [ada.id, guest.id])).toEqual(set())
    await domain.members.add(ada, { spaceId: shared, entityId: silent.id })
    await domain.members.remove(silent, { spaceId: shared, entityId: silent.id })
    expect(await entities(ada, [silent.id])).toEqual(set(silent.id))
  })

  test('messages are visible to members of their space', async () => {
    const messages = [await domain.message(shared, ada.id), await domain.message(adas, ada.id)]
    const [first, second] = messages.map(({ id }) => id)
    expect(await domain.visibility.messages(bob, messages)).toEqual(set(first!))
    expect(await domain.visibility.messages(ada, messages)).toEqual(set(first!, second!))
    expect(await domain.visibility.messages(service, messages)).toEqual(set())
  })

  describe('runs and tool calls', () => {
    let inAdas: Run
    let writesInShared: Run
    let ofService: Run
    let ofPlan: Run
    const all = () => [inAdas, writesInShared, ofService, ofPlan]
    const call = (run: Run, rest: Partial<VisibleToolCall> = {}): VisibleToolCall => ({
      id: newId('tcl'),
      runId: run.id,
      agentId: run.agentId,
      execution: null,
      messageId: null,
      spaceId: null,
      approvalState: null,
      grantId: null,
      approverIds: [],
      escalateToIds: [],
      escalatedAt: null,
      status: 'WAITING',
      expiresAt: null,
      places: [],
      label: [],
      ...rest,
    })

    beforeAll(async () => {
      inAdas = await domain.run(helper.id, { triggerSpaceId: adas })
      writesInShared = await domain.run(helper.id, { triggerSpaceId: adas })
      await domain.platform.db.prisma.runSpace.create({ data: { runId: writesInShared.id, spaceId: shared } })
      ofService = await domain.run(helper.id, { triggerType: 'SERVICE', triggerServiceId: narrow.id })
      ofPlan = await domain.run(helper.id, { triggerType: 'PLAN' })
    })

    test('a run is visible to members of the space that triggered it and of spaces that it posted in', async () => {
      const { runs } = domain.visibility
      expect(await runs(ada, all())).toEqual(set(inAdas.id, writesInShared.id))
      expect(await runs(bob, all())).toEqual(set(writesInShared.id))
      expect(await runs(stranger, all())).toEqual(set())
      expect(await runs(domain.admin, all())).toEqual(new Set(all().map(({ id }) => id)))
    })

    test('a service sees the runs that its own token triggered, not those of a token with the same name', async () => {
      const namesake = await domain.service('Narrow', [helper.id])
      expect(await domain.visibility.runs(narrow, all())).toEqual(set(ofService.id))
      expect(await domain.visibility.runs(namesake, all())).toEqual(set())
    })

    test('reasoning is visible to admins and to the service that triggered the run', () => {
      const { runThoughts } = domain.visibility
      const readers = [domain.admin, narrow, service, ada] satisfies Viewer[]
      expect(readers.map((viewer) => runThoughts(viewer, ofService))).toEqual([true, true, false, false])
      expect(readers.map((viewer) => runThoughts(viewer, inAdas))).toEqual([true, false, false, false])
    })

    test('a call is visible to those who see its run; its content only if it is shown in a message and needs no decision', async () => {
      const { toolCalls, toolCallContents } = domain.visibility
      const hidden = call(writesInShared)
      const own = { execution: 'INTERNAL' } as const
      const shownInShared = call(writesInShared, { ...own, messageId: newId('msg'), spaceId: shared })
      const shownInAdas = call(writesInShared, { ...own, messageId: newId('msg'), spaceId: adas })
      const waitsForMessage = call(writesInShared, { messageId: newId('msg'), spaceId: shared })
      const calls = [hidden, shownInShared, shownInAdas, waitsForMessage]
      const ids = calls.map(({ id }) => id)
      expect(await toolCalls(bob, calls)).toEqual(new Set(ids))
      expect(await toolCallContents(bob, calls)).toEqual(set(shownInShared.id))
      expect(await toolCallContents(ada, calls)).toEqual(set(shownInShared.id, shownInAdas.id))
      expect(await toolCalls(stranger, calls)).toEqual(set())
      expect(await toolCallContents(stranger, calls)).toEqual(set())
      expect(await toolCallContents(domain.admin, calls)).toEqual(new Set(ids))
    })

    test("a service sees the content of its runs' calls, and of EXTERNAL calls of its agents", async () => {
      const { toolCalls, toolCallContents } = domain.visibility
      const own = call(ofService)
      const external = call(inAdas, { execution: 'EXTERNAL' })
      const ofOther = call(await domain.run(other.id), { execution: 'EXTERNAL' })
      const notExternal = call(inAdas, { execution: 'HTTP' })
      const calls = [own, external, ofOther, notExternal]
      expect(await toolCalls(narrow, calls)).toEqual(set(own.id, external.id))
      expect(await toolCallContents(narrow, calls)).toEqual(set(own.id, external.id))
      expect(await toolCalls(service, calls)).toEqual(set(external.id, ofOther.id))
    })

    test('many checks are batched, and their number is not limited', async () => {
      const runs = await Promise.all(Array.from({ length: 30 }, () => domain.run(helper.id, { triggerSpaceId: adas })))
      expect((await domain.visibility.runs(ada, runs)).size).toBe(30)
      const calls = runs.map((run) => call(run))
      expect((await domain.visibility.toolCalls(ada, calls)).size).toBe(30)
    })
  })
})
