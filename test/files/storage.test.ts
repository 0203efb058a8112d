import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { filesLocation } from '../../src/config/files.ts'
import { type ConfigError, readConfig } from '../../src/config.ts'
import { StorageUnavailableError } from '../../src/platform/file-storage/file-storage.ts'
import { openFileStorage } from '../../src/platform/file-storage/open.ts'
import { describeFileStorage } from '../contracts/file-storage-contract.ts'
import { startApplication } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'
import { hasPostgres } from '../support/postgres.ts'
import { type S3Server, startS3Server } from '../support/s3-server.ts'
import { startTestServer } from '../support/served.ts'

let s3: S3Server
let directory: string
beforeAll(async () => {
  s3 = await startS3Server()
  directory = await mkdtemp(path.join(tmpdir(), 'parley-storage-'))
})
afterAll(async () => {
  await s3?.close()
  await rm(directory, { recursive: true, force: true })
})

const bucketSettings = () => ({ PARLEY_FILES: 's3://bucket/some/prefix', ...s3.variables })

describeFileStorage('a directory', async () => openFileStorage(path.join(directory, 'files')))
describeFileStorage('a bucket', async () => openFileStorage(filesLocation(bucketSettings(), '')))

describe('the storage of files', () => {
  test('a bucket needs credentials, and other URLs are refused as storage', () => {
    const faultsOf = (settings: Record<string, string>) => {
      try {
        readConfig(settings)
        return []
      } catch (error) {
        return (error as ConfigError).faults
      }
    }
    expect(faultsOf({ PARLEY_FILES: 's3://bucket' })).toEqual([
      'AWS_ACCESS_KEY_ID: must be set, because PARLEY_FILES is a bucket',
      'AWS_SECRET_ACCESS_KEY: must be set, because PARLEY_FILES is a bucket',
    ])
    expect(faultsOf({ PARLEY_FILES: 'gs://bucket' })).toEqual([
      'PARLEY_FILES: must be a directory, or s3://bucket/prefix',
    ])
    expect(faultsOf({ PARLEY_FILES: '/srv/files' })).toEqual([])
  })

  test('while a bucket is unreachable, uploads and downloads get 503, and no file is recorded', async () => {
    const parley = await startTestServer({ worker: false, isFresh: true, settings: bucketSettings() })
    try {
      const ada = await parley.human('Ada')
      const headers = { authorization: `Bearer ${await parley.tokenOf(ada)}`, 'x-file-name': 'a.txt' }
      const upload = () => fetch(`${parley.origin}/files`, { method: 'POST', body: 'content', headers })
      const { id } = (await (await upload()).json()) as { id: string }
      const load = () => fetch(`${parley.origin}/files/${id}`, { headers })
      expect(await (await load()).text()).toBe('content')
      s3.setDown(true)
      const refused = await upload()
      expect(refused.status).toBe(503)
      expect(await refused.json()).toEqual({ error: expect.stringContaining('PARLEY_FILES') })
      expect((await load()).status).toBe(503)
      s3.setDown(false)
      expect(await parley.app.platform.db.prisma.file.count()).toBe(1)
      expect(await (await load()).text()).toBe('content')
    } finally {
      s3.setDown(false)
      await parley.close()
    }
  })

  test('while a bucket is unreachable, an agent gets an error for its file, and a tool result is stored without its file', async () => {
    const parley = await startApplication({ isFresh: true, settings: bucketSettings() })
    const tool = createServer((_, response) => response.writeHead(200, { 'content-type': 'application/zip' }).end('PK'))
    await new Promise<void>((resolve) => tool.listen(0, '127.0.0.1', resolve))
    try {
      const url = `http://127.0.0.1:${(tool.address() as AddressInfo).port}`
      const data = {
        name: 'data',
        description: 'Data.',
        inputSchema: { type: 'object' },
        execution: 'HTTP' as const,
        url,
      }
      const { human, space } = await parley.room('Ada', { tools: [data] })
      const file = { name: 'a.txt', mediaType: 'text/plain', text: 'content' }
      parley.models.script(
        steps(
          [{ toolCall: 'enter_space', input: { spaceId: space.id } }],
          [{ toolCall: 'send_file', input: file }],
          [{ toolCall: 'data', input: {} }],
          [{ text: 'Done.' }],
        ),
      )
      s3.setDown(true)
      const { runs } = await parley.send(human, space.id, 'Send it')
      await parley.runWhen(runs[0]!.id)
      const calls = (await parley.app.domain.toolCalls.ofRuns([runs[0]!.id])).get(runs[0]!.id) ?? []
      expect(calls).toMatchObject([
        {},
        { status: 'FAILED', output: { error: { code: 'UNAVAILABLE' } } },
        { status: 'DONE', output: expect.stringContaining('A file of type application/zip') },
      ])
      expect(JSON.stringify(parley.models.requests.at(-1)?.messages)).toContain('was not stored')
      expect(await parley.messages(space.id)).toHaveLength(1)
      expect(await parley.app.platform.db.prisma.file.count()).toBe(0)
    } finally {
      s3.setDown(false)
      tool.close()
      await parley.close()
    }
  })

  test('a directory that is not writable: 503', async () => {
    const file = path.join(directory, 'a-file')
    await writeFile(file, '')
    await chmod(file, 0o600)
    const storage = openFileStorage(path.join(file, 'below'))
    await expect(storage.put('objects/aa/1', Buffer.from('x'))).rejects.toThrow(StorageUnavailableError)
    await expect(storage.identity()).rejects.toThrow(StorageUnavailableError)
  })

  test.runIf(hasPostgres)('processes that do not share PARLEY_FILES refuse uploads, and report why', async () => {
    const at = (name: string) => ({ settings: { PARLEY_FILES: path.join(directory, name) } })
    const one = await startApplication({ worker: false, isFresh: true, ...at('one') })
    const ada = await one.human('Ada')
    const uploadTo = ({ app }: typeof one) =>
      app.domain.files.upload(ada, { name: 'a', body: Readable.from([Buffer.from('a')]), bytes: 1 })
    await uploadTo(one)
    const shared = await startApplication({ worker: false, beside: one, ...at('one') })
    await uploadTo(shared)
    const apart = await startApplication({ worker: false, beside: one, ...at('two') })
    await expect(uploadTo(apart)).rejects.toThrow(/do not share PARLEY_FILES/)
    await expect(uploadTo(one)).rejects.toThrow(StorageUnavailableError)
    await apart.close()
    await uploadTo(one)
    await shared.close()
    await one.close()
  })
})
