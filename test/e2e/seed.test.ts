import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { buildSchema, parse, validate } from 'graphql'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { createParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const SEED = path.join(ROOT, 'scripts/seed.ts')

describe('npm run seed', () => {
  let parley: TestServer
  let token: string

  beforeAll(async () => {
    parley = await startTestServer({ stack: 'embedded' })
    token = await parley.tokenOf(parley.admin)
  })
  afterAll(() => parley?.close())

  const seed = (...given: string[]) =>
    promisify(execFile)(process.execPath, [SEED, ...given], {
      cwd: ROOT,
      env: { PATH: process.env.PATH, PARLEY_ADMIN_TOKEN: token },
    })

  test.each(['', '/', '/graphql'])(
    'accepts a server’s address with “%s” after its origin, and creates the objects that it prints',
    async (after) => {
      const { stdout } = await seed(parley.origin + after)
      const spaceId = /space +(spc_\S+)/.exec(stdout)?.[1] ?? ''
      const secret = /Ada's token +(\S+)/.exec(stdout)?.[1] ?? ''
      const ada = createParleyClient({ origin: parley.origin, token: secret })
      const { data } = await ada.ask<{ space: { members: { name: string }[] } }>(
        `query ($id: ID!) { space(id: $id) { members { name } } }`,
        { id: spaceId },
      )
      expect(data?.space.members.map(({ name }) => name).sort()).toEqual(['Ada', 'Iris', 'Noor', 'Tom'])
      await ada.close()
      const operations = [...stdout.matchAll(/^ {2}((?:subscription|mutation) \{\n.*?^ {2}\})/gms)].map(
        ([, text = '']) => text,
      )
      const schema = buildSchema(readFileSync(path.join(ROOT, 'schema.graphql'), 'utf8'))
      expect(operations.map((operation) => validate(schema, parse(operation)))).toEqual([[], []])
      expect(operations[0]).toContain('offset')
    },
  )

  test.each([
    ['nonsense', 'nonsense is not a valid address'],
    ['http://127.0.0.1:PORT', 'no server responds at http://127.0.0.1:PORT/graphql: start Parley first'],
    ['ORIGIN/metrics', 'is not a GraphQL server'],
  ])('gives the reason of a refusal in a sentence: %s', async (address, sentence) => {
    const port = String(await freePort())
    const put = (text: string) => text.replace('PORT', port).replace('ORIGIN', parley.origin)
    const refused = await seed(put(address)).catch((failure) => failure)
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining(put(sentence)) })
    expect(refused.stderr.trim().split('\n')).toHaveLength(1)
  })
})
