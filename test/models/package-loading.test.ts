import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const ROOT = path.resolve(import.meta.dirname, '../..')

/** Loads the whole application with all keys, uses one model, and prints which packages of providers have been loaded. */
const PROGRAM = `
  import { registerHooks } from 'node:module'
  const loaded = new Set()
  registerHooks({
    load(url, context, next) {
      const [, name] = /\\/@ai-sdk\\/(openai|openai-compatible|anthropic|google)\\/dist/.exec(url) ?? []
      if (name !== undefined) loaded.add(name)
      return next(url, context)
    },
  })
  await import('./src/app.ts')
  const { readConfig } = await import('./src/config.ts')
  const { createModelRegistry } = await import('./src/models/registry.ts')
  const registry = createModelRegistry({ providers: readConfig(process.env).modelProviders })
  const names = ['anthropic:claude-haiku-4-5', 'google:gemini-2.5-flash', 'groq:openai/gpt-oss-20b', 'openai:gpt-5-mini']
  const problems = names.map((name) => registry.check(name))
  const before = [...loaded]
  await registry.resolve(names[0])
  console.log(JSON.stringify({ problems, before, after: [...loaded] }))
`

test('the package of a provider with a key is not loaded until one of its models is used', async () => {
  const keys = ['ANTHROPIC_API_KEY', 'GEMINI_API_KEY', 'GROQ_API_KEY', 'OPENAI_API_KEY']
  const env = { PATH: process.env.PATH, ...Object.fromEntries(keys.map((name) => [name, 'sk-test'])) }
  const program = ['--input-type=module', '--eval', PROGRAM]
  const { stdout } = await promisify(execFile)(process.execPath, program, { cwd: ROOT, env })
  expect(JSON.parse(stdout)).toEqual({ problems: [null, null, null, null], before: [], after: ['anthropic'] })
})
