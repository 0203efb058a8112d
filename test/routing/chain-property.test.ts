import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../support/application.ts'
import { openChainRoom } from '../support/chain-room.ts'
import { runsOf } from '../support/effort.ts'
import { hasPostgres } from '../support/postgres.ts'
import { expectChainsAtRest, playAtRandom, type RandomChain, randomChain } from '../support/random-chain.ts'

const NAMES = ['Ada', 'Bob', 'Cyd', 'Dan', 'Eve'] as const
const CHAINS = runsOf({ usual: 4, nightly: 60 })

describe.skipIf(!hasPostgres)('random turns of agents, across two processes', () => {
  let parley: TestApplication
  let other: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack: 'postgres' })
    other = await startApplication({ stack: 'postgres', beside: parley })
  })
  afterAll(async () => {
    await other?.close()
    await parley?.close()
  })

  async function play({ persistent, decisions }: RandomChain): Promise<void> {
    const { prisma } = parley.app.platform.db
    parley.models.reset()
    const names = NAMES.slice(0, persistent.length)
    const minds = persistent.map((isPersistent) => ({
      mind: isPersistent ? ('PERSISTENT' as const) : ('STATELESS' as const),
    }))
    const room = await openChainRoom(
      parley,
      names,
      Object.fromEntries(names.map((name, index) => [name, minds[index]])),
    )
    const players = names.map((name) => room.agents[name])
    const stopped: Promise<unknown>[] = []
    const stop = (agentId: string) => {
      const running = prisma.run.findFirstOrThrow({ where: { agentId, status: 'RUNNING' } })
      stopped.push(
        running.then(({ id }) => other.app.domain.control.stopRun(parley.admin, { runId: id, cascade: false })),
      )
    }
    playAtRandom(parley.models, { spaceId: room.spaceId, players, decisions, stop })
    await room.hears('Go')
    await Promise.all(stopped)
    await expectChainsAtRest(
      prisma,
      room.spaceId,
      players.map(({ id }) => id),
    )
    expect(parley.models.refusals).toEqual([])
  }

  test('a chain ends within 10 runs, its stack is empty, and each request gets one callback', async () => {
    await fc.assert(fc.asyncProperty(randomChain, play), { numRuns: CHAINS, endOnFailure: true })
  }, 240_000)
})
