import { execFile } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestServer, type TestServer } from './support/served.ts'

const ROOT = path.resolve(import.meta.dirname, '..')

/** The blocks of a language on a page. */
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

  test.each(globSync('docs/guide/*.md', { cwd: ROOT }))('%s has an example that prints what it says', async (page) => {
    const [[example = '']] = [blocksOf(page, 'js')]
    const env = {
      PATH: process.env.PATH,
      PARLEY_URL: `${parley.origin}/graphql`,
      PARLEY_TOKEN: await parley.tokenOf(parley.admin),
    }
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', example], { env })
    expect(stdout).toBe(blocksOf(page, 'text')[0])
  })
})
