import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../support/application.ts'
import { hasPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

describe.skipIf(!hasPostgres)('a process that has a space cached', () => {
  let here: TestApplication
  let elsewhere: TestApplication
  let direct: pg.Client

  beforeAll(async () => {
    here = await startApplication({ stack: 'postgres', worker: false })
    elsewhere = await startApplication({ stack: 'postgres', worker: false, beside: here })
    direct = new pg.Client({ connectionString: here.stores.settings['DATABASE_URL'] ?? '' })
    await direct.connect()
  })
  afterAll(async () => {
    await direct?.end()
    await elsewhere?.close()
    await here?.close()
  })

  /** Creates a room to which this process has just sent a message. */
  async function knownRoom(routing: 'BROADCAST' | 'MENTION_CHAIN' = 'BROADCAST') {
    const known = await here.room('Ada', {}, { routing })
    const other = await here.agent('Bob')
    await here.send(known.human, known.space.id, 'Hello')
    await here.send(known.human, known.space.id, 'Hello again')
    return { ...known, other }
  }

  const wokenBy = ({ runs }: { runs: { agentId: string }[] }) => runs.map(({ agentId }) => agentId).sort()

  test('wakes an agent that another process has just added', async () => {
    const { human, agent, other, space } = await knownRoom()
    await elsewhere.app.domain.members.add(human, { spaceId: space.id, entityId: other.id })
    expect(wokenBy(await here.send(human, space.id, 'Both?'))).toEqual([agent.id, other.id].sort())
  })

  test('wakes no agent that another process has just removed', async () => {
    const { human, agent, space } = await knownRoom()
    await elsewhere.app.domain.members.remove(human, { spaceId: space.id, entityId: agent.id })
    expect(wokenBy(await here.send(human, space.id, 'Anybody?'))).toEqual([])
  })

  test('returns a message as it was written, if no agent receives it', async () => {
    const { human, agent, space } = await knownRoom()
    await here.app.domain.members.remove(human, { spaceId: space.id, entityId: agent.id })
    const sending = { spaceId: space.id, text: 'Half a \ud83d pair, and "quotes"', idempotencyKey: 'k' }
    // The first message reads the room again.
    await here.send(human, space.id, 'Nobody?')
    const { message, runs } = await here.app.domain.sending.send(human, sending)
    expect(runs).toEqual([])
    expect(await here.app.platform.db.prisma.message.findUnique({ where: { id: message.id } })).toEqual(message)
    expect((await here.app.domain.sending.send(human, sending)).message).toEqual(message)
  })

  test('follows the routing that another process has just set', async () => {
    const { human, agent, other, space } = await knownRoom()
    await elsewhere.app.domain.members.add(human, { spaceId: space.id, entityId: other.id })
    await here.send(human, space.id, 'Both')
    await elsewhere.app.domain.spaces.update(human, { id: space.id, routing: 'ADMIN', adminAgentId: agent.id })
    expect(wokenBy(await here.send(human, space.id, 'The admin?'))).toEqual([agent.id])
  })

  test('uses the current name of an agent', async () => {
    const { human, agent, space } = await knownRoom('MENTION_CHAIN')
    await elsewhere.app.domain.agents.update(here.admin, { id: agent.id, name: 'Adele' })
    const { runs } = await here.app.domain.sending.send(human, {
      spaceId: space.id,
      text: 'You',
      mentionedAgentId: agent.id,
    })
    expect(runs).toMatchObject([{ agentId: agent.id, triggerPayload: { mentionReason: 'You' } }])
    const { other } = await knownRoom()
    await elsewhere.app.domain.members.add(human, { spaceId: space.id, entityId: other.id })
    await elsewhere.app.domain.spaces.update(human, { id: space.id, routing: 'ADMIN', adminAgentId: other.id })
    const addressed = await here.app.domain.sending.send(human, {
      spaceId: space.id,
      text: 'A',
      mentionedAgentId: agent.id,
    })
    expect(addressed.runs).toMatchObject([{ triggerPayload: { addressee: { id: agent.id, name: 'Adele' } } }])
  })

  test('gives each agent its turn, whichever process receives the messages', async () => {
    const { human, agent, other, space } = await knownRoom('MENTION_CHAIN')
    await here.app.domain.members.add(human, { spaceId: space.id, entityId: other.id })
    const woken: string[] = []
    for (let n = 0; n < 6; n++)
      woken.push(...wokenBy(await (n % 3 === 2 ? elsewhere : here).send(human, space.id, `${n}`)))
    const turns = [agent.id, other.id]
    expect(woken).toEqual(
      woken[0] === agent.id ? [...turns, ...turns, ...turns] : [...turns, ...turns, ...turns].reverse(),
    )
    const together = await Promise.all(
      Array.from({ length: 8 }, (_, n) => [here, elsewhere][n % 2]?.send(human, space.id, 'At once')),
    )
    const counts = Map.groupBy(
      together.flatMap((sent) => sent?.runs ?? []),
      ({ agentId }) => agentId,
    )
    expect([...counts.values()].map((runs) => runs.length)).toEqual([4, 4])
  })

  test('wakes no agent that is removed while the message waits for the space', async () => {
    const { human, agent, space } = await knownRoom()
    await direct.query('BEGIN')
    await direct.query('SELECT 1 FROM "Space" WHERE id = $1 FOR UPDATE', [space.id])
    await direct.query('DELETE FROM "Membership" WHERE "spaceId" = $1 AND "entityId" = $2', [space.id, agent.id])
    const sending = here.send(human, space.id, 'Still there?')
    await until('the message waits', async () => {
      const { rows } = await direct.query(
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%\"lastSeq\" + 1%'",
      )
      return rows.length > 0
    })
    await direct.query('COMMIT')
    expect(wokenBy(await sending)).toEqual([])
  })

  test('posts nothing for a human who has just been removed, and a repeated request once', async () => {
    const { human, space } = await knownRoom()
    const given = { spaceId: space.id, text: 'Once', idempotencyKey: 'a key of mine' }
    const [first, again] = await Promise.all([here, elsewhere].map(({ app }) => app.domain.sending.send(human, given)))
    expect([again?.message.id, wokenBy(again ?? { runs: [] })]).toEqual([
      first?.message.id,
      wokenBy(first ?? { runs: [] }),
    ])
    await elsewhere.app.domain.members.remove(here.admin, { spaceId: space.id, entityId: human.id })
    await expect(here.send(human, space.id, 'Me?')).rejects.toThrow('There is no such space')
    expect((await here.messages(space.id)).map(({ seq }) => seq)).toEqual([1, 2, 3])
  })
})
