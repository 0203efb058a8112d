import { afterAll, beforeAll, expect, test } from 'vitest'
import { cascadeOf } from '../../src/runs/cascade.ts'
import { startApplication, type TestApplication } from '../support/application.ts'

let parley: TestApplication

beforeAll(async () => {
  parley = await startApplication({ worker: false })
})
afterAll(() => parley?.close())

test('a cascade stops all runs below a run, a few at a time', async () => {
  const { human, space } = await parley.room()
  const { db } = parley.app.platform
  const ids: string[] = []
  for (let n = 0; n < 25; n++) ids.push((await parley.send(human, space.id, `${n}`)).runs[0]?.id ?? '')
  const [first = '', ...others] = ids
  await db.prisma.run.updateMany({ where: { id: { in: others } }, data: { parentRunId: first } })
  let atOnce = 0
  let most = 0
  const stopped = await cascadeOf(db, first, async (id) => {
    most = Math.max(most, ++atOnce)
    const run = await db.prisma.run.update({ where: { id }, data: { status: 'CANCELED' } })
    atOnce--
    return run
  })
  expect(stopped.map(({ id }) => id).sort()).toEqual(others.toSorted())
  expect(most).toBeLessThanOrEqual(8)
})
