import { execFile } from 'node:child_process'
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterEach, describe, expect, test } from 'vitest'
import { STACKS } from '../support/application.ts'
import { createParleyClient } from '../support/parley-client.ts'
import { startParley } from '../support/parley-process.ts'
import { createTestDataDirectory } from '../support/pglite.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { makeScratchFolder } from '../support/scratch.ts'
import type { Read } from '../support/stage.ts'
import { until } from '../support/until.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

describe.each(STACKS)('parley record on the %s stack', (stack) => {
  test('writes a recording that can be replayed, and exits with 2 and one line if it cannot', {
    timeout: 120_000,
  }, async () => {
    const { settings, folder } = await openFolders()
    const parley = (...given: string[]) =>
      promisify(execFile)(process.execPath, ['bin/parley.cjs', ...given], {
        cwd: ROOT,
        env: { PATH: process.env['PATH'], ...settings },
      }).then(
        ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
        ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) => ({ code, stdout, stderr }),
      )
    const server = await startParley({ settings })
    const admin = createParleyClient({ origin: server.origin, token: server.adminToken })
    closing.push(
      () => server.stop(),
      () => admin.close(),
    )
    const ask = async (operation: string) => {
      const { data, errors } = await admin.ask<Read>(operation)
      expect(errors).toBeUndefined()
      return Object.values(data as Record<string, Read>)[0]
    }
    const [husam, ada, gone] = [await person('Husam'), await agent('Ada'), await agent('Gone')]
    const [room, left] = [await space([husam, ada]), await space([husam, gone])]
    const { secret } = await ask(
      `mutation { createAccessToken(input: { grant: { humanId: "${husam}" } }) { ... on CreateAccessTokenPayload { secret } } }`,
    )
    const client = createParleyClient({ origin: server.origin, token: secret })
    closing.push(() => client.close())
    const said = await client.ask<Read>(`mutation { sendMessage(input: { spaceId: "${room}", text: "Hello." }) {
      ... on SendMessagePayload { runs { id } } } }`)
    const [{ id: runId }] = (said.data as Read).sendMessage.runs
    await until('the run is over', async () => (await ask(`{ run(id: "${runId}") { status } }`)).status === 'COMPLETED')
    await ask(`mutation { deleteAgent(input: { id: "${gone}" }) { __typename } }`)

    const out = path.join(folder, 'room.jsonl')
    const record = (id: string) => parley('record', '--space', id, '--out', out)
    await writeFile(out, 'an earlier recording')
    if (stack === 'embedded') {
      const { code, stderr } = await record(room)
      expect([code, stderr.trimEnd().split('\n').length]).toEqual([2, 1])
      await client.close()
      await admin.close()
      await server.stop()
    }
    const unknown = `spc_${'0'.repeat(32)}`
    expect(await record(unknown)).toEqual({ code: 2, stdout: '', stderr: `There is no space ${unknown}.\n` })
    expect(await record('room')).toEqual({ code: 2, stdout: '', stderr: 'There is no space room.\n' })
    expect(await readFile(out, 'utf8')).toBe('an earlier recording')
    expect(await readdir(folder)).toEqual(['room.jsonl'])

    expect(await record(room)).toEqual({ code: 0, stdout: '', stderr: '' })
    expect((await stat(out)).mode & 0o777).toBe(0o600)
    expect(await parley('replay', out)).toMatchObject({ code: 0, stdout: expect.stringContaining(': equal (') })

    const sentence = expect.stringMatching(/^[^\n]*cannot be replayed\. The agent "[^\n]+ was deleted or erased\.\n$/)
    expect(await record(left)).toEqual({ code: 2, stdout: '', stderr: sentence })
    expect(await parley('replay', out)).toEqual({ code: 2, stdout: '', stderr: sentence })
    expect(await readdir(folder)).toEqual(['room.jsonl'])

    async function person(name: string): Promise<string> {
      const { human } = await ask(
        `mutation { createHuman(input: { name: "${name}" }) { ... on CreateHumanPayload { human { id } } } }`,
      )
      return human.id
    }
    async function agent(name: string): Promise<string> {
      const created = await ask(`mutation { createAgent(input: { name: "${name}", instructions: "Help.", model: "demo",
        mind: STATELESS, toolset: ACTIVE_SPACE }) { ... on CreateAgentPayload { agent { id } } } }`)
      return created.agent.id
    }
    async function space(memberIds: string[]): Promise<string> {
      const created = await ask(`mutation { createSpace(input: { name: "Room", routing: BROADCAST,
        memberIds: ${JSON.stringify(memberIds)} }) { ... on CreateSpacePayload { space { id } } } }`)
      return created.space.id
    }
  })

  /** Returns the settings of the server and the commands, and an empty folder for recordings. */
  async function openFolders(): Promise<{ settings: Record<string, string>; folder: string }> {
    const data = await createTestDataDirectory()
    const folder = await makeScratchFolder('parley-record-')
    closing.push(data.remove, () => rm(folder, { recursive: true, force: true }))
    if (stack === 'embedded') return { settings: { DATA_DIR: data.path }, folder }
    const database = await createTestDatabase()
    closing.push(database.drop)
    return { settings: { DATA_DIR: data.path, DATABASE_URL: database.url }, folder }
  }
})
