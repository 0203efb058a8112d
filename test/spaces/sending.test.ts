import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { createPost } from '../../src/flows/post.ts'
import { createSending, type Sending } from '../../src/flows/send-message.ts'
import { newId } from '../../src/lib/ids.ts'
import { type Announcer, createAnnouncer } from '../../src/spaces/announcer.ts'
import { type Domain, openDomain } from '../support/domain.ts'
import { hasPostgres } from '../support/postgres.ts'

describe.skipIf(!hasPostgres)('sending', () => {
  let domain: Domain
  let announcer: Announcer
  let sending: Sending
  let ada: HumanViewer
  let spaceId: string

  beforeAll(async () => {
    domain = await openDomain()
    announcer = createAnnouncer(domain.platform)
    const { platform, visibility } = domain
    const { post } = createPost(platform)
    sending = createSending(platform, { visibility, announcer, post })
    ada = await domain.human('Ada')
    spaceId = (await domain.space(ada)).id
  })
  afterAll(async () => {
    await announcer.close()
    await domain.close()
  })

  test('a member posts in their own name', async () => {
    const { message } = await sending.send(ada, { spaceId, text: 'Hello' })
    expect(message).toMatchObject({
      senderId: ada.id,
      seq: 1,
      status: 'COMPLETE',
      parts: [{ type: 'text', text: 'Hello' }],
    })
  })

  test('an admin cannot post', async () => {
    const posting = sending.send(domain.admin, { spaceId, text: 'Hello' })
    await expect(posting).rejects.toMatchObject({ code: 'FORBIDDEN' })
  })

  test('a hidden space does not exist, for humans and services', async () => {
    const viewers = [await domain.human('Bob'), await domain.service('Jira', null)]
    for (const viewer of viewers) {
      for (const id of [spaceId, newId('spc'), '\0']) {
        const posting = sending.send(viewer, { spaceId: id, text: 'Hello' })
        await expect(posting).rejects.toMatchObject({ code: 'NOT_FOUND' })
      }
    }
  })

  test('a mention of an invisible entity is not found', async () => {
    const stranger = await domain.human('Stranger')
    for (const mentionedAgentId of [stranger.id, newId('agt'), 'nonsense', '\0']) {
      const posting = sending.send(ada, { spaceId, text: 'Hello', mentionedAgentId })
      await expect(posting).rejects.toMatchObject({ code: 'NOT_FOUND' })
    }
  })

  test('half a surrogate pair, which no database can store, is posted as a replacement character', async () => {
    const { message } = await sending.send(ada, { spaceId, text: 'a\ud800b 😀' })
    expect(message.parts).toEqual([{ type: 'text', text: 'a\ufffdb 😀' }])
  })

  test('a message must not be empty', async () => {
    for (const text of ['', ' \n', 'x'.repeat(32_001), '\0']) {
      const posting = sending.send(ada, { spaceId, text })
      await expect(posting).rejects.toMatchObject({ code: 'BAD_INPUT', field: 'input.text' })
    }
  })
})
