import { randomBytes } from 'node:crypto'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer, Viewer } from '../../src/access/viewer.ts'
import { pictureIn } from '../../src/rules/picture.ts'
import { RULE_STACKS } from '../support/application.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const UPDATE = `mutation ($input: UpdateHumanInput!) { updateHuman(input: $input) {
  __typename ... on UpdateHumanPayload { human { id name picture } }
  ... on Error { message } ... on BadInputError { field } } }`
const PICTURE = 'query ($id: ID!) { node(id: $id) { ... on Human { picture } } }'
const ERASE = 'mutation ($id: ID!) { eraseHuman(input: { id: $id }) { __typename } }'

interface Answer {
  __typename: string
  message?: string
  field?: string
  human?: { name: string; picture: string | null }
}

/** Returns the dimensions of a picture, and its format. */
async function sizeOf(picture: string | null | undefined) {
  const { width, height, format } = await sharp(Buffer.from(picture!.split(',')[1]!, 'base64')).metadata()
  return { width, height, format }
}

describe.each(RULE_STACKS)('profile pictures, on the %s stack', (stack) => {
  let parley: TestServer
  let ada: HumanViewer
  let bob: HumanViewer
  beforeAll(async () => {
    parley = await startTestServer({ stack, worker: false, isFresh: true, settings: { PARLEY_DIRECTORY: 'shared' } })
    ada = await parley.human('Ada')
    bob = await parley.human('Bob')
  })
  afterAll(() => parley?.close())

  async function upload(viewer: Viewer, content: Buffer): Promise<string> {
    const headers = { authorization: `Bearer ${await parley.tokenOf(viewer)}`, 'x-file-name': 'me' }
    const answer = await fetch(`${parley.origin}/files`, { method: 'POST', body: new Uint8Array(content), headers })
    expect(answer.status).toBe(201)
    return ((await answer.json()) as { id: string }).id
  }
  async function ask<T>(viewer: Viewer, query: string, variables: object): Promise<T> {
    const { data, errors } = await (await parley.clientOf(viewer)).ask<Record<string, unknown>>(query, variables)
    expect(errors).toBeUndefined()
    return Object.values(data ?? {})[0] as T
  }
  const update = (viewer: Viewer, input: object) => ask<Answer>(viewer, UPDATE, { input })
  const pictureOf = async (viewer: Viewer, id: string) =>
    (await ask<{ picture: string | null } | null>(viewer, PICTURE, { id }))?.picture
  const image = (width: number, height: number) =>
    sharp({ create: { width, height, channels: 3, background: '#3366cc' } })
      .withExif({ IFD0: { Copyright: 'Where Ada lives' } })
      .jpeg()
      .toBuffer()
  /** Returns the image that a codec can compress least. */
  const noise = () =>
    sharp(randomBytes(300 * 300 * 3), { raw: { width: 300, height: 300, channels: 3 } })
      .png()
      .toBuffer()

  test('a person uploads an image, and those who may see the person see a small square version', async () => {
    const fileId = await upload(ada, await image(900, 600))
    const { human } = await update(ada, { id: ada.id, pictureFileId: fileId })
    expect(pictureIn(human?.picture)).toBe(human?.picture)
    expect(await sizeOf(human?.picture)).toEqual({ width: 96, height: 96, format: 'webp' })
    expect(Buffer.from(human!.picture!.split(',')[1]!, 'base64').toString('latin1')).not.toContain('Ada lives')
    expect(await pictureOf(parley.admin, ada.id)).toBe(human?.picture)
    expect(await pictureOf(bob, ada.id)).toBeUndefined()
    const space = await parley.space(ada, [])
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: bob.id })
    expect(await pictureOf(bob, ada.id)).toBe(human?.picture)

    // Without the file, the picture stays. Null removes the picture.
    await parley.app.platform.db.prisma.file.delete({ where: { id: fileId } })
    expect(await pictureOf(bob, ada.id)).toBe(human?.picture)
    expect((await update(ada, { id: ada.id, name: 'Ada L' })).human).toMatchObject({ picture: human?.picture })
    expect((await update(ada, { id: ada.id, pictureFileId: null })).human).toMatchObject({ picture: null })
  })

  test('an image that hardly compresses becomes a smaller square, within the limit', async () => {
    const { human } = await update(ada, { id: ada.id, pictureFileId: await upload(ada, await noise()) })
    expect(pictureIn(human?.picture)).toBe(human?.picture)
    expect((await sizeOf(human?.picture)).width).toBeLessThanOrEqual(96)
  })

  test.each([
    ['of somebody else', async () => upload(bob, await image(10, 10))],
    ['that does not exist', async () => `fil_${'0'.repeat(32)}`],
    ['without an image', async () => upload(ada, Buffer.from('Hello.'))],
    ['that only begins as an image', async () => upload(ada, (await image(50, 50)).subarray(0, 200))],
    ['with a script', async () => upload(ada, Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'))],
  ])('refuses a file %s, and changes nothing', async (_, fileOf) => {
    const before = await pictureOf(ada, ada.id)
    const answer = await update(ada, { id: ada.id, name: 'Eve', pictureFileId: await fileOf() })
    expect(answer).toMatchObject({ __typename: 'BadInputError', field: 'input.pictureFileId' })
    expect(await pictureOf(ada, ada.id)).toBe(before)
    expect((await update(ada, { id: ada.id })).human?.name).not.toBe('Eve')
  })

  test('only the person and admins choose the picture, and erasure removes it', async () => {
    const pictureFileId = await upload(bob, await image(40, 40))
    expect(await update(bob, { id: ada.id, pictureFileId })).toMatchObject({ __typename: 'ForbiddenError' })
    await update(bob, { id: bob.id, pictureFileId })
    await ask(parley.admin, ERASE, { id: bob.id })
    expect(await pictureOf(parley.admin, bob.id)).toBeNull()
  })
})
