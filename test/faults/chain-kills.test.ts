import fc from 'fast-check'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { AdminViewer, HumanViewer } from '../../src/access/viewer.ts'
import { createDeferred } from '../../src/lib/async.ts'
import { type ChainRoom, openChainRoom, type RoomHost } from '../support/chain-room.ts'
import { isNightly, runsOf } from '../support/effort.ts'
import { expectChainsAtRest, playAtRandom, randomChain } from '../support/random-chain.ts'
import { canStartPostgres } from '../support/throwaway-postgres.ts'
import { canStartRedis } from '../support/throwaway-redis.ts'
import { delegates, mentions, say } from '../support/turns.ts'
import { until } from '../support/until.ts'
import { type Deployment, deploy } from './deployment.ts'

const CHAINS = runsOf({ usual: 8, nightly: 24 })
/** The numbers of model requests after which a worker is killed. The two workers are killed in turn. */
const KILLS = isNightly ? [10, 40, 70] : [8]
const NAMES = ['Ada', 'Bob', 'Cyd', 'Dan', 'Eve'] as const
const ADMIN: AdminViewer = { scope: 'ADMIN', id: 'acc_test', tokenId: null, expiresAt: null }

describe.skipIf(!(await canStartPostgres()) || !canStartRedis())('reply stacks, while workers are killed', () => {
  let deployment: Deployment
  let host: RoomHost

  beforeAll(async () => {
    deployment = await deploy(2)
    host = hostOf(deployment)
  })
  afterAll(() => deployment?.close())
  beforeEach(() => deployment.models.reset())

  test('random stacks all end empty, and each request gets one callback', async () => {
    const { models, app } = deployment
    const { prisma } = app.platform.db
    const rooms: { room: ChainRoom<string>; ids: string[] }[] = []
    for (const { persistent, decisions } of fc.sample(randomChain, { seed: 7, numRuns: CHAINS })) {
      const names: string[] = NAMES.slice(0, persistent.length)
      const minds = names.map((name, index) => [
        name,
        { mind: persistent[index] ? ('PERSISTENT' as const) : ('STATELESS' as const) },
      ])
      const room = await openChainRoom(host, names, Object.fromEntries(minds))
      const players = names.map((name) => room.agents[name] as { id: string; name: string })
      const stop = (agentId: string) => {
        const running = prisma.run.findFirst({ where: { agentId, status: 'RUNNING' } })
        void running
          .then((run) => run && app.domain.control.stopRun(ADMIN, { runId: run.id, cascade: false }))
          .catch(() => {})
      }
      playAtRandom(models, { spaceId: room.spaceId, players, decisions, stop })
      rooms.push({ room, ids: players.map(({ id }) => id) })
    }
    await Promise.all(rooms.map(({ room }) => room.says('Go')))
    for (const [index, count] of KILLS.entries()) {
      await until(`${count} requests`, () => models.requests.length >= count, { timeoutMs: 60_000 })
      await deployment.replaceWorker(index % 2)
    }
    for (const { room, ids } of rooms) {
      await room.chainsEnd(90_000)
      await expectChainsAtRest(prisma, room.spaceId, ids)
    }
    expect(models.refusals).toEqual([])
  })

  test('a worker that dies while it ends a run leaves either no part of the outcome or all of it', async () => {
    const room = await openChainRoom(host, ['Ada', 'Bob', 'Cyd'])
    const gates = { Ada: createDeferred(), Bob: createDeferred() }
    room.plays(
      'Ada',
      [
        [say('Bob?'), mentions(room.agents.Bob, 'b', true)],
        [{ gate: gates.Ada.promise }, { text: 'Done.' }],
      ],
      [[say('Thanks.')]],
    )
    room.plays('Bob', [[{ gate: gates.Bob.promise }, delegates(room.agents.Cyd, 'yours')]])
    room.plays('Cyd', [[say('Here.')]])
    const { runs } = await room.says('Go')
    const chainId = runs[0]?.chainId ?? ''
    const client = new pg.Client({ connectionString: deployment.postgres.url })
    await client.connect()
    client.on('error', () => {}) // If the test fails, this stops its server.
    for (const name of ['Ada', 'Bob'] as const) {
      await until(`it is the turn of ${name}`, async () => (await holderOf(client, chainId)) === room.agents[name].id)
      await client.query('BEGIN')
      await client.query('SELECT 1 FROM "Chain" WHERE id = $1 FOR UPDATE', [chainId])
      gates[name].resolve()
      await until(`the end of ${name}’s run waits for the chain`, async () => (await waitingForLock(client)) > 0)
      await Promise.all([deployment.replaceWorker(0), deployment.replaceWorker(1)])
      await client.query('COMMIT')
      await until('another worker ends it', async () => (await holderOf(client, chainId)) !== room.agents[name].id, {
        timeoutMs: 60_000,
      })
    }
    await client.end()
    await room.chainsEnd(60_000)
    expect(await room.conversation()).toEqual(['Husam: Go', 'Ada: Bob?', 'Cyd: Here.', 'Ada: Thanks.'])
    expect(await room.story()).toEqual(['Ada COMPLETED', 'Bob CANCELED', 'Cyd COMPLETED', 'Ada COMPLETED'])
    expect((await room.runs()).map(({ attempt }) => attempt > 1)).toEqual([true, true, false, false])
    expect(await room.chains()).toMatchObject([{ depth: 4, replyStack: [], holderId: null }])
  })
})

async function holderOf(client: pg.Client, chainId: string): Promise<string | null> {
  const { rows } = await client.query<{ holderId: string | null }>('SELECT "holderId" FROM "Chain" WHERE id = $1', [
    chainId,
  ])
  return rows[0]?.holderId ?? null
}

/** Returns the backends that wait for the transaction of this connection. */
async function waitingForLock(client: pg.Client): Promise<number> {
  const { rows } = await client.query(
    'SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))',
  )
  return rows.length
}

function hostOf({ app, models }: Deployment): RoomHost {
  return {
    app,
    models,
    async human(name): Promise<HumanViewer> {
      const { id } = await app.domain.humans.create(ADMIN, { name })
      return { scope: 'HUMAN', id, tokenId: null, expiresAt: null }
    },
    agent: (name, input = {}) =>
      app.domain.agents.create(ADMIN, {
        name,
        instructions: '',
        model: 'openai.chat:test',
        mind: 'STATELESS',
        toolset: 'ACTIVE_SPACE',
        ...input,
      }),
    space: (creator, memberIds, input = {}) =>
      app.domain.spaces.create(creator, { name: 'A space', routing: 'MENTION_CHAIN', memberIds, ...input }),
    messages: (spaceId) => app.platform.db.prisma.message.findMany({ where: { spaceId }, orderBy: { seq: 'asc' } }),
  }
}
