import { afterAll, beforeAll, expect, test } from 'vitest'
import { createCore } from '../../src/app/core.ts'
import { DEFAULT_STACK, startApplication, type TestApplication } from '../support/application.ts'

let parley: TestApplication

beforeAll(async () => {
  parley = await startApplication({ stack: DEFAULT_STACK, worker: false, isFresh: true })
})
afterAll(() => parley?.close())

/** Creates a run that has ended, but whose process died before it finished the run's message. */
async function unsettledRun() {
  const { human, space } = await parley.room()
  const { message, runs } = await parley.send(human, space.id, 'Hello')
  const runId = runs[0]?.id ?? ''
  const { prisma } = parley.app.platform.db
  const finishedAt = new Date(Date.now() - 60_000)
  await prisma.run.update({ where: { id: runId }, data: { status: 'FAILED', finishedAt, claimableAt: null } })
  await prisma.message.update({ where: { id: message.id }, data: { runId, status: 'STREAMING' } })
  return message.id
}

test('a run whose messages cannot be settled does not stop the clean-up of other runs', async () => {
  const { prisma } = parley.app.platform.db
  const messageIds = [await unsettledRun(), await unsettledRun(), await unsettledRun()]
  const { human, agent, space } = await parley.room()
  const { runs } = await parley.send(human, space.id, 'Hello')
  await prisma.membership.deleteMany({ where: { spaceId: space.id, entityId: agent.id } })
  await prisma.$executeRawUnsafe(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.id = '${messageIds[0]}' THEN RAISE EXCEPTION 'This row is refused.'; END IF; RETURN NEW; END $$`)
  await prisma.$executeRawUnsafe(
    'CREATE TRIGGER refuse BEFORE UPDATE ON "Message" FOR EACH ROW EXECUTE FUNCTION refuse()',
  )
  const core = createCore(parley.app.platform)
  await core.lifecycle.sweep()
  const messages = await prisma.message.findMany({ where: { id: { in: messageIds } }, orderBy: { id: 'asc' } })
  expect(messages.map(({ status }) => status)).toEqual(['STREAMING', 'INTERRUPTED', 'INTERRUPTED'])
  expect(await parley.run(runs[0]?.id ?? '')).toMatchObject({ status: 'CANCELED', stopReason: 'GONE' })
})
