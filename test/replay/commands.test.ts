import { execFile } from 'node:child_process'
import { readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { createParleyClient } from '../support/parley-client.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { edited } from '../support/recorded-rooms.ts'
import { makeScratchFolder } from '../support/scratch.ts'
import { until } from '../support/until.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const RUNS = `query ($id: ID!) { space(id: $id) { messages { edges { node { outcomes { run { status } } } } } } }`
const SEND = 'mutation ($id: ID!) { sendMessage(input: { spaceId: $id, text: "Good morning" }) { __typename } }'
const isOver = (status: string) => ['COMPLETED', 'FAILED', 'CANCELED'].includes(status)

interface Outcome {
  code: number
  stdout: string
  stderr: string
}

describe.each(RULE_STACKS)('a room of a started server, on the %s stack', (stack) => {
  let folder: string
  let database: TestDatabase | null = null
  let settings: Record<string, string>
  let server: ParleyProcess
  let spaceId: string
  let recording: string

  /** Runs `parley`. Only `record` gets the settings of the server. */
  const parley = (given: string[], env: Record<string, string> = {}): Promise<Outcome> =>
    promisify(execFile)(process.execPath, [path.join(ROOT, 'bin/parley.cjs'), ...given], {
      cwd: folder,
      env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...env },
    }).then(
      ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
      ({ code, stdout, stderr }: Outcome) => ({ code, stdout, stderr }),
    )
  const record = (...given: string[]) => parley(['record', ...given], settings)
  const file = (name: string) => path.join(folder, name)

  beforeAll(async () => {
    folder = await makeScratchFolder('parley-record-')
    database = stack === 'postgres' ? await createTestDatabase() : null
    settings = { DATA_DIR: file('data'), ...(database === null ? {} : { DATABASE_URL: database.url }) }
    recording = file('recordings/room.jsonl')
    server = await startParley({ settings })
    const seeded = await parley(['seed', server.origin], { PARLEY_ADMIN_TOKEN: server.adminToken })
    spaceId = /space +(spc_\S+)/.exec(seeded.stdout)?.[1] ?? ''
    const token = /Ada's token +(\S+)/.exec(seeded.stdout)?.[1] ?? ''
    const client = createParleyClient({ origin: server.origin, token })
    await client.ask(SEND, { id: spaceId })
    await until('the agents have answered', async () => {
      // biome-ignore lint/suspicious/noExplicitAny: an untyped document
      const { data } = await client.ask<any>(RUNS, { id: spaceId })
      const messages = data.space.messages.edges.map(
        ({ node }: { node: { outcomes: { run: { status: string } | null }[] } }) => node,
      )
      const statuses = messages.flatMap(({ outcomes }: { outcomes: { run: { status: string } | null }[] }) =>
        outcomes.flatMap(({ run }) => run?.status ?? []),
      )
      return messages.length > 1 && statuses.every(isOver)
    })
    await client.close()
  })
  afterAll(async () => {
    await server?.stop()
    await database?.drop()
    await rm(folder, { recursive: true, force: true })
  })

  test('is recorded, replayed and tested with a changed agent by commands, whose exit codes report the result', {
    timeout: 300_000,
  }, async () => {
    if (stack === 'embedded') {
      // The server has locked its data directory, so the command fails.
      const refused = await record('--space', spaceId, '--out', recording)
      expect(refused).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(/^[^\n]+\n$/) })
      await expect(readFile(recording)).rejects.toThrow('ENOENT')
      await server.stop()
    }
    expect(await record('--space', spaceId, '--out', recording)).toEqual({ code: 0, stdout: '', stderr: '' })
    const text = await readFile(recording, 'utf8')
    expect(text).toContain('Good morning')
    const unknown = await record('--space', `spc_${'0'.repeat(32)}`, '--out', file('none.jsonl'))
    expect(unknown).toMatchObject({ code: 2, stderr: expect.stringMatching(/^There is no space spc_0+\.\n$/) })
    expect(await record('--space', spaceId)).toMatchObject({ code: 2, stderr: expect.stringMatching(/^usage: /) })

    expect(await parley(['replay', recording])).toMatchObject({ code: 0, stdout: expect.stringContaining('equal (') })
    const planted = edited(text, ({ table, row }) => {
      if (table === 'Run' && row !== undefined) row['summary'] = 'planted'
    })
    await writeFile(file('planted.jsonl'), planted)
    await writeFile(file('cut.jsonl'), text.slice(0, -100))
    expect(await parley(['replay', file('planted.jsonl')])).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/different, first in: end\n.*recorded.*planted/s),
    })
    expect(await parley(['replay', recording, file('cut.jsonl')])).toMatchObject({
      code: 2,
      stdout: expect.stringContaining('equal ('),
      stderr: expect.stringContaining('truncated'),
    })

    const checks = (says: string) => JSON.stringify({ expect: { says: [{ agent: 'Iris', matches: says }] } })
    await writeFile(file('holds.json'), checks('.'))
    await writeFile(file('fails.json'), checks('no such words <&>'))
    await writeFile(file('iris.md'), 'Answer in one sentence.')
    const reports = ['--markdown', file('report.md'), '--junit', file('report.xml')]
    const change = ['--set', 'agent.iris.instructions=@iris.md']
    const holds = await parley(['backtest', recording, ...change, '--checks', file('holds.json'), ...reports])
    expect(holds).toMatchObject({ code: 0, stderr: '' })
    expect(await readFile(file('report.md'), 'utf8')).toBe(holds.stdout)
    expect(holds.stdout).toMatch(/^## Passed: .*\| Iris \| candidate \|.*- \[x\] expect\.says/s)
    expect(await readFile(file('report.xml'), 'utf8')).toMatch(/<testsuite [^>]*tests="3" failures="0">/)

    const fails = await parley([
      'backtest',
      recording,
      ...change,
      '--models',
      'recorded',
      '--checks',
      file('fails.json'),
      ...reports,
    ])
    expect(fails).toMatchObject({ code: 1, stdout: expect.stringContaining('- [ ] expect.says') })
    const junit = await readFile(file('report.xml'), 'utf8')
    expect(junit).toMatch(/tests="3" failures="1".*no such words &lt;&amp;&gt;.*<failure message="Found 0 times/s)

    for (const [given, reason] of [
      [[recording, '--set', 'agent.nobody.model=demo'], 'has no agent "nobody"'],
      [[recording, '--set', 'agent.iris.instructions=@nothing.md'], 'nothing.md'],
      [[recording, '--checks', recording], 'The checks are not JSON'],
      [[recording, '--models', 'some'], '--models'],
      [[file('cut.jsonl')], 'truncated'],
      [[file('none.jsonl')], 'cannot be read'],
    ] as [string[], string][]) {
      const { code, stderr, stdout } = await parley(['backtest', ...given])
      expect([code, stdout], stderr).toEqual([2, ''])
      expect(stderr).toMatch(/^[^\n]+\n$/)
      expect(stderr).toContain(reason)
    }
  })
})
