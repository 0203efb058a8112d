import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { keyOfHash } from '../../src/files/stored-bytes.ts'
import { createFileSweep } from '../../src/operation/file-sweep.ts'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { openStorage, STORAGES } from '../support/storages.ts'

const WAYS = RULE_STACKS.flatMap((stack) => STORAGES.map((storage) => ({ stack, storage })))

describe.each(WAYS)('files in a $storage that no message needs, on the $stack stack', ({ stack, storage }) => {
  let files: Awaited<ReturnType<typeof openStorage>>
  let parley: TestApplication
  let ada: HumanViewer
  beforeAll(async () => {
    files = await openStorage(storage)
    parley = await startApplication({ stack, worker: false, isFresh: true, settings: files.settings })
    ada = await parley.human('Ada')
  })
  afterAll(async () => {
    await parley?.close()
    await files?.close()
  })

  const upload = (content: string) =>
    parley.app.domain.files.upload(ada, { name: 'a.txt', body: Readable.from([Buffer.from(content)]), bytes: null })
  async function sweepAfter(hours: number): Promise<void> {
    const { platform, domain } = parley.app
    const age = `${hours} hours`
    await platform.db.prisma.$executeRaw`UPDATE "FileObject" SET "storedAt" = "storedAt" - ${age}::interval`
    await platform.db.prisma.$executeRaw`UPDATE "File" SET "createdAt" = "createdAt" - ${age}::interval`
    const parts = { resumable: domain.resumableUploads, sharedStorage: { check: async () => {} } }
    await createFileSweep(platform, parts).sweep()
  }
  const isStored = async (hash: string) => {
    const stream = await parley.app.platform.files.read(keyOfHash(hash))
    stream?.destroy()
    return stream !== null
  }

  test('unsent files are deleted after a day, and bytes once no file refers to them', async () => {
    const space = await parley.space(ada, [])
    const [sent, same, unsent] = [await upload('both'), await upload('both'), await upload('never sent')]
    await parley.app.domain.sending.send(ada, { spaceId: space.id, text: '', fileIds: [sent.id] })
    await sweepAfter(2)
    expect([await isStored(sent.hash), await isStored(unsent.hash)]).toEqual([true, true])
    await sweepAfter(23)
    expect([await isStored(sent.hash), await isStored(unsent.hash)]).toEqual([true, false])
    expect((await parley.app.domain.files.getMany([sent.id, same.id, unsent.id])).map((file) => file?.id)).toEqual([
      sent.id,
      undefined,
      undefined,
    ])
  })

  test('files are deleted with their space, and with the messages of an erased person', async () => {
    const space = await parley.space(ada, [])
    const bob = await parley.human('Bob')
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: bob.id })
    const body = Readable.from([Buffer.from('of Bob')])
    const ofBob = await parley.app.domain.files.upload(bob, { name: 'bob.txt', body, bytes: null })
    await parley.app.domain.sending.send(bob, { spaceId: space.id, text: 'mine', fileIds: [ofBob.id] })
    const ofAda = await upload('of Ada')
    await parley.app.domain.sending.send(ada, { spaceId: space.id, text: '', fileIds: [ofAda.id] })
    await parley.app.domain.deletion.eraseHuman(parley.admin, { id: bob.id, messages: true })
    const ids = [ofBob.id, ofAda.id]
    expect((await parley.app.domain.files.getMany(ids)).map((file) => file?.id)).toEqual([undefined, ofAda.id])
    await parley.app.domain.deletion.deleteSpace(parley.admin, { id: space.id })
    await parley.app.domain.deletion.sweep()
    expect(await parley.app.domain.files.getMany(ids)).toEqual([null, null])
    await sweepAfter(2)
    expect([await isStored(ofBob.hash), await isStored(ofAda.hash)]).toEqual([false, false])
  })
})
