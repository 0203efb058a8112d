import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { openStage, type Read, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const ERASE = `mutation ($input: EraseHumanInput!) {
  eraseHuman(input: $input) { __typename ... on EraseHumanPayload { erasedHumanId } ... on Error { message } }
}`

/** After a backslash, the last names begin with characters that complete a JSON escape sequence. */
const NAMES = ['nora', 'bob', 'tom', 'robert', 'frank', 'uma', 'Ann "A" Lee', 'back\\slash', '$& $1 (.*)+[', '李 🦊']

describe.each(RULE_STACKS)('text that is designed to prevent an erasure, on the %s stack', (stack) => {
  let parley: TestServer
  let stage: Stage
  beforeAll(async () => {
    parley = await startTestServer({ stack })
    stage = await openStage(parley)
  })
  afterAll(() => parley?.close())

  const db = () => parley.app.platform.db.prisma
  const erase = (human: { id: string }, messages = false) =>
    stage.ask(stage.admin, ERASE, { input: { id: human.id, messages } })
  const unfinished = async (human: { id: string }) =>
    (await db().entity.findUnique({ where: { id: human.id } }))?.formerly
  /** Returns the rows of the agent's memory, as PostgreSQL prints them. */
  const mindOf = async (agentId: string): Promise<string> => {
    const rows = await db().$queryRaw<{ row: Read }[]>`
      SELECT payload AS row FROM "InboxEvent" WHERE "agentId" = ${agentId} UNION ALL
      SELECT messages FROM "Cycle" WHERE "agentId" = ${agentId} UNION ALL SELECT state FROM "Run" WHERE "agentId" = ${agentId}`
    return JSON.stringify(rows)
  }

  test('a message by another member about the erased human stays unchanged', async () => {
    const [mallory, mina] = [await stage.person('Mallory'), await stage.bot('Mina', { mind: 'PERSISTENT' })]
    const victims = await Promise.all(NAMES.map((name) => stage.person(name)))
    const space = await stage.space('Room', [...victims, mallory, mina], { routing: 'BROADCAST' })
    const words = victims
      .map(
        ({ id, name }) =>
          `\\${name} \n${name.slice(1)} is a human: ${name} is a human: "sender": "${name}", ${name} (id: ${id})`,
      )
      .join('\n')
    await stage.say(mallory, space, words)
    await stage.endedRuns(mina, 1)
    const before = await mindOf(mina.id)
    for (const victim of victims) {
      expect(await erase(victim, true)).toMatchObject({ __typename: 'EraseHumanPayload' })
      expect(await unfinished(victim)).toBeNull()
    }
    expect(await mindOf(mina.id)).toBe(before)
    expect((await stage.messagesIn(space))[0].text).toBe(words)
  })

  test('a name with line breaks or other special characters is removed from all text that the server wrote', async () => {
    const mina = await stage.bot('Mona', { mind: 'PERSISTENT' })
    const people = await Promise.all(NAMES.map((name) => stage.person(`Zoe ${name}`)))
    // Write the row as an import or an earlier version may have left it.
    const broken = await stage.person('Zoe broken')
    await db().entity.update({ where: { id: broken.id }, data: { name: 'Zoe\nbroken\t"\\' } })
    const space = await stage.space('Hall', [...people, broken, mina], { routing: 'BROADCAST' })
    const all = [...people, broken]
    for (const [index, person] of all.entries()) {
      parley.models.script(
        forAgent(
          'Mona',
          steps([{ toolCall: 'readSpaceMessages', input: { spaceId: space.id, limit: 50 } }], [{ text: 'Read.' }]),
        ),
      )
      await stage.say(person, space, `I am number ${index}`)
      await stage.endedRuns(mina, index + 1)
    }
    expect(await mindOf(mina.id)).toContain('Zoe')
    for (const person of all) {
      expect(await erase(person)).toMatchObject({ __typename: 'EraseHumanPayload' })
      expect(await unfinished(person)).toBeNull()
    }
    expect(await mindOf(mina.id)).not.toContain('Zoe')
    const calls = await db().toolCall.findMany({ where: { agentId: mina.id } })
    expect(JSON.stringify(calls)).not.toContain('Zoe')
  })

  test('a row that cannot be written is postponed, and does not delay other rows or other humans', async () => {
    const [stuck, behind] = [await stage.person('Stuck Steve'), await stage.person('Behind Ben')]
    const minds = [await stage.bot('Mira', { mind: 'PERSISTENT' }), await stage.bot('Maud', { mind: 'PERSISTENT' })]
    for (const mind of minds) {
      const space = await stage.space('Room', [stuck, behind, mind], { routing: 'BROADCAST' })
      await stage.say(stuck, space, 'Hello')
      await stage.endedRuns(mind, 1)
      await stage.say(behind, space, 'Hello, too')
      await stage.endedRuns(mind, 2)
    }
    const [bad] = await db().cycle.findMany({ where: { agentId: minds[0]?.id ?? '' }, orderBy: { index: 'asc' } })
    await db().$executeRawUnsafe(`
      CREATE FUNCTION refuse_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.id = '${bad?.id}' AND NEW.messages::text NOT LIKE '%Stuck Steve%' THEN RAISE EXCEPTION 'disk error in Stuck Steve'; END IF; RETURN NEW; END $$`)
    await db().$executeRawUnsafe(
      'CREATE TRIGGER refuse_row BEFORE UPDATE ON "Cycle" FOR EACH ROW EXECUTE FUNCTION refuse_row()',
    )
    expect(await erase(stuck)).toMatchObject({ __typename: 'EraseHumanPayload' })
    expect(await unfinished(stuck)).toMatchObject({ name: 'Stuck Steve' })
    expect(await erase(behind)).toMatchObject({ __typename: 'EraseHumanPayload' })
    expect(await unfinished(behind)).toBeNull()
    const left = await db().cycle.findMany()
    expect(left.filter((row) => JSON.stringify(row).includes('Stuck Steve')).map(({ id }) => id)).toEqual([bad?.id])
    expect(await mindOf(minds[1]?.id ?? '')).not.toContain('Stuck Steve')

    await db().$executeRawUnsafe('DROP TRIGGER refuse_row ON "Cycle"')
    await db().$executeRawUnsafe('DROP FUNCTION refuse_row')
    // Skips the pause before the next attempt.
    await db().$executeRaw`UPDATE "Entity" SET formerly = formerly - 'retryAt' WHERE id = ${stuck.id}`
    await until('a sweep has finished the erasure', async () => {
      await parley.app.domain.deletion.sweep()
      return (await unfinished(stuck)) === null
    })
    expect(await mindOf(minds[0]?.id ?? '')).not.toContain('Stuck Steve')
  })

  test('an erasure that waits for a run finishes although an earlier one makes no progress', async () => {
    const [first, second] = [await stage.person('Never Done'), await stage.person('Soon Done')]
    const formerly = { name: 'Never Done', messages: false, place: 'no place at all' }
    await db().entity.update({ where: { id: first.id }, data: { name: 'Erased', goneAt: new Date(), formerly } })
    await db().entity.update({
      where: { id: second.id },
      data: { name: 'Erased', goneAt: new Date(), formerly: { name: 'Soon Done', messages: false } },
    })
    await db().$executeRawUnsafe(`
      CREATE FUNCTION refuse_entity() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.id = '${first.id}' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$`)
    await db().$executeRawUnsafe(
      'CREATE TRIGGER refuse_entity BEFORE UPDATE ON "Entity" FOR EACH ROW EXECUTE FUNCTION refuse_entity()',
    )
    await parley.app.domain.deletion.sweep()
    expect(await unfinished(second)).toBeNull()
    expect(await unfinished(first)).not.toBeNull()
    await db().$executeRawUnsafe('DROP TRIGGER refuse_entity ON "Entity"')
    await db().$executeRawUnsafe('DROP FUNCTION refuse_entity')
    await parley.app.domain.deletion.sweep()
    expect(await unfinished(first)).toBeNull()
  })

  test('an erasure that includes messages empties all of them, even if they exceed one batch', async () => {
    const [zoe, eve] = [await stage.person('Zoe Writer'), await stage.person('Eve')]
    const space = await stage.space('Long', [zoe, eve])
    await stage.say(zoe, space, 'First')
    const [one] = await db().message.findMany({ where: { spaceId: space.id } })
    const many = Array.from({ length: 1200 }, (_, index) => ({
      id: `msg_${index.toString(16).padStart(32, '0')}`,
      spaceId: space.id,
      seq: index + 2,
      senderId: zoe.id,
      status: 'COMPLETE' as const,
      parts: [{ type: 'text', text: 'Secret' }],
      rootId: one?.id ?? '',
      depth: 0,
    }))
    await db().message.createMany({ data: many })
    await erase(zoe, true)
    expect(await db().message.count({ where: { spaceId: space.id, senderId: zoe.id, parts: { equals: [] } } })).toBe(
      1201,
    )
  })
})
