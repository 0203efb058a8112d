import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import pg from 'pg'
import sharp from 'sharp'
import { Webhook as Signer } from 'standardwebhooks'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { importSpace } from '../../src/operation/import.ts'
import { resealAll, SEALED } from '../../src/operation/key-rotation.ts'
import { exportSpace } from '../../src/operation/moving.ts'
import { createSecretBox } from '../../src/platform/secret-box.ts'
import { STACKS } from '../support/application.ts'
import { decidersOn } from '../support/decisions.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import { createTestDatabase, hasPostgres } from '../support/postgres.ts'
import { makeScratchFolder } from '../support/scratch.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { gate, sayIn } from '../support/space-tools.ts'
import { openStage, type Read, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const execute = promisify(execFile)

const WHOLE = `query ($id: ID!) {
  space(id: $id) { id name routing members { id kind name } messages { edges { node {
    id seq text status sender { id name } outcomes { kind agent { name } run { id } }
    parts { __typename ... on ToolCallPart { toolCall { toolName input output approval { state decisions { human { id name } approve reason } } } } }
    run { id status summary triggerSummary toolCalls { toolName input output } internals { steps { edges { node { index finishReason } } } } } } } } }
}`

const DELETE = 'mutation ($id: ID!) { deleteSpace(input: { id: $id }) { __typename } }'

async function textsOf(lines: AsyncIterable<string>): Promise<string[]> {
  const texts: string[] = []
  for await (const line of lines) texts.push(line)
  return texts
}

describe.each(STACKS)('a moved space, from the %s stack', (stack) => {
  let from: TestServer
  let to: TestServer
  let here: Stage
  let there: Stage

  beforeAll(async () => {
    from = await startTestServer({ stack })
    to = await startTestServer({ stack: 'embedded' })
    here = await openStage(from)
    there = await openStage(to)
  })
  afterAll(() => Promise.all([from?.close(), to?.close()]))

  test('has its members, messages, runs and journals after the move, and continues', async () => {
    const tool = {
      name: 'lookup',
      description: 'Looks up.',
      inputSchema: { type: 'object' },
      execution: 'HTTP',
      url: 'https://example.com',
      headers: { authorization: 'Bearer top-secret' },
    }
    const [husam, eve] = [await here.person('Husam'), await here.person('Eve')]
    const ada = await here.bot('Ada', { tools: [tool], instructions: 'Be Ada.' })
    const space = await here.space('Team', [husam, eve, ada])
    from.models.script(
      forAgent('Ada', steps([sayIn(space.id, 'Hello, Husam.')], [{ toolCall: 'getMyRuns' }], [{ text: 'Said.' }])),
    )
    await here.say(husam, space, 'Hello')
    await here.endedRuns(ada, 1)
    const held = gate()
    from.models.script(forAgent('Ada', () => [{ gate: held.promise }, { text: '' }]))
    await here.say(husam, space, 'Go on')
    await until('the second run is running', async () => (await here.runsOf(ada))[1]?.status === 'RUNNING')
    await from.app.domain.humans.update(from.admin, { id: eve.id, externalId: 'eve@example.com' })
    const eveThere = await to.app.domain.humans.create(to.admin, { name: 'Eve', externalId: 'eve@example.com' })

    const lines = await textsOf(exportSpace(from.app.platform, space.id))
    held.open()
    expect(lines.join('\n')).not.toMatch(/top-secret|v1\./)
    await importSpace(to.app.platform, ['', '> parley export', ...lines], { trustExternalIds: true })

    await here.endedRuns(ada, 2)
    const [before, after] = [
      await here.ask(here.admin, WHOLE, { id: space.id }),
      await there.ask(there.admin, WHOLE, { id: space.id }),
    ]
    const nodes = (whole: Read) => whole.messages.edges.map(({ node }: Read) => node)
    expect(nodes(after).slice(0, 2)).toEqual(nodes(before).slice(0, 2))
    expect(nodes(after)).toHaveLength(3)
    expect(after.members.map(({ id }: Read) => id)).toEqual([husam.id, eveThere.id, ada.id])
    expect((await there.runsOf(ada)).map(({ status }) => status)).toEqual(['COMPLETED', 'CANCELED'])

    const client = await to.clientOf({ scope: 'HUMAN', id: husam.id, tokenId: null, expiresAt: null })
    to.models.script(forAgent('Ada', steps([sayIn(space.id, 'Here, too.')], [{ text: '' }])))
    await there.say({ ...husam, client }, space, 'Are you there?')
    await there.endedRuns(ada, 3)
    expect((await there.messagesIn(space)).at(-1)).toMatchObject({ text: 'Here, too.', status: 'COMPLETE' })
    await expect(importSpace(to.app.platform, lines)).rejects.toThrow('already exists')
    await expect(importSpace(to.app.platform, ['{"a":1}'])).rejects.toThrow('not a space export')
  })

  test('has its files, with thumbnails and searchable texts, even if a file has many lines', async () => {
    const husam = await here.person('Husam')
    const space = await here.space('Album', [husam])
    const viewer = { scope: 'HUMAN', id: husam.id, tokenId: null, expiresAt: null } as const
    const picture = await sharp({ create: { width: 60, height: 40, channels: 3, background: '#0af' } })
      .png()
      .toBuffer()
    const long = Buffer.alloc(7 * 1024 * 1024, 'heron ')
    const fileIds: string[] = []
    for (const [name, bytes] of [
      ['blue.png', picture],
      ['long.txt', long],
    ] as const) {
      const input = { name, body: Readable.from([bytes]), bytes: bytes.byteLength }
      fileIds.push((await from.app.domain.files.upload(viewer, input)).id)
    }
    await from.app.domain.sending.send(viewer, { spaceId: space.id, text: 'Look', fileIds })
    const lines = await textsOf(exportSpace(from.app.platform, space.id))
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(5 * 1024 * 1024)
    const dry = await importSpace(to.app.platform, lines, { dryRun: true })
    expect(dry.counts.File).toBe(2)
    expect((await importSpace(to.app.platform, lines)).counts.File).toBe(2)
    const client = await to.clientOf(viewer)
    const FILES = `query ($id: ID!) { space(id: $id) { files(first: 10) { edges { node { id name mediaType size width height url thumbnailUrl } } } } }`
    const { data } = await client.ask<Read>(FILES, { id: space.id })
    const files = data?.space.files.edges.map(({ node }: Read) => node)
    expect(files.map(({ id }: Read) => id).toSorted()).toEqual(fileIds.toSorted())
    const [image, text] = ['blue.png', 'long.txt'].map((name) => files.find((file: Read) => file.name === name))
    expect(image).toMatchObject({ mediaType: 'image/png', width: 60, height: 40, thumbnailUrl: expect.anything() })
    const load = async (url: string) => Buffer.from(await (await fetch(new URL(url, to.origin))).arrayBuffer())
    expect((await load(image.url)).equals(picture)).toBe(true)
    expect((await load(text.url)).equals(long)).toBe(true)
    const search = `{ search(query: "heron") { edges { node { file { id } } } } }`
    expect((await client.ask<Read>(search, {})).data?.search.edges).toEqual([{ node: { file: { id: text.id } } }])
  })

  test('returns to the server where it was deleted, even if it was confidential and one of its rows remains there', async () => {
    const husam = await here.person('Husam')
    const diary = await here.space('Diary', [husam], { routing: 'BROADCAST', confidential: true })
    await here.say(husam, diary, 'Just for me.')
    const lines = await textsOf(exportSpace(from.app.platform, diary.id))
    await here.ask(here.admin, DELETE, { id: diary.id })
    await importSpace(from.app.platform, lines)
    expect((await here.messagesIn(diary)).map(({ text }) => text)).toEqual(['Just for me.'])
    await expect(importSpace(from.app.platform, lines)).rejects.toThrow('already exists')
  })

  test('keeps the decisions of people and their names', async () => {
    const [husam, dora] = [await here.person('Husam'), await here.person('Dora')]
    const pay = {
      name: 'pay',
      description: 'Pays.',
      inputSchema: { type: 'object' },
      execution: 'INTERNAL',
      visible: true,
      approval: { approverIds: [dora.id] },
    }
    const bob = await here.bot('Bob', { toolset: 'ACTIVE_SPACE', tools: [pay] })
    const space = await here.space('Till', [husam, bob])
    from.models.script(forAgent('Bob', steps([{ toolCall: 'pay', input: {} }], [{ text: '' }])))
    await here.say(husam, space, 'Pay')
    const deciders = decidersOn(here)
    const { id } = await deciders.asked(dora)
    await deciders.decide(dora, id, true, { reason: 'It is due.' })
    await here.endedRuns(bob, 1)
    await importSpace(to.app.platform, exportSpace(from.app.platform, space.id))
    const { messages } = await there.ask(there.admin, WHOLE, { id: space.id })
    const [call] = messages.edges.flatMap(({ node }: Read) =>
      node.parts.flatMap(({ toolCall }: Read) => toolCall ?? []),
    )
    expect(call.approval).toEqual({
      state: 'APPROVED',
      decisions: [{ human: { id: dora.id, name: 'Dora' }, approve: true, reason: 'It is due.' }],
    })
  })
})

describe('an embedded server that is stopped', () => {
  test('exports a space by commands, and another server imports it', async () => {
    const folder = await makeScratchFolder('parley-moving-')
    const file = path.join(folder, 'team.jsonl')
    const at = (name: string) => ({
      ...process.env,
      DATA_DIR: path.join(folder, name),
      DATABASE_URL: '',
      REDIS_URL: '',
    })
    const server = await startTestServer({
      stack: 'embedded',
      worker: false,
      settings: { DATA_DIR: path.join(folder, 'here') },
    })
    const stage = await openStage(server)
    const husam = await stage.person('Husam')
    const space = await stage.space('Team', [husam])
    await stage.say(husam, space, 'Hello')
    await server.close()
    await execute('node', ['scripts/export.ts', space.id, file], { env: at('here') })
    expect(await readFile(file, 'utf8')).toContain('"Hello"')
    const named = path.join(folder, 'named.jsonl')
    await execute('node', ['bin/parley.cjs', 'export', '--space', space.id, '--out', named], { env: at('here') })
    expect(await readFile(named, 'utf8')).toContain('"Hello"')
    const { stdout } = await execute('node', ['scripts/import.ts', file], { env: at('there') })
    expect(stdout).toContain(`imported ${space.id}: {"Entity":1,"Space":1,"Message":1,"Membership":1}`)
    const fails = async (script: string, args: string[]): Promise<string> => {
      const failure = await execute('node', [`scripts/${script}.ts`, ...args], { env: at('here') }).then(
        () => null,
        (error: Read) => error,
      )
      expect(failure?.code).toBe(1)
      return failure.stderr
    }
    expect(await fails('export', ['spc_unknown'])).toBe('There is no space spc_unknown.\n')
    for (const args of [[], ['--all'], ['a', 'b', 'c'], ['--space', 'a', 'b', 'c']])
      expect(await fails('export', args)).toMatch(/^[^\n]*usage: [^\n]*\n$/)
    for (const args of [['--dry'], ['--dry-run=5'], ['a', 'b']])
      expect(await fails('import', args)).toMatch(/^[^\n]+usage: [^\n]*--dry-run[^\n]*\n$/)
    expect(await fails('import', [path.join(folder, 'none.jsonl')])).toMatch(/^[^\n]*none\.jsonl[^\n]*\n$/)
    expect(await fails('import', [file])).toBe(`The space ${space.id} already exists: delete it first (deleteSpace).\n`)
    expect(await fails('rotate-secrets', ['now'])).toMatch(/^usage: [^\n]*\n$/)
    const dry = await execute('node', ['scripts/import.ts', '--dry-run', file], { env: at('elsewhere') })
    expect(dry.stdout).toContain(
      `would import ${space.id}: {"Entity":1,"Space":1,"Message":1,"Membership":1}\nnothing was written`,
    )
    expect((await execute('node', ['scripts/import.ts', file], { env: at('elsewhere') })).stdout).toContain('imported')
  })
})

describe.skipIf(!hasPostgres)('on PostgreSQL', () => {
  test('a dump of a running server can be restored into an empty database, and work continues there', async () => {
    const parley = await startTestServer({ stack: 'postgres' })
    const stage = await openStage(parley)
    const husam = await stage.person('Husam')
    const ada = await stage.bot('Ada', { maxConcurrentRuns: 1 })
    const space = await stage.space('Team', [husam, ada])
    const held = gate()
    parley.models.script(forAgent('Ada', () => [{ gate: held.promise }, { text: '' }]))
    await stage.say(husam, space, 'One')
    await until('a run is running', () => parley.models.requests.length > 0)
    await stage.say(husam, space, 'Two')

    const restored = await createTestDatabase()
    const client = new pg.Client({ connectionString: restored.url })
    await client.connect()
    await client.query('DROP SCHEMA public CASCADE; DROP SCHEMA IF EXISTS pgboss CASCADE; CREATE SCHEMA public')
    await client.end()
    const file = path.join(await makeScratchFolder('parley-dump-'), 'parley.dump')
    await execute('pg_dump', ['--format=custom', `--file=${file}`, parley.stores.settings['DATABASE_URL'] ?? ''])
    held.open()
    await stage.endedRuns(ada, 2)
    await execute('pg_restore', [
      '--no-owner',
      '--no-privileges',
      '--clean',
      '--if-exists',
      `--dbname=${restored.url}`,
      file,
    ])
    await parley.close()

    const again = await startTestServer({ stack: 'embedded', settings: { DATABASE_URL: restored.url } })
    const onceMore = await openStage(again)
    again.models.script(() => [{ text: 'Done.' }])
    expect(await onceMore.endedRuns(ada, 2)).toMatchObject([{ status: 'COMPLETED' }, { status: 'COMPLETED' }])
    expect((await onceMore.messagesIn(space)).map(({ text }) => text)).toEqual(['One', 'Two'])
    await again.close()
    await restored.drop()
  })
})

describe('the key that encrypts secrets', () => {
  const [OLD, NEW] = ['the-old-secret-key-of-32-characters', 'the-new-secret-key-of-32-characters']

  test('covers every column that holds encrypted data', async () => {
    const schema = await readFile('prisma/schema.prisma', 'utf8')
    const models = [...schema.matchAll(/^model (\w+) \{(.*?)^\}/gms)]
    const columns = models.flatMap(([, table, body = '']) =>
      [...body.matchAll(/^ {2}(sealed|\w+Sealed)\b/gm)].map(([, column]) => `${table}.${column}`),
    )
    expect(SEALED.map(({ table, column }) => `${table}.${column}`).toSorted()).toEqual(columns.toSorted())
  })

  test('can be rotated: for a while both keys decrypt, then all data is encrypted with the new key', async () => {
    const parley = await startTestServer({ stack: 'embedded', worker: false, settings: { PARLEY_SECRET_KEY: OLD } })
    const { domain, platform } = parley.app
    const { id: agentId } = await parley.agent('Ada', {
      tools: [
        {
          name: 'lookup',
          description: 'Looks up.',
          inputSchema: { type: 'object' },
          execution: 'HTTP',
          url: 'https://example.com',
          headers: { a: 'b' },
        },
      ],
    })
    const { webhook, secret } = await domain.webhooks.create(parley.admin, { agentId, serviceName: 'Jira' })
    await domain.webhooks.rotateSecret(parley.admin, { id: webhook.id, graceSeconds: 60 })
    const sealed = async () =>
      (await platform.db.prisma.webhook.findUniqueOrThrow({ where: { id: webhook.id } })).oldSecretSealed ?? ''
    const both = createSecretBox(NEW, OLD)
    expect(both.open(await sealed(), webhook.id)).toBe(secret)
    expect(() => createSecretBox(NEW).open('v1.x')).toThrow('PARLEY_SECRET_KEY')
    expect(await resealAll(platform.db, both)).toEqual({ rotated: 4, failed: [] })
    expect(createSecretBox(NEW).open(await sealed(), webhook.id)).toBe(secret)
    const tool = await platform.db.prisma.agentTool.findFirstOrThrow({ where: { agentId } })
    expect(createSecretBox(NEW).open(tool.headersSealed ?? '', `tool:${agentId}:lookup`)).toBe('{"a":"b"}')
    await parley.close()
  })

  test('is rotated even if a secret cannot be decrypted: the command lists its row and rotates the others', async () => {
    const DATA_DIR = await makeScratchFolder('parley-rotation-')
    const settings = { DATA_DIR, PARLEY_SECRET_KEY: OLD }
    const parley = await startTestServer({ stack: 'embedded', worker: false, settings })
    const headers = { authorization: 'Bearer top-secret' }
    const tool = {
      description: 'd',
      inputSchema: { type: 'object' },
      execution: 'HTTP' as const,
      url: 'https://example.com',
    }
    const tools = ['first', 'second', 'third'].map((name) => ({ name, headers, ...tool }))
    const agents = [await parley.agent('Ada', { tools }), await parley.agent('Bob', { tools })]
    const { prisma } = parley.app.platform.db
    const [broken] = agents.map(({ id }) => id).toSorted()
    await prisma.agentTool.updateMany({
      where: { agentId: broken ?? '', name: 'first' },
      data: { headersSealed: 'v1.top-secret' },
    })
    await prisma.agentTool.updateMany({ where: { agentId: broken ?? '', name: 'second' }, data: { headersSealed: '' } })
    await parley.close()
    const env = {
      ...process.env,
      DATA_DIR,
      DATABASE_URL: '',
      REDIS_URL: '',
      PARLEY_SECRET_KEY: NEW,
      PARLEY_SECRET_KEY_BEFORE: OLD,
    }
    const run = () => execute('node', ['scripts/rotate-secrets.ts'], { env })
    for (const _ of ['once', 'again']) {
      const failure = await run().then(
        () => null,
        (error: Read) => error,
      )
      expect(failure).toMatchObject({ code: 1, stdout: '5 secrets are encrypted with the new key\n' })
      expect(failure.stderr).toContain(`AgentTool ${broken}:first headersSealed: `)
      expect(failure.stderr).toContain(`AgentTool ${broken}:second headersSealed: `)
      expect(failure.stderr).toContain('2 secrets were not rotated: set them again')
      expect(failure.stderr).not.toContain('top-secret')
    }
    const again = await startTestServer({
      stack: 'embedded',
      worker: false,
      settings: { DATA_DIR, PARLEY_SECRET_KEY: NEW },
    })
    const rows = await again.app.platform.db.prisma.agentTool.findMany()
    const box = createSecretBox(NEW)
    const opened = rows.filter(({ agentId, name, headersSealed }) => {
      try {
        return box.open(headersSealed ?? '', `tool:${agentId}:${name}`) === JSON.stringify(headers)
      } catch {
        return false
      }
    })
    expect(opened).toHaveLength(4)
    await again.close()
  })

  test('can be rotated by the steps of docs/moving.md, with the webhook’s secret valid all the time', async () => {
    const DATA_DIR = await makeScratchFolder('parley-rotation-')
    const whileServed = async <T>(settings: Record<string, string>, work: (server: TestServer) => Promise<T>) => {
      const server = await startTestServer({ stack: 'embedded', worker: false, settings: { DATA_DIR, ...settings } })
      const result = await work(server)
      await server.close()
      return result
    }
    const delivered = (settings: Record<string, string>) =>
      whileServed(settings, async ({ origin }) => {
        const [id, sentAt] = [newId('msg'), new Date()]
        const headers = {
          'webhook-id': id,
          'webhook-timestamp': String(Math.floor(sentAt.getTime() / 1000)),
          'webhook-signature': new Signer(made.secret).sign(id, sentAt, '{}'),
        }
        return (await fetch(`${origin}/hooks/agents/${made.webhook.id}`, { method: 'POST', headers, body: '{}' })).ok
      })
    const made = await whileServed({ PARLEY_SECRET_KEY: OLD }, async (server) => {
      const { id: agentId } = await server.agent('Ada')
      return server.app.domain.webhooks.create(server.admin, { agentId, serviceName: 'Jira' })
    })
    const exchanged = { PARLEY_SECRET_KEY: NEW, PARLEY_SECRET_KEY_BEFORE: OLD }
    expect(await delivered({ PARLEY_SECRET_KEY: OLD, PARLEY_SECRET_KEY_BEFORE: NEW })).toBe(true)
    expect(await delivered(exchanged)).toBe(true)
    const env = { ...process.env, DATA_DIR, DATABASE_URL: '', REDIS_URL: '', ...exchanged }
    for (const _ of ['once', 'again']) {
      const { stdout } = await execute('node', ['scripts/rotate-secrets.ts'], { env })
      expect(stdout).toBe('2 secrets are encrypted with the new key\n')
    }
    expect(await delivered({ PARLEY_SECRET_KEY: NEW })).toBe(true)
  })
})
