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
    [
      'anthropic:claude-haiku-4-5',
      /PARLEY_DEFAULT_MODEL: the provider "anthropic" is not set up: set ANTHROPIC_API_KEY, or remove PARLEY_DEFAULT_MODEL and add the provider in the console under Models$/,
    ],
    ['google:gemini-2.5-flash', /: set GEMINI_API_KEY or GOOGLE_GENERATIVE_AI_API_KEY, or/],
    ['azure:my-deployment', /: set AZURE_API_KEY and AZURE_RESOURCE_NAME, or/],
    ['ollama:qwen3', /: set PARLEY_PROVIDERS='{ "ollama": {} }', or/],
    ['openai:gpt-5-mini', /PARLEY_DEFAULT_MODEL: needs OPENAI_API_KEY/],
    ['openai.chat:llama3.1:8b', /PARLEY_DEFAULT_MODEL: needs OPENAI_API_KEY/],
  ])('an unusable default model is an error: %s', (PARLEY_DEFAULT_MODEL, fault) => {
    expect(faultsOf({ PARLEY_DEFAULT_MODEL })).toEqual([expect.stringMatching(fault)])
  })

  test.each([
    ['demo', /^PARLEY_EMBEDDINGS: must be <provider>:<model>$/],
    ['claude:opus', /^PARLEY_EMBEDDINGS: there is no provider "claude" in PARLEY_PROVIDERS/],
    [
      'google:gemini-embedding-001',
      /: set GEMINI_API_KEY or GOOGLE_GENERATIVE_AI_API_KEY, or remove PARLEY_EMBEDDINGS$/,
    ],
    ['own:voyage-3', /^PARLEY_EMBEDDINGS: "own" has no embedding models: use a model of another provider$/],
  ])('an unusable embedding model is an error: %s', (PARLEY_EMBEDDINGS, fault) => {
    const PARLEY_PROVIDERS = JSON.stringify({ own: { api: 'anthropic', apiKey: 'a-key' } })
    expect(faultsOf({ PARLEY_EMBEDDINGS, PARLEY_PROVIDERS })).toEqual([expect.stringMatching(fault)])
  })

  test('a default model that agents can use is accepted', () => {
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
  ])('a single Redis and several nodes of a cluster are accepted: %s', (REDIS_URL) => {
    expect(readConfig({ REDIS_URL }).redisUrl).toBe(REDIS_URL)
  })

  test.each([
    'rediss://user:pass@redis:6380',
    'valkey://valkey:6379',
    'redis://:p%40ss@redis/1?family=6',
    'redis+sentinel://user:secret@a:26379,b:26379/1?name=mymaster&sentinel_username=u&sentinel_password=p',
    'rediss+sentinel://a,b',
  ])('TLS, Valkey and Sentinels are accepted: %s', (REDIS_URL) => {
    expect(readConfig({ REDIS_URL }).redisUrl).toBe(REDIS_URL)
  })

  test.each([
    ['redis://:100%sure@host', /^REDIS_URL: the password contains a % that does not begin an escape; write % as %25$/],
    ['redis+sentinel://a:1,b:2/0?sentinel_password=9%', /^REDIS_URL: the parameter sentinel_password contains a %/],
    ['redis://:pa/ss@host', /^REDIS_URL: must be a URL like .*; write special characters of a password as escapes/],
    ['redis://:12?34@host', /^REDIS_URL: must be a URL like/],
    ['redis://host/name', /^REDIS_URL: the path must be the number of a database, as in redis:\/\/host:6379\/0$/],
    [
      'redis+sentinel://a:26379/mymaster',
      /^REDIS_URL: the path must be .* redis\+sentinel:\/\/a:26379\/0\?name=mymaster$/,
    ],
    [
      'redis://host?ssl_cert_reqs=none',
      /^REDIS_URL: unknown parameter ssl_cert_reqs; the known parameters are family$/,
    ],
    ['redis+sentinel://', /^REDIS_URL: must be/],
    ['redis+sentinel://a:1?name=', /^REDIS_URL: the parameter name must be the name of the master$/],
    ['redis://host?family=5', /^REDIS_URL: the parameter family must be 0, 4 or 6$/],
    ['redis://a:7000,b:x', /^REDIS_URL: must be a URL like redis:\/\/host:6379, or redis:\/\/a:7000,b:7001/],
    ['redis://a:7000,', /^REDIS_URL: must be/],
    ['http://a:7000,b:7001', /^REDIS_URL: must be/],
    ['redis://a:7000,b:7001/1', /^REDIS_URL: names a database, but a cluster has only database 0/],
  ])('an invalid Redis URL is an error: %s', (REDIS_URL, fault) => {
    expect(faultsOf({ REDIS_URL })).toEqual([expect.stringMatching(fault)])
  })

  test.each([
    ['https://chat.example.com', 'https://chat.example.com'],
    ['https://chat.example.com/', 'https://chat.example.com'],
    ['HTTPS://Example.com:443/parley/', 'https://example.com/parley'],
    ['http://10.0.0.7:8080/a/b', 'http://10.0.0.7:8080/a/b'],
  ])('PARLEY_PUBLIC_URL %s is read as %s', (PARLEY_PUBLIC_URL, expected) => {
    expect(readConfig({ PARLEY_PUBLIC_URL }).publicUrl).toBe(expected)
  })

  test.each([
    'chat.example.com',
    'ftp://chat.example.com',
    'https://me:secret@chat.example.com',
    'https://chat.example.com/?a=b',
    'https://chat.example.com/#a',
    'https://chat.example.com//a',
    'https://chat.example.com/graphql',
  ])('an invalid PARLEY_PUBLIC_URL is an error: %s', (PARLEY_PUBLIC_URL) => {
    const faults = faultsOf({ PARLEY_PUBLIC_URL })
    expect(faults).toEqual([expect.stringMatching(/^PARLEY_PUBLIC_URL: must be a URL like https:\/\/chat/)])
    expect(faults.join()).not.toContain('secret')
  })

  test('variables that Kubernetes sets for a service called parley cause a warning and do not stop the start', () => {
    const { warnings } = readConfig({ PARLEY_PORT: 'tcp://10.0.0.7:4000', PARLEY_DELTAMS: '5', PARLEY_DELTA_MS: '5' })
    expect(warnings).toEqual(['PARLEY_DELTAMS: unknown setting', 'PARLEY_PORT: unknown setting'])
  })

  test('a short sign-in secret is accepted with a warning that does not contain it', () => {
    const { jwt, warnings } = readConfig({ AUTH_JWT_SECRET: 'short-word', PARLEY_SECRET_KEY: 'x'.repeat(32) })
    expect(jwt.secret).toBe('short-word')
    expect(warnings).toEqual([expect.stringMatching(/^AUTH_JWT_SECRET: has fewer than 32 characters/)])
    expect(warnings.join()).not.toContain('short-word')
  })

  describe('external sign-in', () => {
    const [secret, jwks] = [{ AUTH_JWT_SECRET: 'x'.repeat(32) }, { AUTH_JWKS_URL: 'https://id.example/keys' }]

    test('keys that also sign tokens for other applications require an audience', () => {
      const fault = /^AUTH_AUDIENCE: required with AUTH_JWKS_URL; without it, tokens for other apps are accepted/
      expect(faultsOf(jwks)).toEqual([expect.stringMatching(fault)])
      expect(faultsOf({ ...jwks, AUTH_ISSUER: 'https://id.example' })).toEqual([expect.stringMatching(fault)])
      // Compose passes unset variables as empty strings.
      expect(faultsOf({ ...jwks, AUTH_AUDIENCE: '' })).toEqual([expect.stringMatching(fault)])
      expect(faultsOf({ ...jwks, AUTH_ALLOW_UNBOUNDED: 'false' })).toEqual([expect.stringMatching(fault)])
      expect(faultsOf({ ...jwks, AUTH_AUDIENCE: 'parley' })).toEqual([])
      expect(faultsOf(secret)).toEqual([])
    })

    test.each([secret, jwks])('an unbounded setting is accepted with a warning: %o', (keys) => {
      const { jwt, warnings } = readConfig({ ...keys, AUTH_ALLOW_UNBOUNDED: 'true' })
      expect(jwt.allowUnbounded).toBe(true)
      expect(warnings).toEqual([
        'AUTH_ALLOW_UNBOUNDED: the server accepts JWTs that never expire or were issued for other apps',
      ])
    })

    test('without external sign-in there is no warning, and its other settings are refused', () => {
      expect(readConfig({ AUTH_ALLOW_UNBOUNDED: 'true' }).warnings).toEqual([])
      for (const name of ['AUTH_ISSUER', 'AUTH_AUDIENCE'])
        expect(faultsOf({ [name]: 'parley' })).toEqual([`${name}: needs AUTH_JWT_SECRET or AUTH_JWKS_URL`])
    })

    test('a secret and keys are mutually exclusive', () => {
      expect(faultsOf({ ...secret, ...jwks, AUTH_AUDIENCE: 'parley' })).toEqual([
        'AUTH_JWT_SECRET: set either AUTH_JWT_SECRET or AUTH_JWKS_URL, not both',
      ])
    })
  })
})
