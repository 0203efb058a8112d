import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Prisma } from '../../src/generated/prisma/client.ts'
import { newId } from '../../src/lib/ids.ts'
import { cutSaying } from '../../src/lib/json.ts'
import type { Platform } from '../../src/platform/platform.ts'
import { createHistory, LONGEST_TEXT, RESULT_CHARACTERS } from '../../src/spaces/history.ts'
import { startApplication, type TestApplication } from '../support/application.ts'

describe('messages that agents read', () => {
  let parley: TestApplication
  beforeAll(async () => {
    parley = await startApplication({ worker: false })
  })
  afterAll(() => parley?.close())

  /** Creates a space with these messages by a human. */
  async function spaceWith(texts: readonly string[]) {
    const { human, agent, space } = await parley.room()
    const { prisma } = parley.app.platform.db
    await prisma.message.createMany({
      data: texts.map((text, index) => {
        const id = newId('msg')
        const parts = [{ type: 'text', text }]
        return {
          id,
          spaceId: space.id,
          seq: index + 1,
          senderId: human.id,
          status: 'COMPLETE',
          parts,
          rootId: id,
          depth: 0,
        }
      }),
    })
    return { spaceId: space.id, readerId: agent.id }
  }

  /** Returns a history, and the rows that were read from the database for it. */
  function observed() {
    const rows: object[] = []
    const { platform } = parley.app
    async function query<Row extends object>(statement: Prisma.Sql): Promise<Row[]> {
      const some = await platform.db.query<Row>(statement)
      rows.push(...some)
      return some
    }
    const history = createHistory({ ...platform, db: { ...platform.db, query } } as Platform)
    return { history, rows }
  }

  const longestRead = (rows: object[]) => Math.max(...rows.map((row) => JSON.stringify(row).length))

  test.each([
    ['ASCII', 'a'.repeat(31_000)],
    ['controls', '\t'.repeat(9000)],
    ['characters of three bytes', '漢'.repeat(20_000)],
    ['characters of two units', '😀'.repeat(15_000)],
    ['characters of two units after others', `${'a'.repeat(7999)}😀${'漢'.repeat(500)}`],
    ['one more than is shown', 'b'.repeat(LONGEST_TEXT + 1)],
    ['as many as are shown', 'c'.repeat(LONGEST_TEXT)],
  ])('are truncated by UTF-16 units, with the number of missing units: %s', async (_, text) => {
    const place = await spaceWith(['short', text])
    const lines = await observed().history.read({ ...place, limit: 50, characters: RESULT_CHARACTERS })
    expect(lines.map((line) => line.text)).toEqual(['short', cutSaying(text, LONGEST_TEXT)])
  })

  test('are returned in full if one is requested, or all of one', async () => {
    const text = 'x'.repeat(20_000)
    const place = await spaceWith(['short', text])
    const { history } = observed()
    const [one] = await history.read({ ...place, limit: 1, characters: RESULT_CHARACTERS })
    expect(one?.text).toBe(text)
    const whole = [one?.id ?? '']
    const lines = await history.read({ ...place, limit: 50, characters: RESULT_CHARACTERS, whole })
    expect(lines.map((line) => line.text)).toEqual(['short', text])
  })

  test('are read from the database only up to the displayed length and number', async () => {
    const place = await spaceWith(Array.from({ length: 60 }, (_, n) => `${n} ${'漢'.repeat(31_900)}`))
    const { history, rows } = observed()
    const lines = await history.read({ ...place, limit: 50, characters: 60_000 })
    expect(lines).toHaveLength(7)
    expect(rows.length).toBeLessThan(10)
    expect(longestRead(rows)).toBeLessThan(LONGEST_TEXT + 1000)
  })

  test('are found behind more short ones than the first query covers, up to the limit', async () => {
    const place = await spaceWith([...Array.from({ length: 10 }, () => 'y'.repeat(9000)), ...Array(40).fill('short')])
    const lines = await observed().history.read({ ...place, limit: 50, offset: 2, characters: RESULT_CHARACTERS })
    expect(lines.filter(({ text }) => text === 'short')).toHaveLength(38)
    expect(lines.length).toBe(38 + 5)
  })
})
