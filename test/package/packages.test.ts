import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { createParleyClient } from '../support/parley-client.ts'
import { until } from '../support/until.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const MOST_MB = 260
/** The Node that runs the installed package. `PACKAGE_NODE` selects another one, such as the oldest that the package allows. */
const NODE = process.env['PACKAGE_NODE'] ?? process.execPath
const ADMIN_TOKEN = 'an-admin-token-for-tests-of-32-or-more'
const PATH = [path.dirname(NODE), path.join(ROOT, 'node_modules/.bin'), process.env['PATH']].join(path.delimiter)

/** The output of a program, and its exit code. */
interface Outcome {
  code: number
  stdout: string
  stderr: string
}

describe('the packages parley and parley-client, installed in an empty folder', () => {
  let folder: string
  let server: ChildProcess | null = null
  let installWarnings = ''
  let origin: string

  const environment = (settings: Record<string, string> = {}) => ({
    PATH,
    HOME: process.env['HOME'],
    PARLEY_ADMIN_TOKEN: ADMIN_TOKEN,
    DATA_DIR: path.join(folder, 'data'),
    ...settings,
  })

  function run(program: string, given: string[], settings?: Record<string, string>): Promise<Outcome> {
    return promisify(execFile)(program, given, { cwd: folder, env: environment(settings), maxBuffer: 2 ** 26 }).then(
      ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
      ({ code, stdout, stderr }: Outcome) => ({ code, stdout, stderr }),
    )
  }

  /** Runs the installed command `parley`. */
  const parley = (given: string[], settings?: Record<string, string>) =>
    run(path.join(folder, 'node_modules/.bin/parley'), given, settings)

  async function serve(): Promise<void> {
    const port = String(await freePort())
    origin = `http://127.0.0.1:${port}`
    const child = spawn(path.join(folder, 'node_modules/.bin/parley'), [], {
      cwd: folder,
      env: environment({ HOST: '127.0.0.1', PORT: port }),
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    server = child
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text))
    const isReady = () =>
      fetch(`${origin}/health/ready`).then(
        ({ ok }) => ok,
        () => false,
      )
    await until('the server is ready', async () => {
      if (child.exitCode !== null) throw new Error(`parley ended: ${output}`)
      return isReady()
    })
  }

  async function stop(): Promise<void> {
    if (server === null || server.exitCode !== null) return
    const closed = once(server, 'close')
    server.kill('SIGTERM')
    await closed
    server = null
  }

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'parley-packages-'))
    await writeFile(path.join(folder, 'package.json'), '{ "private": true, "type": "module" }')
    // Packing compiles the package with the Node of this clone.
    const packing = {
      env: { ...process.env, PATH: `${path.dirname(process.execPath)}${path.delimiter}${PATH}` },
      cwd: ROOT,
    }
    await promisify(execFile)('npm', ['pack', '--silent', '--pack-destination', folder], packing)
    await promisify(execFile)('npm', ['pack', './client', '--silent', '--pack-destination', folder], packing)
    const archives = globSync('*.tgz', { cwd: folder }).map((file) => `./${file}`)
    expect(archives).toHaveLength(2)
    const install = ['install', '--prefer-offline', '--no-audit', '--no-fund', ...archives]
    const { stderr } = await promisify(execFile)('npm', install, {
      cwd: folder,
      env: { ...process.env, PATH, NODE_ENV: '' },
    })
    installWarnings = stderr
  }, 300_000)
  afterAll(async () => {
    await stop()
    await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 })
  })

  test('install without a script of their own, and without an npm warning', () => {
    const { scripts } = JSON.parse(readFileSync(path.join(folder, 'node_modules/parley/package.json'), 'utf8'))
    const atInstall = Object.keys(scripts).filter((name) => /^(preinstall|install|postinstall|prepare)$/.test(name))
    expect(atInstall).toEqual([])
    expect(installWarnings).not.toContain('warn')
  })

  test(`take less than ${MOST_MB} MB, without the Prisma CLI, TypeScript, or compilers for other databases`, async () => {
    const { stdout } = await run('du', ['-sm', 'node_modules'])
    expect(Number.parseInt(stdout, 10)).toBeLessThan(MOST_MB)
    const modules = path.join(folder, 'node_modules')
    const names = ['prisma', '@prisma/client', '@prisma/studio-core', 'typescript', 'vite', 'react']
    expect(names.filter((name) => existsSync(path.join(modules, name)))).toEqual([])
    const compilers = globSync('**/*query_compiler*', { cwd: modules })
    expect(compilers.filter((file) => !file.includes('postgresql'))).toEqual([])
    expect(globSync('parley/**/*.ts', { cwd: modules })).toEqual(['parley/types/testing.d.ts'])
  })

  test('refuse unknown commands and options in one line before the usage', async () => {
    const { version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as { version: string }
    expect(await parley(['--version'])).toMatchObject({ code: 0, stdout: `${version}\n` })
    const { code, stderr } = await parley(['sreve'])
    expect(code).toBe(2)
    expect(stderr).toMatch(/^Unknown command: sreve\n\nusage: parley/)
  })

  test("migrate, serve the API and the console, seed, and serve a client's subscription", {
    timeout: 300_000,
  }, async () => {
    expect(await parley(['migrate'])).toMatchObject({
      code: 0,
      stdout: 'the pglite database is up to date with all migrations\n',
    })
    await serve()
    const page = await fetch(`${origin}/`, { headers: { accept: 'text/html' } })
    expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('<script type="module"')])

    const seeded = await parley(['seed', origin])
    expect(seeded).toMatchObject({ code: 0 })
    const spaceId = /space +(spc_\S+)/.exec(seeded.stdout)?.[1] ?? ''
    const token = /Ada's token +(\S+)/.exec(seeded.stdout)?.[1] ?? ''
    const ada = createParleyClient({ origin, token })
    const { data } = await ada.ask<{ space: { name: string } }>('query ($id: ID!) { space(id: $id) { name } }', {
      id: spaceId,
    })
    expect(data?.space.name).toBe('Demo')

    await writeFile(path.join(folder, 'subscriber.js'), SUBSCRIBER)
    const shown = await run(NODE, ['subscriber.js', origin, token, spaceId])
    expect(shown).toEqual({ code: 0, stdout: 'Good morning\n', stderr: '' })
    await until('the agents have answered', async () => {
      const answer = await ada.ask(
        'query ($id: ID!) { space(id: $id) { messages { edges { node { status outcomes { kind run { status } } } } } } }',
        {
          id: spaceId,
        },
      )
      const text = JSON.stringify(answer.data)
      return text.includes('COMPLETED') && !/"(QUEUED|RUNNING|STREAMING)"/.test(text)
    })
    await ada.close()
    await stop()

    const file = path.join(folder, 'demo.jsonl')
    expect(await parley(['export', spaceId, file])).toMatchObject({ code: 0 })
    expect(readFileSync(file, 'utf8')).toContain('Good morning')
    const elsewhere = { DATA_DIR: path.join(folder, 'elsewhere') }
    await mkdir(elsewhere.DATA_DIR)
    expect(await parley(['migrate'], elsewhere)).toMatchObject({ code: 0 })
    const imported = await parley(['import', file], elsewhere)
    expect(imported).toMatchObject({ code: 0, stdout: expect.stringContaining('spc_') })

    expect(await parley(['record', '--space', spaceId, '--out', 'room.jsonl'])).toMatchObject({ code: 0, stderr: '' })
    expect(await parley(['replay', 'room.jsonl'])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^room\.jsonl: equal \([1-9]/),
    })
    await writeFile(path.join(folder, 'room.test.js'), ROOM_TEST)
    expect(await run(NODE, ['--test', '--test-reporter=tap', 'room.test.js'])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/# pass 2\n# fail 0/),
    })
  })

  test('declare the types of parley/testing', { timeout: 120_000 }, async () => {
    await writeFile(path.join(folder, 'room.ts'), TYPED_TEST)
    const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', 'room.ts']
    const compiled = await run(path.join(ROOT, 'node_modules/.bin/tsc'), options)
    expect(compiled).toEqual({ code: 0, stdout: '', stderr: '' })
  })

  test('rotate secrets', async () => {
    const keys = {
      PARLEY_SECRET_KEY: 'a-new-key-of-32-characters-or-more',
      // The key that the first start has generated.
      PARLEY_SECRET_KEY_BEFORE: (await readFile(path.join(folder, 'data/secret-key'), 'utf8')).trim(),
    }
    expect(await parley(['rotate-secrets'], keys)).toMatchObject({
      code: 0,
      // The keys for push messages.
      stdout: expect.stringMatching(/^1 secrets/),
    })
  })
})

/** A test in a project that uses the package: one recording, and one file that cannot be replayed. */
const ROOM_TEST = `
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { openRecording, replay, UnusableRecordingError } from 'parley/testing'

test('the room still does what it did', async () => {
  const { isEqual, divergence, messages } = await replay('room.jsonl')
  assert.deepEqual([isEqual, divergence], [true, null])
  assert.ok(messages > 1)
})
test('a file that is no recording is refused', async () => {
  await assert.rejects(openRecording('package.json'), UnusableRecordingError)
})
`

/** The same test in TypeScript. */
const TYPED_TEST = `
import { type Divergence, openRecording, type Recording, replay } from 'parley/testing'

const recording: Recording = await openRecording('room.jsonl')
export const kind: Divergence['kind'] | undefined = (await replay(recording)).divergence?.kind
// @ts-expect-error a recording is a file, or was opened
await replay(1)
`

/** A front end without a framework, which posts a message and prints the events of the subscription. */
const SUBSCRIBER = `
import { createConnection, liveSpace } from 'parley-client'
import { createChatTransport } from 'parley-client/ai'

if (typeof createChatTransport !== 'function') throw new Error('parley-client/ai exports no transport')
const [origin, token, spaceId] = process.argv.slice(2)
const connection = createConnection({ url: origin, token })
const space = liveSpace(connection, { spaceId })
space.subscribe(() => {
  const text = space.getState().messages[0]?.parts[0]?.text
  if (text === undefined) return
  console.log(text)
  process.exit()
})
const body = JSON.stringify({
  query: 'mutation ($id: ID!) { sendMessage(input: { spaceId: $id, text: "Good morning" }) { __typename } }',
  variables: { id: spaceId },
})
await fetch(origin + '/graphql', {
  method: 'POST',
  headers: { 'content-type': 'application/json', authorization: 'Bearer ' + token },
  body,
})
`
