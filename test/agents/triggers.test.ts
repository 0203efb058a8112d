import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ServiceViewer } from '../../src/access/viewer.ts'
import type { TriggerAgentInput } from '../../src/flows/trigger-agent.ts'
import type { Run } from '../../src/generated/prisma/client.ts'
import { newId } from '../../src/lib/ids.ts'
import type { Platform } from '../../src/platform/platform.ts'
import { claimNext } from '../../src/runs/claiming.ts'
import { type Domain, openDomain, RULE_DATABASES } from '../support/domain.ts'
import { createPlanning, type Planning, withJobs } from '../support/planning.ts'

const TICKET = { event: 'ticket_critical', ticketId: 'PROJ-123' }

describe.each(RULE_DATABASES)('a service on %s', (database) => {
  let domain: Domain
  let platform: Platform
  let planning: Planning
  let agentId: string
  let thinkerId: string
  let jira: ServiceViewer

  beforeAll(async () => {
    domain = await openDomain(database)
    platform = await withJobs(domain.platform)
    planning = createPlanning(platform)
    agentId = (await domain.agent('Ops')).id
    thinkerId = (await domain.agent('Thinker', { mind: 'PERSISTENT' })).id
    jira = await domain.service('Jira', [agentId, thinkerId])
  })
  afterAll(async () => {
    await platform.jobs.close()
    await domain.close()
  })

  const trigger = (
    input: Partial<TriggerAgentInput> = {},
    viewer: Parameters<Planning['triggers']['trigger']>[0] = jira,
  ) => planning.triggers.trigger(viewer, { agentId, payload: TICKET, ...input })
  const runOf = async (...input: Parameters<typeof trigger>) => (await trigger(...input)).run as Run
  const inboxOf = (id: string) =>
    platform.db.prisma.inboxEvent.findMany({ where: { agentId: id }, orderBy: { id: 'asc' } })
  const countRuns = () => platform.db.prisma.run.count()

  test('that has a grant for the agent starts a run of it, with the payload and without a space', async () => {
    const run = await runOf()
    expect(run).toMatchObject({
      agentId,
      status: 'QUEUED',
      triggerType: 'SERVICE',
      triggerName: 'Jira',
      triggerServiceId: jira.id,
      triggerPayload: TICKET,
      triggerSummary: 'The service "Jira": {"event":"ticket_critical","ticketId":"PROJ-123"}',
      triggerSpaceId: null,
      activeSpaceId: null,
      depth: 0,
      parentRunId: null,
    })
    expect(run.rootId).toMatch(/^trg_/)
    expect((await claimNext(platform, 1)).claims).toMatchObject([{ run: { id: run.id }, kind: 'started' }])
  })

  test('keeps its own name, even if the request contains another name', async () => {
    expect(await runOf({ serviceName: 'GitHub' })).toMatchObject({ triggerName: 'Jira' })
  })

  test('that has no grant for the agent gets the same error as for an unknown id', async () => {
    const other = await domain.service('Other', [thinkerId])
    const notFound = { code: 'NOT_FOUND', message: 'There is no such agent.' }
    await expect(trigger({}, other)).rejects.toMatchObject(notFound)
    const all = await domain.service('All', null)
    const { id: human } = await domain.human('Ada')
    for (const id of [newId('agt'), human, 'nonsense\0']) {
      await expect(trigger({ agentId: id }, all)).rejects.toMatchObject(notFound)
    }
    expect(await runOf({}, all)).toMatchObject({ triggerName: 'All' })
  })

  test('can be chosen by an admin in a request, but never by a human', async () => {
    const nameless = { code: 'BAD_INPUT', field: 'input.serviceName' }
    for (const serviceName of [undefined, null, ' ']) {
      await expect(trigger({ serviceName }, domain.admin)).rejects.toMatchObject(nameless)
    }
    const run = await runOf({ serviceName: 'Cron' }, domain.admin)
    expect(run).toMatchObject({ triggerName: 'Cron', triggerServiceId: null })
    const ada = await domain.human('Ada')
    await expect(trigger({ serviceName: 'Cron' }, ada)).rejects.toMatchObject({ code: 'FORBIDDEN' })
  })

  test('gets the same run for a repeated key, however many concurrent requests; another caller, agent or key gets its own', async () => {
    const before = await countRuns()
    const runs = await Promise.all(Array.from({ length: 8 }, () => runOf({ idempotencyKey: 'PROJ-123' })))
    expect(new Set(runs.map(({ id }) => id)).size).toBe(1)
    expect(await countRuns()).toBe(before + 1)
    const other = await domain.service('Other', null)
    const { id: second } = await domain.agent('Second')
    await runOf({ idempotencyKey: 'PROJ-123' }, other)
    await runOf({ idempotencyKey: 'PROJ-123', agentId: second }, other)
    await runOf({ idempotencyKey: 'PROJ-124' })
    await runOf()
    await runOf()
    expect(await countRuns()).toBe(before + 6)
  })

  test('reaches the inbox of a persistent agent, once per key, and urgently if requested', async () => {
    const answers = await Promise.all([
      trigger({ agentId: thinkerId, idempotencyKey: 'a', urgent: true }),
      trigger({ agentId: thinkerId, idempotencyKey: 'a', urgent: true }),
    ])
    expect(answers).toEqual([{ run: null }, { run: null }])
    await trigger({ agentId: thinkerId })
    await trigger({ agentId: thinkerId })
    const events = await inboxOf(thinkerId)
    expect(events.map(({ urgent }) => urgent)).toEqual([true, false, false])
    expect(events[0]).toMatchObject({
      type: 'SERVICE',
      payload: { serviceId: jira.id, name: 'Jira', payload: TICKET },
      depth: 0,
    })
  })

  test('sends any JSON up to 256 KiB', async () => {
    for (const payload of [null, 0, 'text', [1, { a: null }], { deep: { deeper: [] } }]) {
      expect((await runOf({ payload })).triggerPayload).toEqual(payload)
    }
    const refused = { code: 'BAD_INPUT', field: 'input.payload' }
    await expect(trigger({ payload: 'x'.repeat(256 * 1024 - 1) })).rejects.toMatchObject(refused)
    const deep = Array.from({ length: 50_000 }).reduce((inner) => [inner], 0)
    await expect(trigger({ payload: deep })).rejects.toMatchObject(refused)
    expect(await runOf({ payload: 'x'.repeat(256 * 1024 - 2) })).toMatchObject({ status: 'QUEUED' })
  })

  test('sends characters that PostgreSQL cannot store, and the agent gets the storable ones', async () => {
    const run = await runOf({ payload: { text: 'a\0b\ud800', spelled: '\\u0000' } })
    expect(run.triggerPayload).toEqual({ text: 'ab\ufffd', spelled: '\\u0000' })
  })

  test('has a key of 1 to 200 characters', async () => {
    const refused = { code: 'BAD_INPUT', field: 'input.idempotencyKey' }
    for (const idempotencyKey of ['', 'x'.repeat(201), '\0']) {
      await expect(trigger({ idempotencyKey })).rejects.toMatchObject(refused)
    }
  })
})
