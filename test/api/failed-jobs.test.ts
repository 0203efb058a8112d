import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { FIRE_PLAN } from '../../src/jobs/queues.ts'
import { RULE_STACKS } from '../support/application.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const FAILED_JOBS = `query ($first: Int, $after: String) { failedJobs(first: $first, after: $after) {
  pageInfo { hasNextPage endCursor } edges { node { id name subjectId attempts error createdAt failedAt } } } }`
const RETRY = `mutation ($id: ID!) { retryJob(input: { id: $id }) {
  __typename ... on RetryJobPayload { retriedJobId } ... on Error { code message } } }`
const DELETE = `mutation ($id: ID!) { deleteJob(input: { id: $id }) {
  __typename ... on DeleteJobPayload { deletedJobId } ... on Error { code message } } }`
const AUDIT = `query ($action: String) { auditLog(action: $action) { edges { node { action targetId refused } } } }`

describe.each(RULE_STACKS)('failed jobs, on the %s stack', (stack) => {
  let parley: TestServer
  let admin: ParleyClient

  beforeAll(async () => {
    parley = await startTestServer({ stack, worker: false })
    admin = await parley.clientOf(parley.admin)
  })
  afterAll(() => parley?.close())

  // biome-ignore lint/suspicious/noExplicitAny: results are compared as a whole
  async function ask(operation: string, variables: object, client = admin): Promise<any> {
    const { data, errors } = await client.ask<Record<string, unknown>>(operation, variables)
    expect(errors).toBeUndefined()
    return Object.values(data ?? {})[0]
  }
  const failed = async (page = {}) => {
    const { edges, pageInfo } = await ask(FAILED_JOBS, page)
    return { jobs: edges.map(({ node }: { node: unknown }) => node), pageInfo }
  }

  /** Creates a job that has failed at its last attempt. */
  async function fail(planId: string, reason: string): Promise<void> {
    const { jobs, db } = parley.app.platform
    await db.transaction((tx) => jobs.enqueue(tx, FIRE_PLAN, [{ input: { planId }, key: `${planId}:noon` }]))
    const [job] = await jobs.claim(FIRE_PLAN, 1)
    await db.prisma.$executeRaw`UPDATE pgboss.job SET retry_count = retry_limit WHERE id = ${job?.id}::uuid`
    await jobs.fail(FIRE_PLAN, { ...job!, retryCount: job!.retryLimit }, new Error(reason))
  }

  test('are listed for admins, newest first, with their subject and their error', async () => {
    for (const n of [1, 2, 3]) await fail(`pln_${n}`, `Reason ${n}.`)
    const { jobs } = await failed()
    expect(jobs).toMatchObject(
      [3, 2, 1].map((n) => ({ name: 'fire-plan', subjectId: `pln_${n}`, attempts: 31, error: `Reason ${n}.` })),
    )
    const first = await failed({ first: 2 })
    expect(first.jobs).toEqual(jobs.slice(0, 2))
    expect(first.pageInfo.hasNextPage).toBe(true)
    expect((await failed({ first: 2, after: first.pageInfo.endCursor })).jobs).toEqual(jobs.slice(2))
  })

  test('are retried with all their attempts, unless the same job is already queued', async () => {
    const { jobs: app } = parley.app.platform
    const [newest] = (await failed()).jobs
    expect(await ask(RETRY, { id: newest.id })).toEqual({ __typename: 'RetryJobPayload', retriedJobId: newest.id })
    expect((await failed()).jobs).toHaveLength(2)
    expect(await ask(RETRY, { id: newest.id })).toMatchObject({ code: 'NOT_FOUND' })
    expect(await app.claim(FIRE_PLAN, 10)).toMatchObject([{ data: { planId: 'pln_3' }, retryCount: 0, retryLimit: 30 }])
    const { db } = parley.app.platform
    await db.transaction((tx) => app.enqueue(tx, FIRE_PLAN, [{ input: { planId: 'pln_2' }, key: 'pln_2:noon' }]))
    const [queued] = (await failed()).jobs
    expect(await ask(RETRY, { id: queued.id })).toMatchObject({ __typename: 'ConflictError', code: 'CONFLICT' })
    expect((await failed()).jobs).toHaveLength(2)
  })

  test('are deleted, and each change is audited', async () => {
    const [one, other] = (await failed()).jobs
    expect(await ask(DELETE, { id: one.id })).toEqual({ __typename: 'DeleteJobPayload', deletedJobId: one.id })
    expect((await failed()).jobs).toEqual([other])
    for (const id of [one.id, 'job_x', 'pln_1'])
      expect(await ask(DELETE, { id })).toMatchObject({ __typename: 'NotFoundError' })
    const { edges } = await ask(AUDIT, { action: 'deleteJob' })
    expect(edges).toEqual([{ node: { action: 'deleteJob', targetId: one.id, refused: false } }])
  })

  test('are visible to admins only: people neither see nor change them', async () => {
    const { human } = await parley.room('Iris')
    const client = await parley.clientOf(human)
    const [job] = (await failed()).jobs
    expect(await ask(FAILED_JOBS, {}, client)).toBeNull()
    for (const mutation of [RETRY, DELETE])
      expect(await ask(mutation, { id: job.id }, client)).toMatchObject({ __typename: 'ForbiddenError' })
    expect((await failed()).jobs).toHaveLength(1)
  })
})
