import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'

describe.each(RULE_STACKS)('agents and files, on the %s stack', (stack) => {
  let parley: TestApplication
  beforeAll(async () => {
    parley = await startApplication({ stack })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  async function upload(viewer: HumanViewer, content: string | Buffer, name: string): Promise<string> {
    const body = Readable.from([Buffer.from(content)])
    return (await parley.app.domain.files.upload(viewer, { name, body, bytes: null })).id
  }
  async function sendWith(viewer: HumanViewer, spaceId: string, fileIds: string[], text = 'Look.') {
    const { runs, message } = await parley.app.domain.sending.send(viewer, { spaceId, text, fileIds })
    return { message, run: await parley.runWhen(runs[0]?.id ?? '') }
  }
  const requested = () => parley.models.requests.map(({ body }) => JSON.stringify(body))
  async function outputOf(runId: string, toolName: string): Promise<Record<string, unknown>> {
    const calls = (await parley.app.domain.toolCalls.ofRuns([runId])).get(runId) ?? []
    const id = calls.find((call) => call.toolName === toolName)?.id ?? ''
    const found = (await parley.app.domain.toolCalls.contentsOf([id])).get(id)
    return found?.output as Record<string, unknown>
  }

  test('a prompt shows a file as its name, type and id, and quotes the beginning of its text', async () => {
    parley.models.script(steps([{ text: 'Done.' }]))
    const { human, space } = await parley.room()
    const id = await upload(human, 'The budget is 42.\n"quoted"', 'bud"get.txt')
    const { run } = await sendWith(human, space.id, [id])
    expect(run.status).toBe('COMPLETED')
    const [body] = requested()
    expect(body).toContain(
      JSON.stringify(JSON.stringify(`[file "bud\\"get.txt", text/plain, ${id}]`).slice(1, -1)).slice(1, -1),
    )
    const quoted = JSON.stringify({ id, text: 'The budget is 42.\n"quoted"' })
    expect(body).toContain(JSON.stringify(quoted).slice(1, -1))
  })

  test('a model gets a picture as a picture; one that refuses pictures is called again without them', async () => {
    const { human, space } = await parley.room()
    const picture = await sharp({ create: { width: 40, height: 40, channels: 3, background: '#f00' } })
      .withExif({ IFD0: { Copyright: 'SECRET PLACE' } })
      .png()
      .toBuffer()
    parley.models.script(steps([{ text: 'Red.' }]))
    const id = await upload(human, picture, 'red.png')
    const { run } = await sendWith(human, space.id, [id])
    expect(run.status).toBe('COMPLETED')
    expect(requested()[0]).toContain('data:image/jpeg;base64,')
    const steppedIn = await parley.app.platform.db.prisma.step.findMany({ where: { runId: run.id } })
    expect(JSON.stringify(steppedIn)).toContain(`parley-file:${id}`)
    expect(JSON.stringify(steppedIn)).not.toContain('base64,')
  })

  test('read_file returns text in parts, and pictures for models that take them', async () => {
    const { human, space } = await parley.room()
    const id = await upload(human, `${'a'.repeat(50)}END`, 'long.txt')
    parley.models.script(
      steps([{ toolCall: 'read_file', input: { fileId: id, offset: 48, limit: 3 } }], [{ text: '.' }]),
    )
    const { run } = await sendWith(human, space.id, [id])
    expect(await outputOf(run.id, 'read_file')).toEqual({
      fileId: id,
      name: 'long.txt',
      mediaType: 'text/plain',
      size: 53,
      text: 'aaE',
      totalCharacters: 53,
      nextOffset: 51,
    })
  })

  test('read_file returns the same error for files of other spaces, unsent files and unknown files', async () => {
    const { human, space } = await parley.room()
    const other = await parley.space(human, [])
    const hidden = await upload(human, 'CANARY', 'hidden.txt')
    await parley.app.domain.sending.send(human, { spaceId: other.id, text: '', fileIds: [hidden] })
    const unsent = await upload(human, 'CANARY', 'unsent.txt')
    const errors: unknown[] = []
    for (const fileId of [hidden, unsent, `fil_${'0'.repeat(32)}`, 'nonsense']) {
      parley.models.reset()
      parley.models.script(steps([{ toolCall: 'read_file', input: { fileId } }], [{ text: '.' }]))
      const { runs } = await parley.send(human, space.id, 'Read it.')
      const run = await parley.runWhen(runs[0]?.id ?? '')
      errors.push(await outputOf(run.id, 'read_file'))
      expect(requested().join()).not.toContain('CANARY')
    }
    const error = { error: { code: 'NOT_FOUND', message: 'There is no such file, or you may not read it.' } }
    expect(errors).toEqual([error, error, error, error])
  })

  test('send_file posts a file as a message, which members can download', async () => {
    const { human, space } = await parley.room()
    const enter = { toolCall: 'enter_space', input: { spaceId: space.id } }
    const csv = { toolCall: 'send_file', input: { name: 'a/b.csv', mediaType: 'text/csv', text: 'a,b\n1,2' } }
    const bytes = randomBytes(64)
    const raw = { toolCall: 'send_file', input: { name: 'raw.bin', mediaType: 'x', base64: bytes.toString('base64') } }
    const bad = { toolCall: 'send_file', input: { name: 'x', mediaType: 'x', text: 'both', base64: 'AA==' } }
    parley.models.script(steps([enter], [csv], [raw], [bad], [{ text: '.' }]))
    const { runs } = await parley.send(human, space.id, 'Send me files.')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    expect(run.status).toBe('COMPLETED')
    const messages = (await parley.messages(space.id)).filter(({ runId }) => runId === run.id)
    expect(messages.map(({ status, parts }) => [status, parts])).toEqual([
      ['COMPLETE', [{ type: 'file', fileId: expect.any(String), name: 'b.csv', mediaType: 'text/plain' }]],
      [
        'COMPLETE',
        [{ type: 'file', fileId: expect.any(String), name: 'raw.bin', mediaType: 'application/octet-stream' }],
      ],
    ])
    const loaded: Buffer[] = []
    for (const { parts } of messages) {
      const [{ fileId }] = parts as unknown as [{ fileId: string }]
      const content = await parley.app.domain.files.open(human, fileId, 'original')
      loaded.push(Buffer.concat(await (await content.read()).toArray()))
    }
    expect(loaded).toEqual([Buffer.from('a,b\n1,2'), bytes])
  })

  test('sendFile names its space, or sends to the space that woke the agent', async () => {
    const { human, space } = await parley.room('Ada', { toolset: 'SPACE_TOOLS' })
    const input = { name: 'notes.txt', mediaType: 'text/plain', text: 'Hello' }
    const stranger = await parley.space(human, [])
    parley.models.script(
      steps(
        [{ toolCall: 'sendFile', input }],
        [{ toolCall: 'sendFile', input: { ...input, spaceId: stranger.id } }],
        [{ text: '.' }],
      ),
    )
    const { runs } = await parley.send(human, space.id, 'Send me a file.')
    await parley.runWhen(runs[0]?.id ?? '')
    expect(await parley.messages(stranger.id)).toEqual([])
    expect((await parley.messages(space.id)).at(-1)?.parts).toMatchObject([{ type: 'file', name: 'notes.txt' }])
  })
})
