import { afterEach, describe, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../support/application.ts'
import { runsOf } from '../support/effort.ts'
import { hasPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const STOPS = runsOf({ usual: 60, nightly: 1000 })
const MESSAGES = runsOf({ usual: 5, nightly: 250 })
const AGENTS = 4
const REPEATS = 50

describe.skipIf(!hasPostgres)('many runs', () => {
  const applications: TestApplication[] = []
  afterEach(async () => {
    for (const application of applications.splice(0).reverse()) await application.close()
  })

  async function twoProcesses() {
    const one = await startApplication({ stack: 'postgres' })
    const two = await startApplication({ stack: 'postgres', beside: one })
    applications.push(one, two)
    return { one, two }
  }

  test(`${STOPS} runs stopped at a random time publish and write nothing after the response`, {
    timeout: 400_000,
  }, async () => {
    const { one, two } = await twoProcesses()
    const { log, db } = one.app.platform
    one.models.script(({ step }) =>
      step < 3
        ? [{ toolCall: 'send_message', input: { text: `Part ${step} of a longer answer` }, chunks: 4, delayMs: 3 }]
        : [{ text: 'Done.' }],
    )
    const human = await one.human('Husam')
    const rooms = await Promise.all(
      Array.from({ length: 20 }, async (_, n) => one.space(human, [(await one.agent(`Agent ${n}`)).id])),
    )
    let stopped = 0
    async function stopOne(n: number): Promise<void> {
      const space = rooms[n % rooms.length]?.id ?? ''
      const { runs } = await (n % 2 === 0 ? one : two).send(human, space, 'Go on')
      const runId = runs[0]?.id ?? ''
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 250))
      const answer = await (n % 3 === 0 ? one : two).app.domain.control
        .stopRun(human, { runId, cascade: false })
        .catch((error) => (error.code === 'CONFLICT' ? null : Promise.reject(error)))
      if (answer === null) return
      stopped += 1
      const [runHead] = await log.heads([`run:${runId}`])
      const [spaceHead] = await log.heads([`space:${space}`])
      const before = await stateOf(runId)
      later.push(async () => {
        expect((await log.heads([`run:${runId}`]))[0]).toBe(runHead)
        expect(await stateOf(runId)).toEqual(before)
        const after = await log.read(`space:${space}`, spaceHead ?? '', 10_000)
        const mine = before.messages.map(({ id }) => id)
        const late =
          after.type === 'publications'
            ? after.publications.filter(({ event }) => mine.includes(String(event.messageId)))
            : []
        expect(late.map(({ event }) => event)).toEqual([])
      })
    }
    async function stateOf(runId: string) {
      const where = { where: { runId }, orderBy: { id: 'asc' as const } }
      const [messages, toolCalls, steps] = await Promise.all([
        db.prisma.message.findMany(where),
        db.prisma.toolCall.findMany(where),
        db.prisma.step.findMany(where),
      ])
      return { messages, toolCalls, steps }
    }
    const later: (() => Promise<void>)[] = []
    for (let n = 0; n < STOPS; n += 20) await Promise.all(Array.from({ length: 20 }, (_, k) => stopOne(n + k)))
    await until('all runs have ended', async () => (await db.prisma.run.count({ where: { status: 'RUNNING' } })) === 0)
    for (const check of later) await check()
    expect(stopped).toBeGreaterThan(STOPS / 4)
  })

  test(`${MESSAGES * AGENTS} (agent, message) pairs triggered ${REPEATS} times each, concurrently from two processes, create as many runs`, {
    timeout: 400_000,
  }, async () => {
    const { one, two } = await twoProcesses()
    one.models.script(() => [{ text: 'Seen.' }])
    const human = await one.human('Husam')
    const agents = await Promise.all(Array.from({ length: AGENTS }, (_, n) => one.agent(`Agent ${n}`)))
    const space = await one.space(
      human,
      agents.map(({ id }) => id),
    )
    const ids = new Set<string>()
    for (let n = 0; n < MESSAGES; n++) {
      const repeats = Array.from({ length: REPEATS }, (_, k) =>
        (k % 2 === 0 ? one : two).app.domain.sending.send(human, {
          spaceId: space.id,
          text: `No. ${n}`,
          idempotencyKey: `key ${n}`,
        }),
      )
      for (const { runs } of await Promise.all(repeats)) for (const { id } of runs) ids.add(id)
    }
    expect(ids.size).toBe(MESSAGES * AGENTS)
    expect(await one.app.platform.db.prisma.run.count()).toBe(MESSAGES * AGENTS)
  })
})
