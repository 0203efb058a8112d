import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { compiled, projectWithClient } from './support/client-package.ts'
import { freePort } from './support/free-port.ts'
import { startTestServer, type TestServer } from './support/served.ts'

const ROOT = path.resolve(import.meta.dirname, '..')
const FRONT_ENDS = 'docs/front-ends.md'

/** Declarations that the snippets need. */
const GIVEN = `
declare const token: string
declare const spaceId: string
declare const connection: import('parley-client').Connection
declare function render(...shown: unknown[]): void
declare module '@ai-sdk/react' {
  function useChat(options: import('ai').ChatInit<import('ai').UIMessage>): void
}`

/** Returns the code blocks of a language on a page. */
function blocksOf(page: string, language: string): string[] {
  const text = readFileSync(path.join(ROOT, page), 'utf8')
  return [...text.matchAll(new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 'gs'))].map(([, block]) => block ?? '')
}

describe('the guide', () => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({ stack: 'embedded' })
  })
  afterAll(() => parley?.close())

  test.each(globSync('docs/guide/*.md', { cwd: ROOT }))(
    '%s has an example that prints the documented output',
    async (page) => {
      const [[example = '']] = [blocksOf(page, 'js')]
      const env = {
        PATH: process.env.PATH,
        PARLEY_URL: `${parley.origin}/graphql`,
        PARLEY_TOKEN: await parley.tokenOf(parley.admin),
      }
      const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', example], { env })
      expect(stdout).toBe(blocksOf(page, 'text')[0])
    },
  )

  test('docs/first-tool.md has a service and a script that prints the documented output', async () => {
    const page = 'docs/first-tool.md'
    const [service = '', script = ''] = blocksOf(page, 'js')
    const env = {
      PATH: process.env.PATH,
      PARLEY_URL: `${parley.origin}/graphql`,
      PARLEY_TOKEN: await parley.tokenOf(parley.admin),
      STOCK_PORT: String(await freePort()),
    }
    const run = (source: string) => ['--input-type=module', '-e', source]
    const stock = spawn(process.execPath, run(service), { env, stdio: ['ignore', 'pipe', 'inherit'] })
    try {
      await once(stock.stdout, 'data')
      const { stdout } = await promisify(execFile)(process.execPath, run(script), { env, timeout: 60_000 })
      expect(stdout).toBe(blocksOf(page, 'text')[0])
    } finally {
      stock.kill()
    }
  })

  describe('for front ends', () => {
    let folder: string
    let archive: string

    beforeAll(async () => {
      const beside = ['graphql-ws', 'graphql', 'react', '@types', 'ai']
      ;({ folder, archive } = await projectWithClient(beside))
    })
    afterAll(() => rm(folder, { recursive: true, force: true }))

    test('installs the packed client', () => {
      const [commands = ''] = blocksOf(FRONT_ENDS, 'sh')
      expect(commands.split('\n').map((line) => line.split(/ +/).at(-1))).toEqual([archive, `./${archive}`, ''])
    })

    test('has snippets that pass the type checker, like the README', async () => {
      const [plain, withJsx] = [blocksOf(FRONT_ENDS, 'ts'), blocksOf(FRONT_ENDS, 'tsx')]
      expect(plain.length + withJsx.length).toBe(blocksOf(FRONT_ENDS, '[a-z]+').length - 1)
      const ofReadme = blocksOf('README.md', 'tsx')
      expect(ofReadme).toHaveLength(1)
      const snippets = [...plain, ...withJsx, ...ofReadme].map((snippet, n) => [`snippet${n}.tsx`, snippet])
      expect(await compiled(folder, { 'given.d.ts': GIVEN, ...Object.fromEntries(snippets) }, ['node'])).toBe('')
    })

    test('begins with a snippet that shows a space and posts to it', async () => {
      const { human, space } = await parley.room()
      const [snippet = ''] = blocksOf(FRONT_ENDS, 'ts')
      const given = `
        const [token, spaceId] = process.argv.slice(1)
        const render = (name, parts) => name === 'Husam' && (console.log(parts[0].text), process.exit())`
      const script = `${given}\n${snippet.replace('http://localhost:4000', parley.origin)}`
      const { stdout } = await promisify(execFile)(
        process.execPath,
        ['--input-type=module', '-e', script, await parley.tokenOf(human), space.id],
        { cwd: folder, timeout: 60_000 },
      )
      expect(stdout).toBe('Hello! Who is here?\n')
    })
  })
})
