import { execFile, spawn } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { hasServices } from '../e2e/deployed.ts'
import { freePort } from '../support/free-port.ts'
import { dockerfile, healthCheck, image, imageCommand, imageEnv } from '../support/image.ts'
import { createParleyClient } from '../support/parley-client.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import { createEmptyDatabase, type TestDatabase } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const textOf = (file: string) => readFileSync(path.join(ROOT, file), 'utf8')

interface Service {
  image: string
  command?: string[]
  environment?: Record<string, string>
  env_file?: string
  depends_on?: Record<string, { condition: string }>
  healthcheck?: { test?: string[] }
  deploy?: { replicas: number }
  volumes?: string[]
}

/** The contents of an operator's `.env`. */
const ENV: Record<string, string> = {
  PARLEY_ADMIN_TOKEN: 'an-admin-token-for-tests-of-32-or-more',
  PARLEY_SECRET_KEY: 'a-secret-key-for-tests-of-32-or-more',
}

/** Interpolates variables as compose does. */
const filled = (text: string) =>
  text.replace(/\$\{(\w+):([?-])([^}]*)\}/g, (_, name: string, otherwise: string, rest: string) => {
    if (otherwise === '?' && ENV[name] === undefined) throw new Error(`${name}: ${rest}`)
    return ENV[name] ?? rest
  })
const written = parse(textOf('docker-compose.yml'), { merge: true }) as { services: Record<string, Service> }
const { services } = JSON.parse(JSON.stringify(written), (_, value) =>
  typeof value === 'string' ? filled(value) : value,
) as typeof written
/** A person uploads a file and posts a message at the first server, and reads the file and an agent's answer at the second. */
async function speakAndListen(first: string, second: string): Promise<void> {
  const admin = createParleyClient({ origin: first, token: ENV.PARLEY_ADMIN_TOKEN ?? '' })
  const ask = async <T>(field: string, selection: string, client = admin): Promise<T> => {
    const { data, errors } = await client.ask<Record<string, T>>(
      `mutation { ${field} { ... on Error { message } ${selection} } }`,
    )
    expect(errors).toBeUndefined()
    return Object.values(data ?? {})[0] as T
  }
  const { human } = await ask<{ human: { id: string } }>(
    'createHuman(input: { name: "Ada" })',
    '... on CreateHumanPayload { human { id } }',
  )
  const { agent } = await ask<{ agent: { id: string } }>(
    'createAgent(input: { name: "Iris", instructions: "Greet people." })',
    '... on CreateAgentPayload { agent { id } }',
  )
  const { secret } = await ask<{ secret: string }>(
    `createAccessToken(input: { grant: { humanId: "${human.id}" } })`,
    '... on CreateAccessTokenPayload { secret }',
  )
  const [here, there] = [first, second].map((origin) => createParleyClient({ origin, token: secret }))
  const { space } = await ask<{ space: { id: string } }>(
    `createSpace(input: { name: "Kitchen", memberIds: ["${agent.id}"] })`,
    '... on CreateSpacePayload { space { id } }',
    here,
  )
  const authorization = `Bearer ${secret}`
  const bytes = 'Shared by all processes.'
  const upload = await fetch(`${first}/files`, {
    method: 'POST',
    headers: { authorization, 'x-file-name': 'note.txt' },
    body: bytes,
  })
  expect(upload.status).toBe(201)
  const { id: fileId } = (await upload.json()) as { id: string }
  const download = await fetch(`${second}/files/${fileId}`, { headers: { authorization } })
  expect([download.status, await download.text()]).toEqual([200, bytes])
  const watch = `subscription ($id: ID!) { spaceMessages(spaceId: $id) { __typename
    ... on MessageFinished { message { sender { id } text } } } }`
  type Event = { spaceMessages: { __typename: string; message?: { sender: { id: string }; text: string } } }
  const seen = there!.subscribe<Event, object>({ toString: () => watch }, { id: space.id })
  await seen.first(() => true)
  await ask(
    `sendMessage(input: { spaceId: "${space.id}", text: "Hello!" })`,
    '... on SendMessagePayload { runs { id } }',
    here,
  )
  const answer = await seen.first(({ spaceMessages: { message } }) => message?.sender.id === agent.id)
  expect(answer.spaceMessages.message?.text).toBeTruthy()
  seen.stop()
  await Promise.all([admin, here, there].map((client) => client?.close()))
}

describe.runIf(hasServices)('docker compose up, its commands as processes', () => {
  let database: TestDatabase
  let redis: ReturnType<typeof spawn>
  let redisUrl: string
  let files: string
  const processes: Record<string, ParleyProcess[]> = {}

  /**
   * Returns the command and environment of a container of one of Parley's services. Only the hosts of the other services and
   * the path of the volume differ.
   */
  function containerOf(name: string): { command: string[]; settings: Record<string, string> } {
    const { command = imageCommand, environment = {} } = services[name] ?? {}
    const [program, ...given] = command
    expect(program).toBe('node')
    expect(environment).toMatchObject({
      DATABASE_URL: expect.stringContaining('@postgres:'),
      REDIS_URL: expect.stringContaining('//redis:'),
    })
    const { DATA_DIR: _, PORT: __, ...settings } = { ...imageEnv, ...environment }
    expect(services[name]?.volumes).toContain(`files:${settings['PARLEY_FILES']}`)
    const shared = { DATABASE_URL: database.url, REDIS_URL: redisUrl, PARLEY_FILES: files }
    const elsewhere = { ...shared, PARLEY_LOG_LEVEL: 'warn' }
    return { command: given, settings: { ...settings, ...elsewhere } }
  }

  beforeAll(async () => {
    database = await createEmptyDatabase()
    files = await mkdtemp(path.join(tmpdir(), 'parley-files-'))
    const port = await freePort()
    const [program = '', ...given] = services.redis?.command ?? []
    redis = spawn(program, [...given, '--port', String(port), '--bind', '127.0.0.1'], { stdio: 'ignore' })
    redisUrl = `redis://127.0.0.1:${port}`
    const [, ...look] = services.redis?.healthcheck?.test ?? []
    await until('Redis is healthy by its own check', () =>
      promisify(execFile)(look[0] ?? '', ['-p', String(port), ...look.slice(1)]).then(
        ({ stdout }) => stdout.includes('PONG'),
        () => false,
      ),
    )
    const migrate = containerOf('migrate')
    const env = { ...migrate.settings, PATH: process.env['PATH'] }
    const { stdout } = await promisify(execFile)(process.execPath, migrate.command, { cwd: ROOT, env })
    expect(stdout).toContain('is up to date with all migrations')
    for (const name of ['api', 'worker']) {
      expect(services[name]?.depends_on).toMatchObject({ migrate: { condition: 'service_completed_successfully' } })
      const { replicas = 1 } = services[name]?.deploy ?? {}
      processes[name] = await Promise.all(Array.from({ length: replicas }, () => startParley(containerOf(name))))
    }
  }, 180_000)
  afterAll(async () => {
    await Promise.all(
      Object.values(processes)
        .flat()
        .map((parley) => parley.stop()),
    )
    redis?.kill('SIGKILL')
    await database?.drop()
    await rm(files, { recursive: true, force: true })
  })

  test('a worker responds to a message that one API process receives, and the other API process shows the response', async () => {
    const [first, second] = (processes.api ?? []).map(({ origin }) => origin)
    await speakAndListen(first ?? '', second ?? '')
  })

  test('the image’s health check passes for each of them', async () => {
    const all = Object.values(processes).flat()
    expect(all).toHaveLength(4)
    for (const { origin } of all)
      await promisify(execFile)(process.execPath, healthCheck.slice(1), { env: { PORT: new URL(origin).port } })
  })
})

const docker = (...given: string[]) =>
  promisify(execFile)('docker', given, { cwd: ROOT, env: { ...process.env, ...ENV }, maxBuffer: 64 * 1024 * 1024 })
/**
 * Whether the machine has an engine that runs containers, and the compose plugin of its client. Many machines have only the
 * client.
 */
const hasEngine = await Promise.all([docker('info'), docker('compose', 'version')]).then(
  () => true,
  () => false,
)

describe.runIf(hasEngine)('docker compose up, on a Docker engine', () => {
  const compose = (...given: string[]) => docker('compose', '--project-name', `parley-test-${process.pid}`, ...given)
  beforeAll(() => compose('up', '--build', '--wait'), 1_200_000)
  afterAll(() => compose('down', '--volumes'), 120_000)

  test('a worker responds to a message that one port receives, and the other port shows the response', () =>
    speakAndListen('http://127.0.0.1:4000', 'http://127.0.0.1:4001'))
})

describe('the .env of an operator', () => {
  /** The variables that the compose file itself sets: the addresses of its services and containers. */
  const OWN = ['DATABASE_URL', 'REDIS_URL', 'HOST', 'PORT', 'DATA_DIR', 'PARLEY_ROLE']
  const documented = [...textOf('docs/settings.md').matchAll(/`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)`/g)].map(
    ([, name = '']) => name,
  )
  const settings = [...new Set(documented)].filter((name) =>
    /^(PARLEY|AUTH|OTEL|[A-Z]+_API)_|_URL$|^(PORT|HOST|DATA_DIR)$/.test(name),
  )

  test.each(['migrate', 'api', 'worker'])(
    'passes every documented setting to %s, and HOST and PORT stay the container’s',
    (name) => {
      expect(settings.length).toBeGreaterThan(50)
      const { env_file: file, environment = {} } = written.services[name] ?? {}
      expect(file).toBe('.env')
      const given = Object.fromEntries(settings.map((setting) => [setting, `value of ${setting}`]))
      const interpolated = Object.entries(environment).map(([setting, value]) => [
        setting,
        String(value).replace(/\$\{(\w+):[?-][^}]*\}/g, (_, asked: string) => given[asked] ?? ''),
      ])
      const received: Record<string, string> = { ...given, ...Object.fromEntries(interpolated) }
      expect(settings.filter((setting) => received[setting] !== given[setting] && !OWN.includes(setting))).toEqual([])
      expect(received).toMatchObject({ HOST: '0.0.0.0', PORT: '4000', DATA_DIR: '/data' })
    },
  )

  test('is created by the command of the README, as pasted, with everything that the compose file requires', async () => {
    const [, line = ''] = /^(printf .* > \.env)$/m.exec(textOf('README.md')) ?? []
    expect(textOf('docker-compose.yml')).toContain(line)
    const folder = await mkdtemp(path.join(tmpdir(), 'parley-compose-'))
    await promisify(execFile)('sh', ['-c', line], { cwd: folder })
    const made = Object.fromEntries(
      readFileSync(path.join(folder, '.env'), 'utf8')
        .trim()
        .split('\n')
        .map((pair) => pair.split('=')),
    )
    await rm(folder, { recursive: true })
    const required = [...textOf('docker-compose.yml').matchAll(/\$\{(\w+):\?/g)].map(([, name = '']) => name)
    expect(Object.keys(made)).toEqual(required)
    for (const value of Object.values(made)) expect(value).toMatch(/^[0-9a-f]{64}$/)
  })
})

test('the files that the image copies exist, and include everything that its commands run', () => {
  const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.*) \S+$/gm)].flatMap(([, files = '']) => files.split(' '))
  expect(copied.length).toBeGreaterThan(5)
  expect(copied.filter((file) => !existsSync(path.join(ROOT, file)))).toEqual([])
  const commands = [
    imageCommand,
    ...Object.values(services).flatMap(({ image: name, command }) => (name === 'parley' && command ? [command] : [])),
  ]
  const inImage = [...image.matchAll(/^COPY (?!--from)(.*) \S+$/gm)].flatMap(([, files = '']) => files.split(' '))
  const holds = (file: string) => inImage.some((one) => file === one || file.startsWith(`${one}/`))
  expect(commands.map(([, file = '']) => file).filter((file) => !holds(file))).toEqual([])
  // The scripts that docs/moving.md tells operators to run.
  for (const script of ['export', 'import', 'rotate-secrets', 'migrate'])
    expect(holds(`scripts/${script}.ts`)).toBe(true)
  const imported = globSync('scripts/{export,import,rotate-secrets,migrate}.ts', { cwd: ROOT }).flatMap((file) =>
    [...textOf(file).matchAll(/from '(\.[^']+)'/g)].map(([, target = '']) => path.join('scripts', target)),
  )
  expect(imported.filter((file) => !holds(file))).toEqual([])
})
