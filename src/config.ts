import { z } from 'zod'

export type { ModelProviderSettings } from './config/model-providers.ts'

import type { ModelProviderSettings, ReadProviders } from './config/model-providers.ts'
import { baseUrl, readModelProviders } from './config/model-providers.ts'
import { parseModelName } from './lib/model-name.ts'
import { redisNodesOf } from './lib/redis-url.ts'

/** Everything that can be set from outside, checked. Made once at the start; nothing else reads the environment. */
export interface Config {
  port: number
  host: string
  databaseUrl: string | null
  redisUrl: string | null
  dataDirectory: string
  adminToken: string | null
  role: 'all' | 'api' | 'worker'
  workerConcurrency: number
  /** Those of PARLEY_PROVIDERS, then OpenAI's; the built-in `demo` is none of them. */
  modelProviders: ModelProviderSettings[]
  defaultModel: string
  jwt: { secret: string | null; jwksUrl: string | null; issuer: string | null; audience: string | null }
  secretKey: string | null
  allowPrivateTools: boolean
  allowedOrigins: string[]
  deltaMs: number
  limits: Limits
  /** Where traces go, by OpenTelemetry's standard variables; null for nowhere. */
  telemetry: TelemetrySettings | null
  logLevel: string
  /** What is usable and may not be meant, a line each, for the log. None has a setting's value. */
  warnings: string[]
}

/** The product's bounds, in the units of their names. */
export interface Limits {
  maxRunSeconds: number
  /** How long a model may send nothing before it has failed. */
  modelSilenceSeconds: number
  /** Between two think cycles in a row of one agent. */
  cycleRestMs: number
  toolWaitSeconds: number
  maxChainDepth: number
  maxRootRuns: number
  maxReplyStack: number
  historyLimit: number
  maxSocketsPerViewer: number
}

/** Where traces go, by the standard variables of OpenTelemetry. */
export interface TelemetrySettings {
  /** OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, else OTEL_EXPORTER_OTLP_ENDPOINT with `/v1/traces`. */
  url: string
  /** OTEL_EXPORTER_OTLP_HEADERS and its variant for traces. */
  headers: Record<string, string>
  /** OTEL_SERVICE_NAME */
  serviceName: string
  /** OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: whether what goes in and out of tools is exported too. */
  capturesContent: boolean
}

/** The settings are unusable. `faults` has one line for each, with the variable's name and never its value. */
export class ConfigError extends Error {
  readonly faults: string[]
  constructor(faults: string[]) {
    super(`The settings are unusable:\n${faults.map((fault) => `  ${fault}`).join('\n')}`)
    this.name = 'ConfigError'
    this.faults = faults
  }
}

const text = z.string().min(1).optional()
const integer = (least: number, most: number, fallback: number) =>
  z
    .string()
    .regex(/^\d+$/, 'must be a whole number')
    .transform(Number)
    .refine((value) => value >= least && value <= most, `must be between ${least} and ${most}`)
    .default(fallback)
const url = (...protocols: string[]) =>
  z
    .string()
    .refine((value) => URL.canParse(value) && protocols.includes(new URL(value).protocol), {
      message: `must be a URL that begins with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}`,
    })
    .optional()
const REDIS_PROTOCOLS = ['redis:', 'rediss:', 'valkey:', 'valkeys:']
/** One node, or several of a cluster, which share what stands before and behind them. */
const redisUrl = z
  .string()
  .refine((value) => redisNodesOf(value).every(isRedis), {
    message: 'must be a URL like redis://host:6379, or redis://a:7000,b:7001 for a cluster',
  })
  .refine((value) => redisNodesOf(value).length === 1 || redisNodesOf(value).every(hasNoDatabase), {
    message: 'names a database, and a cluster has none but 0',
  })
  .optional()
const isRedis = (node: string, _: number, all: string[]) =>
  URL.canParse(node) &&
  REDIS_PROTOCOLS.includes(new URL(node).protocol) &&
  (all.length === 1 || new URL(node).hostname !== '')
const hasNoDatabase = (node: string) => !URL.canParse(node) || ['', '/', '/0'].includes(new URL(node).pathname)
const boolean = z
  .enum(['true', 'false'], 'must be true or false')
  .transform((value) => value === 'true')
  .default(false)
const origins = z
  .string()
  .transform((value) =>
    value
      .split(',')
      .map((origin) => origin.trim().replace(/\/$/, ''))
      .filter(Boolean),
  )
  .refine((list) => list.every((origin) => URL.canParse(origin) && new URL(origin).origin === origin), {
    message: 'must be origins like https://app.example.com, separated by commas',
  })
  .default([])

/** `name=value,name=value`, the values percent-encoded: as OpenTelemetry's specification says. */
const headers = z
  .string()
  .transform((value) => value.split(',').map((pair) => pair.split('=')))
  .refine((pairs) => pairs.every(([name = '', ...value]) => name.trim() !== '' && value.length > 0), {
    message: 'must be name=value pairs, separated by commas',
  })
  .transform((pairs) => pairs.map(([name = '', ...value]) => [name.trim(), decoded(value.join('=').trim())]))
  .transform((pairs): Record<string, string> => Object.fromEntries(pairs))
  .optional()

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const VARIABLES = z.object({
  PORT: integer(0, 65_535, 4000),
  HOST: z.string().min(1).default('127.0.0.1'),
  DATABASE_URL: url('postgres:', 'postgresql:'),
  REDIS_URL: redisUrl,
  DATA_DIR: z.string().min(1).default('.parley'),
  PARLEY_ADMIN_TOKEN: z.string().min(32, 'must have 32 characters or more').optional(),
  PARLEY_ROLE: z.enum(['all', 'api', 'worker'], 'must be all, api or worker').default('all'),
  PARLEY_WORKER_CONCURRENCY: integer(1, 10_000, 50),
  OPENAI_API_KEY: text,
  OPENAI_BASE_URL: baseUrl.optional(),
  /** Read by readModelProviders. */
  PARLEY_PROVIDERS: text,
  PARLEY_DEFAULT_MODEL: z
    .string()
    .refine((name) => parseModelName(name) !== null, 'must be <provider>:<model> or demo')
    .optional(),
  AUTH_JWT_SECRET: text,
  AUTH_JWKS_URL: url('http:', 'https:'),
  AUTH_ISSUER: text,
  AUTH_AUDIENCE: text,
  PARLEY_SECRET_KEY: text,
  PARLEY_ALLOW_PRIVATE_TOOLS: boolean,
  PARLEY_ALLOWED_ORIGINS: origins,
  PARLEY_DELTA_MS: integer(0, 1000, 25),
  PARLEY_MAX_RUN_SECONDS: integer(1, 86_400, 1800),
  PARLEY_MODEL_SILENCE_SECONDS: integer(1, 3600, 60),
  PARLEY_CYCLE_REST_MS: integer(0, 60_000, 300),
  PARLEY_TOOL_WAIT_SECONDS: integer(1, 86_400, 600),
  PARLEY_MAX_CHAIN_DEPTH: integer(1, 1000, 10),
  PARLEY_MAX_ROOT_RUNS: integer(1, 100_000, 50),
  PARLEY_MAX_REPLY_STACK: integer(1, 100, 5),
  PARLEY_HISTORY_LIMIT: integer(1, 100, 50),
  PARLEY_MAX_SOCKETS_PER_VIEWER: integer(1, 1_000_000, 5000),
  OTEL_EXPORTER_OTLP_ENDPOINT: url('http:', 'https:'),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: url('http:', 'https:'),
  OTEL_EXPORTER_OTLP_HEADERS: headers,
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: headers,
  OTEL_SERVICE_NAME: z.string().min(1).default('parley'),
  OTEL_SDK_DISABLED: text,
  OTEL_TRACES_EXPORTER: text,
  OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: text,
  PARLEY_LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
})

type Variables = z.infer<typeof VARIABLES>

/** Settings of which one alone is not enough, or two exclude each other. */
function combinedFaults(
  set: Record<string, string | undefined>,
  { providers, faults: badProviders }: ReadProviders,
): string[] {
  const faults: string[] = []
  if (set.AUTH_JWT_SECRET && set.AUTH_JWKS_URL) faults.push('AUTH_JWT_SECRET: set it or AUTH_JWKS_URL, not both')
  for (const name of ['AUTH_ISSUER', 'AUTH_AUDIENCE']) {
    if (set[name] && !set.AUTH_JWT_SECRET && !set.AUTH_JWKS_URL) {
      faults.push(`${name}: needs AUTH_JWT_SECRET or AUTH_JWKS_URL`)
    }
  }
  const provider = parseModelName(set.PARLEY_DEFAULT_MODEL ?? 'demo')?.provider ?? 'demo'
  const known = providers.find(({ name }) => name === provider)
  if (known === undefined && provider !== 'demo' && badProviders.length === 0) {
    faults.push(`PARLEY_DEFAULT_MODEL: there is no provider ${JSON.stringify(provider)} in PARLEY_PROVIDERS`)
  }
  if (known?.lacks) faults.push(`PARLEY_DEFAULT_MODEL: ${known.lacks}`)
  const split = set.PARLEY_ROLE === 'api' || set.PARLEY_ROLE === 'worker'
  for (const name of ['DATABASE_URL', 'REDIS_URL']) {
    if (split && !set[name]) faults.push(`${name}: required when PARLEY_ROLE is api or worker`)
  }
  return faults
}

/** Short of this, a secret can be guessed by trying; RFC 7518 asks for as much of a key for HS256. */
const SAFE_SECRET_LENGTH = 32

/**
 * What does not stop a start. An unknown variable may be a typing error, or one of those that Kubernetes sets in every pod
 * beside a service called parley (PARLEY_PORT, PARLEY_SERVICE_HOST, …).
 */
function warningsOf(set: Record<string, string | undefined>): string[] {
  const unknown = Object.keys(set).filter((name) => name.startsWith('PARLEY_') && !(name in VARIABLES.shape))
  const weak = ['AUTH_JWT_SECRET', 'PARLEY_SECRET_KEY'].filter((name) => {
    const length = set[name]?.length
    return length !== undefined && length < SAFE_SECRET_LENGTH
  })
  return [
    ...unknown.sort().map((name) => `${name}: there is no such setting`),
    ...weak.map((name) => `${name}: has fewer than ${SAFE_SECRET_LENGTH} characters, and can be guessed`),
  ]
}

/**
 * Reads the settings. An empty variable counts as unset.
 * @throws ConfigError with every fault at once.
 */
export function readConfig(environment: Record<string, string | undefined> = process.env): Config {
  const set = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''))
  const parsed = VARIABLES.safeParse(set)
  const models = readModelProviders(set)
  const faults = [
    ...(parsed.error?.issues ?? []).map((issue) => `${issue.path.join('.')}: ${issue.message}`),
    ...models.faults,
    ...combinedFaults(set, models),
  ]
  if (!parsed.success || faults.length > 0) throw new ConfigError([...new Set(faults)].sort())
  const { providers: modelProviders } = models
  return { ...configOf(parsed.data), modelProviders, warnings: [...warningsOf(set), ...models.warnings] }
}

function configOf(set: Variables): Omit<Config, 'modelProviders' | 'warnings'> {
  return {
    port: set.PORT,
    host: set.HOST,
    databaseUrl: set.DATABASE_URL ?? null,
    redisUrl: set.REDIS_URL?.replace(/^valkey/, 'redis') ?? null,
    dataDirectory: set.DATA_DIR,
    adminToken: set.PARLEY_ADMIN_TOKEN ?? null,
    role: set.PARLEY_ROLE,
    workerConcurrency: set.PARLEY_WORKER_CONCURRENCY,
    defaultModel: set.PARLEY_DEFAULT_MODEL ?? (set.OPENAI_API_KEY ? 'openai:gpt-5-mini' : 'demo'),
    jwt: {
      secret: set.AUTH_JWT_SECRET ?? null,
      jwksUrl: set.AUTH_JWKS_URL ?? null,
      issuer: set.AUTH_ISSUER ?? null,
      audience: set.AUTH_AUDIENCE ?? null,
    },
    secretKey: set.PARLEY_SECRET_KEY ?? null,
    allowPrivateTools: set.PARLEY_ALLOW_PRIVATE_TOOLS,
    allowedOrigins: set.PARLEY_ALLOWED_ORIGINS,
    deltaMs: set.PARLEY_DELTA_MS,
    limits: {
      maxRunSeconds: set.PARLEY_MAX_RUN_SECONDS,
      modelSilenceSeconds: set.PARLEY_MODEL_SILENCE_SECONDS,
      cycleRestMs: set.PARLEY_CYCLE_REST_MS,
      toolWaitSeconds: set.PARLEY_TOOL_WAIT_SECONDS,
      maxChainDepth: set.PARLEY_MAX_CHAIN_DEPTH,
      maxRootRuns: set.PARLEY_MAX_ROOT_RUNS,
      maxReplyStack: set.PARLEY_MAX_REPLY_STACK,
      historyLimit: set.PARLEY_HISTORY_LIMIT,
      maxSocketsPerViewer: set.PARLEY_MAX_SOCKETS_PER_VIEWER,
    },
    telemetry: telemetryOf(set),
    logLevel: set.PARLEY_LOG_LEVEL,
  }
}

/** Null unless an endpoint is set and nothing says that there are no traces. */
function telemetryOf(set: Variables): TelemetrySettings | null {
  const general = set.OTEL_EXPORTER_OTLP_ENDPOINT
  const url =
    set.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? (general === undefined ? null : `${general.replace(/\/$/, '')}/v1/traces`)
  const isOff = set.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || set.OTEL_TRACES_EXPORTER === 'none'
  if (url === null || isOff) return null
  return {
    url,
    headers: { ...set.OTEL_EXPORTER_OTLP_HEADERS, ...set.OTEL_EXPORTER_OTLP_TRACES_HEADERS },
    serviceName: set.OTEL_SERVICE_NAME,
    capturesContent: set.OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT?.toLowerCase() === 'true',
  }
}
