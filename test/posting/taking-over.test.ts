import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createMessageRecovery } from '../../src/flows/recover-messages.ts'
import { createAnnouncer } from '../../src/spaces/announcer.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'
import { hasPostgres } from '../support/postgres.ts'
import { gate, messagesOf, sayIn, spaceToolsRoom, textsOf } from '../support/space-tools.ts'
import { until } from '../support/until.ts'

describe.skipIf(!hasPostgres)('a worker that hangs while it takes over a run', () => {
  let one: TestApplication

  beforeAll(async () => {
    one = await startApplication({ stack: 'postgres', worker: false })
  })
  afterAll(() => one?.close())
  beforeEach(() => one.models.reset())

  /** Takes over the run as the next claim does, but sleeps after it has read the open messages, until the test wakes it. */
  function sleeper(runId: string) {
    const { platform } = one.app
    const asleep = gate()
    const woken = gate()
    const log = Object.create(platform.log) as typeof platform.log
    log.drafts = async (topic, ids) => {
      asleep.open()
      await woken.promise
      return platform.log.drafts(topic, ids)
    }
    const announcer = createAnnouncer(platform)
    const { takeOver } = createMessageRecovery({ ...platform, log }, announcer)
    const takesOver = async () => {
      const claimed = { where: { id: runId }, data: { attempt: { increment: 1 } } }
      await takeOver(await platform.db.prisma.run.update(claimed))
      await announcer.close()
    }
    return { done: takesOver(), asleep: asleep.promise, wake: woken.open }
  }

  test('does not modify what the next claim writes', async () => {
    const room = await spaceToolsRoom(one)
    const { promise: rest, open: writeTheRest } = gate()
    const chunks = [`{"spaceId":"${room.space.id}","text":"Two `, rest, 'and more"}']
    let asked = 0
    one.models.script((request) => {
      const generations = [
        [sayIn(room.space.id, 'One')],
        asked++ === 1 ? [{ hang: true as const }] : [{ toolCall: 'sendSpaceMessage', input: '', chunks }],
      ]
      return steps(...generations)(request)
    })
    const before = await startApplication({ stack: 'postgres', beside: one })
    const { runs } = await one.send(room.human, room.space.id, 'Go')
    const runId = runs[0]?.id ?? ''
    await until('the run has posted one part', async () => one.models.requests.length === 2)
    await before.app.close(0)

    const { done, asleep, wake } = sleeper(runId)
    await asleep
    const after = await startApplication({ stack: 'postgres', beside: one })
    const posted = async () => (await messagesOf(one, room.space.id, room.agents[0]?.id ?? ''))[0]
    await until('the next claim continues the message', async () => {
      const id = (await posted())?.id ?? ''
      return (
        (await one.app.platform.log.drafts(`space:${room.space.id}`, [id])).get(id)?.get(1)?.startsWith('Two') === true
      )
    })
    wake()
    await done
    expect(await posted()).toMatchObject({ status: 'STREAMING' })
    writeTheRest()
    expect(await one.runWhen(runId)).toMatchObject({ status: 'COMPLETED' })
    await after.close()
    const messages = await messagesOf(one, room.space.id, room.agents[0]?.id ?? '')
    expect(messages.map(textsOf)).toEqual([['One', 'Two and more']])
    expect(messages).toMatchObject([{ status: 'COMPLETE' }])
  })
})
