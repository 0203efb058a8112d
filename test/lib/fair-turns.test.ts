import { describe, expect, test } from 'vitest'
import { createDeferred } from '../../src/lib/async.ts'
import { createFairTurns } from '../../src/lib/fair-turns.ts'

describe('fair turns', () => {
  /** The time that tasks have taken. */
  let nowMs = 0
  const now = () => nowMs
  /** Keeps the process busy, like a statement of PGlite. */
  const work = (ms: number) => {
    nowMs += ms
  }

  test('run one task at a time, and continue after one that throws', async () => {
    const turns = createFairTurns({ places: () => 1, yieldAfterMs: 5, now })
    let running = 0
    const task = async () => {
      running += 1
      expect(running).toBe(1)
      await new Promise(setImmediate)
      running -= 1
      return 'done'
    }
    const failed = turns.run('a', async () => {
      throw new Error('broken')
    })
    const results = Promise.all([turns.run('a', task), turns.run('b', task)])
    await expect(failed).rejects.toThrow('broken')
    expect(await results).toEqual(['done', 'done'])
  })

  test('serve the requester with the least use first, ahead of earlier tasks of others', async () => {
    const turns = createFairTurns({ places: () => 1, yieldAfterMs: 5, now })
    const gate = createDeferred()
    const done: string[] = []
    const add = (id: string, name: string, ms: number) =>
      turns.run(id, async () => {
        work(ms)
        done.push(name)
      })
    const held = turns.run('first', () => gate.promise)
    const all = [1, 2, 3, 4].map((n) => add('hostile', `hostile ${n}`, 3))
    gate.resolve()
    // This task arrives while the hostile requester is served.
    await Promise.race(all)
    all.push(...[1, 2, 3].map((n) => add('honest', `honest ${n}`, 0)))
    await Promise.all([held, ...all])
    expect(done).toEqual(['hostile 1', 'hostile 2', 'honest 1', 'honest 2', 'honest 3', 'hostile 3', 'hostile 4'])
  })

  test('alternate between the runs and the requests of one requester', async () => {
    const turns = createFairTurns({ places: () => 1, now })
    const gate = createDeferred()
    const done: string[] = []
    const add = (name: string, isBounded: boolean) => turns.run('a', async () => void done.push(name), { isBounded })
    const held = turns.run('a', () => gate.promise, { isBounded: false })
    const all = ['run 1', 'run 2', 'run 3'].map((name) => add(name, true))
    all.push(...['request 1', 'request 2'].map((name) => add(name, false)))
    gate.resolve()
    await Promise.all([held, ...all])
    expect(done).toEqual(['run 1', 'request 1', 'run 2', 'request 2', 'run 3'])
  })

  test("leave places to runs and to the server's own work when requests may take fewer", async () => {
    let unboundedPlaces = 1
    const turns = createFairTurns({ places: () => 5, unboundedPlaces: () => unboundedPlaces, now })
    const gate = createDeferred()
    const begun: string[] = []
    const add = async (id: string | undefined, how?: { isBounded: boolean }) => {
      const end = await turns.take(id, how)
      begun.push(id ?? 'own')
      await gate.promise
      end()
    }
    const runs = ['a', 'b'].map((id) => () => add(id, { isBounded: true }))
    const all = [add('a'), add('a'), add('a'), ...runs.map((run) => run()), add(undefined), add(undefined)]
    await new Promise(setImmediate)
    expect(begun).toEqual(['a', 'a', 'b', 'own', 'own'])
    unboundedPlaces = 2
    gate.resolve()
    await Promise.all(all)
    expect(begun.toSorted()).toEqual(['a', 'a', 'a', 'a', 'b', 'own', 'own'])
  })

  test('are given to a requester that has none, although others have taken the places of requests', async () => {
    const turns = createFairTurns({ places: () => 3, unboundedPlaces: () => 1, now })
    const endOfFirst = await turns.take('busy')
    const second = turns.take('busy')
    const endOfOther = await turns.take('another')
    expect(turns.waitingCount()).toBe(1)
    expect(turns.takeNow('third')).toBeNull()
    endOfFirst()
    ;(await second)()
    endOfOther()
    expect(turns.takeNow('third')).toBeTypeOf('function')
  })

  test('begin at once only what need not wait', async () => {
    const turns = createFairTurns({ places: () => 2, unboundedPlaces: () => 1, now })
    const first = turns.takeNow('a')
    expect(first).toBeTypeOf('function')
    expect(turns.takeNow('a')).toBeNull()
    const second = turns.takeNow('b', { isBounded: true })
    expect(second).toBeTypeOf('function')
    expect(turns.takeNow(undefined)).toBeNull()
    const waiting = turns.take('c')
    second?.()
    // A new task does not begin before those that already wait.
    expect(turns.takeNow('a', { isBounded: true })).toBeNull()
    first?.()
    ;(await waiting)()
    expect(turns.waitingCount()).toBe(0)
  })

  test('starve no requester: an absent requester does not catch up later', async () => {
    const turns = createFairTurns({ places: () => 1, yieldAfterMs: 5, now })
    const done: string[] = []
    const add = (id: string) =>
      turns.run(id, async () => {
        work(2)
        done.push(id)
      })
    const busy = Array.from({ length: 20 }, () => add('busy'))
    await busy[9]
    await Promise.all([...busy, ...Array.from({ length: 10 }, () => add('late'))])
    // From then on, both requesters get about the same number of turns.
    expect(done.slice(10, 18).filter((id) => id === 'busy').length).toBeGreaterThanOrEqual(2)
  })

  test('use places that were added while no task begins or ends', async () => {
    let places = 1
    const turns = createFairTurns({ places: () => places })
    const gate = createDeferred()
    const held = turns.run('a', () => gate.promise)
    const second = turns.run('b', async () => 'done')
    places = 2
    expect(await second).toBe('done')
    gate.resolve()
    await held
  })

  test('run as many tasks concurrently as there are places', async () => {
    const turns = createFairTurns({ places: () => 2, now })
    const [first, second] = [await turns.take('a'), await turns.take('a')]
    const third = turns.take('b')
    expect(turns.waitingCount()).toBe(1)
    first()
    // A second call is ignored.
    first()
    const fourth = turns.take('b')
    expect(turns.waitingCount()).toBe(1)
    second()
    for (const end of await Promise.all([third, fourth])) end()
    expect(turns.waitingCount()).toBe(0)
  })

  test('end a wait that takes too long, and give that turn to the next one in line', async () => {
    const turns = createFairTurns({ places: () => 1 })
    const end = await turns.take('a')
    const impatient = turns.run('b', async () => 'never', { longestWaitMs: 1 })
    const patient = turns.run('b', async () => 'done', { longestWaitMs: 60_000 })
    await expect(impatient).rejects.toThrow('timeout exceeded when trying to connect')
    expect(turns.waitingCount()).toBe(1)
    end()
    expect(await patient).toBe('done')
    expect(turns.waitingCount()).toBe(0)
  })

  test('let other events of the process run between tasks that never wait', async () => {
    const turns = createFairTurns({ places: () => 1, yieldAfterMs: 5, now })
    let longestMs = 0
    let isOver = false
    let lastAt = nowMs
    const watch = () => {
      longestMs = Math.max(longestMs, nowMs - lastAt)
      lastAt = nowMs
      if (!isOver) setImmediate(watch)
    }
    setImmediate(watch)
    /** A run: one statement after the other. */
    async function run(id: string) {
      for (let n = 0; n < 20; n++) await turns.run(id, async () => work(1))
    }
    await Promise.all(['a', 'b', 'c', 'd', 'e'].map(run))
    isOver = true
    expect(longestMs).toBeLessThan(10)
  })
})
