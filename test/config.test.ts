import { describe, expect, test } from 'vitest'
import { type ConfigError, readConfig } from '../src/config.ts'

function faultsOf(environment: Record<string, string>): string[] {
  try {
    readConfig(environment)
    return []
  } catch (error) {
    return (error as ConfigError).faults
  }
}

describe('the settings', () => {
  test.each([
    ['nonsense', /PARLEY_DEFAULT_MODEL: must be <provider>:<model> or demo/],
    ['openai:', /PARLEY_DEFAULT_MODEL: must be <provider>:<model> or demo/],
    ['claude:opus', /PARLEY_DEFAULT_MODEL: there is no provider "claude" in PARLEY_PROVIDERS/],
    ['openai:gpt-5-mini', /PARLEY_DEFAULT_MODEL: needs OPENAI_API_KEY/],
    ['openai.chat:llama3.1:8b', /PARLEY_DEFAULT_MODEL: needs OPENAI_API_KEY/],
  ])('a default model that no agent could have is a fault: %s', (PARLEY_DEFAULT_MODEL, fault) => {
    expect(faultsOf({ PARLEY_DEFAULT_MODEL })).toEqual([expect.stringMatching(fault)])
  })

  test('a default model that agents can have is taken', () => {
    const local = { PARLEY_DEFAULT_MODEL: 'openai.chat:llama3.1:8b', OPENAI_BASE_URL: 'http://127.0.0.1:11434/v1' }
    expect(readConfig(local).defaultModel).toBe('openai.chat:llama3.1:8b')
    expect(readConfig({ PARLEY_DEFAULT_MODEL: 'demo' }).defaultModel).toBe('demo')
    expect(readConfig({ OPENAI_API_KEY: 'sk-test' }).defaultModel).toBe('openai:gpt-5-mini')
  })

  test.each([
    'redis://localhost',
    'rediss://user:se%2Ccret@redis:6380/2',
    'redis://a:7000,b:7001,c:7002',
    'redis://:secret@[::1]:7000,10.0.0.1:7001/0',
  ])('one Redis, or several nodes of a cluster, are taken: %s', (REDIS_URL) => {
    expect(readConfig({ REDIS_URL }).redisUrl).toBe(REDIS_URL)
  })

  test.each([
    ['redis://a:7000,b:x', /^REDIS_URL: must be a URL like redis:\/\/host:6379, or redis:\/\/a:7000,b:7001/],
    ['redis://a:7000,', /^REDIS_URL: must be/],
    ['http://a:7000,b:7001', /^REDIS_URL: must be/],
    ['redis://a:7000,b:7001/1', /^REDIS_URL: names a database, but a cluster has only database 0/],
  ])('what is no Redis is a fault: %s', (REDIS_URL, fault) => {
    expect(faultsOf({ REDIS_URL })).toEqual([expect.stringMatching(fault)])
  })

  test('what Kubernetes sets beside a service called parley stops no start, and is warned of as a typing error would be', () => {
    const { warnings } = readConfig({ PARLEY_PORT: 'tcp://10.0.0.7:4000', PARLEY_DELTAMS: '5', PARLEY_DELTA_MS: '5' })
    expect(warnings).toEqual(['PARLEY_DELTAMS: unknown setting', 'PARLEY_PORT: unknown setting'])
  })

  test('a short secret of the sign-in is taken, and warned of without its value', () => {
    const { jwt, warnings } = readConfig({ AUTH_JWT_SECRET: 'short-word', PARLEY_SECRET_KEY: 'x'.repeat(32) })
    expect(jwt.secret).toBe('short-word')
    expect(warnings).toEqual([expect.stringMatching(/^AUTH_JWT_SECRET: has fewer than 32 characters/)])
    expect(warnings.join()).not.toContain('short-word')
  })

  describe('of who signs in elsewhere', () => {
    const [secret, jwks] = [{ AUTH_JWT_SECRET: 'x'.repeat(32) }, { AUTH_JWKS_URL: 'https://id.example/keys' }]

    test('keys that others sign with too need an audience, or tokens for other apps sign in', () => {
      const fault = /^AUTH_AUDIENCE: required with AUTH_JWKS_URL; without it, tokens for other apps are accepted/
      expect(faultsOf(jwks)).toEqual([expect.stringMatching(fault)])
      expect(faultsOf({ ...jwks, AUTH_ISSUER: 'https://id.example' })).toEqual([expect.stringMatching(fault)])
      // What compose passes on unset is empty.
      expect(faultsOf({ ...jwks, AUTH_AUDIENCE: '' })).toEqual([expect.stringMatching(fault)])
      expect(faultsOf({ ...jwks, AUTH_ALLOW_UNBOUNDED: 'false' })).toEqual([expect.stringMatching(fault)])
      expect(faultsOf({ ...jwks, AUTH_AUDIENCE: 'parley' })).toEqual([])
      expect(faultsOf(secret)).toEqual([])
    })

    test.each([secret, jwks])('what is let in without bounds is let in with a warning: %o', (keys) => {
      const { jwt, warnings } = readConfig({ ...keys, AUTH_ALLOW_UNBOUNDED: 'true' })
      expect(jwt.allowUnbounded).toBe(true)
      expect(warnings).toEqual([
        'AUTH_ALLOW_UNBOUNDED: the server accepts JWTs that never expire or were issued for other apps',
      ])
    })

    test('where nobody signs in elsewhere there is nothing to warn of, and nothing to be for', () => {
      expect(readConfig({ AUTH_ALLOW_UNBOUNDED: 'true' }).warnings).toEqual([])
      for (const name of ['AUTH_ISSUER', 'AUTH_AUDIENCE'])
        expect(faultsOf({ [name]: 'parley' })).toEqual([`${name}: needs AUTH_JWT_SECRET or AUTH_JWKS_URL`])
    })

    test('a secret and keys exclude each other', () => {
      expect(faultsOf({ ...secret, ...jwks, AUTH_AUDIENCE: 'parley' })).toEqual([
        'AUTH_JWT_SECRET: set either AUTH_JWT_SECRET or AUTH_JWKS_URL, not both',
      ])
    })
  })
})
