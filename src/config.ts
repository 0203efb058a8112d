import path from 'node:path'
import { z } from 'zod'

export type { MailSettings } from './config/mail.ts'
export type { ModelPrices } from './config/model-prices.ts'
export type { OidcProviderSettings, OidcSettings } from './config/oidc.ts'
export type { TelemetrySettings } from './config/telemetry.ts'
export type { ModelProviderSettings } from './lib/model-provider.ts'

import { combinedFaults, warningsOf } from './config/combinations.ts'
import { databaseUrl, databaseUrlWarnings } from './config/database-url.ts'
import { FILES_VARIABLES, filesFaults, filesLocation, type S3Location } from './config/files.ts'
import { type MailSettings, readMailSettings } from './config/mail.ts'
import { type ModelPrices, readModelPrices } from './config/model-prices.ts'
import { baseUrl, readModelProviders } from './config/model-providers.ts'
import { type OidcSettings, readOidc } from './config/oidc.ts'
import { publicUrl } from './config/public-url.ts'
import { RETENTION_VARIABLES, type Retention, retentionOf } from './config/retention.ts'
import { TELEMETRY_VARIABLES, type TelemetrySettings, telemetryOf } from './config/telemetry.ts'
import { messageOf } from './lib/errors.ts'
import { parseModelName } from './lib/model-name.ts'
import { type ModelProviderSettings, smallModelOf } from './lib/model-provider.ts'
import { parseRedisUrl } from './lib/redis-url.ts'

/**
 * All settings, validated. They are read once at startup. No other code reads the environment, except for libpq's
 * variables.
 */
export interface Config {
  port: number
  host: string
  /** The URL at which browsers reach the server: scheme, host and path prefix, without a trailing slash. */
  publicUrl: string | null
  databaseUrl: string | null
  /**
   * The direct URL of the database server, for work that needs a database session. Set if `databaseUrl` points to a
   * pooler.
   */
  directDatabaseUrl: string | null
  /** The maximum number of PostgreSQL connections. */
  databaseConnections: number
  redisUrl: string | null
  dataDirectory: string
  /** Where files are stored: a directory, or a bucket. */
  files: string | S3Location
  adminToken: string | null
  role: 'all' | 'api' | 'worker'
  workerConcurrency: number
  /** The providers of PARLEY_PROVIDERS, followed by OpenAI's. The built-in provider `demo` is not in the list. */
  modelProviders: ModelProviderSettings[]
  defaultModel: string
  /** Whether PARLEY_DEFAULT_MODEL is set, or a provider configured by the environment has a key. */
  hasDefaultModel: boolean
  /**
   * The value of PARLEY_EMBEDDINGS, which is the embedding model for search by meaning. Null if searches only match
   * words.
   */
  embeddingModel: string | null
  /** Prices of models. If a model is missing here, its cost is unknown. */
  prices: ModelPrices
  jwt: {
    secret: string | null
    jwksUrl: string | null
    issuer: string | null
    audience: string | null
    /** Whether to accept JWTs without `exp`, and a JWKS without an audience. */
    allowUnbounded: boolean
  }
  oidc: OidcSettings
  secretKey: string | null
  /** The previous key, which decrypts older secrets while keys are rotated. */
  secretKeyBefore: string | null
  allowPrivateTools: boolean
  /**
   * The people whose id, name, kind and picture a human sees: `everyone`, or the people with whom the human shares a
   * space (`shared`). Null means the value that the migration stored in the database.
   */
  directory: 'everyone' | 'shared' | null
  /** Whether new spaces with one or two humans are confidential. */
  confidentialSpaces: boolean
  allowedOrigins: string[]
  deltaMs: number
  limits: Limits
  /** The rate limits per minute and viewer, service or webhook. 0 means no limit. */
  rates: { messages: number; triggers: number; requests: number }
  retention: Retention
  /** How emails are sent; null if email is not configured. */
  mail: MailSettings | null
  /** The viewers who may invite people by email. */
  invite: 'admins' | 'members'
  /** The target of exported traces; null if traces are not exported. */
  telemetry: TelemetrySettings | null
  logLevel: string
  /**
   * Warnings for the log about values that are valid but could be mistakes, one line each. They never contain a value.
   */
  warnings: string[]
}

/** The limits of the product. Their names contain the units. */
export interface Limits {
  maxRunSeconds: number
  /** How long a model may send no data before the call fails. */
  modelSilenceSeconds: number
  /** The pause between two think cycles of an agent. */
  cycleRestMs: number
  toolWaitSeconds: number
  approvalWaitSeconds: number
  maxChainDepth: number
  maxRootRuns: number
  maxReplyStack: number
  historyLimit: number
  maxSocketsPerViewer: number
  /** The maximum size of one response or event, in bytes of JSON. */
  maxResponseBytes: number
  /** The limit per human; 0 means no limit. */
  maxNewSpacesPerDay: number
  maxFileBytes: number
  /** The limit per human. */
  maxFileBytesPerDay: number
}

/**
 * Thrown if settings are invalid. `faults` has a line for each fault, with the name of the variable and never its
 * value.
 */
export class ConfigError extends Error {
  readonly faults: string[]
  constructor(faults: string[]) {
    super(`Invalid settings:\n${faults.map((fault) => `  ${fault}`).join('\n')}`)
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
/** `parseRedisUrl` describes the accepted forms. */
const redisUrl = z
  .string()
  .superRefine((value, context) => {
    try {
      parseRedisUrl(value)
    } catch (error) {
      context.addIssue({ code: 'custom', message: messageOf(error) })
    }
  })
  .optional()
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

const VARIABLES = z.object({
  PORT: integer(0, 65_535, 4000),
  HOST: z.string().min(1).default('127.0.0.1'),
  PARLEY_PUBLIC_URL: publicUrl,
  DATABASE_URL: databaseUrl,
  PARLEY_DIRECT_DATABASE_URL: databaseUrl,
  PARLEY_DATABASE_CONNECTIONS: integer(5, 1000, 10),
  REDIS_URL: redisUrl,
  DATA_DIR: z.string().min(1).default('.parley'),
  PARLEY_ADMIN_TOKEN: z.string().min(32, 'must have at least 32 characters').optional(),
  PARLEY_ROLE: z.enum(['all', 'api', 'worker'], 'must be all, api or worker').default('all'),
  PARLEY_WORKER_CONCURRENCY: integer(1, 10_000, 50),
  OPENAI_API_KEY: text,
  OPENAI_BASE_URL: baseUrl.optional(),
  /** `readModelProviders` reads this variable. */
  PARLEY_PROVIDERS: text,
  /** `readModelPrices` reads this variable. */
  PARLEY_PRICES: text,
  PARLEY_DEFAULT_MODEL: z
    .string()
    .refine((name) => parseModelName(name) !== null, 'must be <provider>:<model> or demo')
    .optional(),
  PARLEY_EMBEDDINGS: z
    .string()
    .refine((name) => name !== 'demo' && parseModelName(name) !== null, 'must be <provider>:<model>')
    .optional(),
  AUTH_JWT_SECRET: text,
  AUTH_JWKS_URL: url('http:', 'https:'),
  AUTH_ISSUER: text,
  AUTH_AUDIENCE: text,
  AUTH_ALLOW_UNBOUNDED: boolean,
  /** `readOidc` reads these variables. */
  PARLEY_OIDC_ISSUER: text,
  PARLEY_OIDC_CLIENT_ID: text,
  PARLEY_OIDC_CLIENT_SECRET: text,
  PARLEY_OIDC: text,
  PARLEY_OIDC_ALLOW: text,
  PARLEY_OIDC_ADMIN: text,
  PARLEY_SECRET_KEY: text,
  PARLEY_SECRET_KEY_BEFORE: text,
  PARLEY_ALLOW_PRIVATE_TOOLS: boolean,
  PARLEY_CONFIDENTIAL_SPACES: boolean,
  PARLEY_DIRECTORY: z.enum(['everyone', 'shared']).optional(),
  PARLEY_ALLOWED_ORIGINS: origins,
  PARLEY_RATE_MESSAGES: integer(0, 10_000_000, 600),
  PARLEY_RATE_TRIGGERS: integer(0, 10_000_000, 600),
  PARLEY_RATE_REQUESTS: integer(0, 10_000_000, 6000),
  PARLEY_DELTA_MS: integer(0, 1000, 25),
  PARLEY_MAX_RUN_SECONDS: integer(1, 86_400, 1800),
  PARLEY_MODEL_SILENCE_SECONDS: integer(1, 3600, 60),
  PARLEY_CYCLE_REST_MS: integer(0, 60_000, 300),
  PARLEY_TOOL_WAIT_SECONDS: integer(1, 86_400, 600),
  PARLEY_APPROVAL_WAIT_SECONDS: integer(1, 2_592_000, 86_400),
  PARLEY_MAX_CHAIN_DEPTH: integer(1, 1000, 10),
  PARLEY_MAX_ROOT_RUNS: integer(1, 100_000, 50),
  PARLEY_MAX_REPLY_STACK: integer(1, 100, 5),
  PARLEY_HISTORY_LIMIT: integer(1, 100, 50),
  PARLEY_MAX_SOCKETS_PER_VIEWER: integer(1, 1_000_000, 5000),
  PARLEY_MAX_RESPONSE_BYTES: integer(16_384, 268_435_456, 8_388_608),
  PARLEY_MAX_NEW_SPACES_PER_DAY: integer(0, 1_000_000, 100),
  ...FILES_VARIABLES,
  PARLEY_MAX_FILE_BYTES: integer(1, 2_147_483_647, 26_214_400),
  PARLEY_MAX_FILE_BYTES_PER_DAY: integer(1, 1_000_000_000_000_000, 1_073_741_824),
  ...RETENTION_VARIABLES,
  ...TELEMETRY_VARIABLES,
  /** `readMailSettings` reads these variables. */
  PARLEY_SMTP_URL: text,
  PARLEY_MAIL_FROM: text,
  PARLEY_INVITE: z.enum(['admins', 'members'], 'must be admins or members').default('admins'),
  PARLEY_LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
})

type Variables = z.infer<typeof VARIABLES>

/**
 * Reads and validates the settings. An empty variable is treated as unset.
 * @throws ConfigError with every fault
 */
export function readConfig(environment: Record<string, string | undefined> = process.env): Config {
  const set = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''))
  const parsed = VARIABLES.safeParse(set)
  const models = readModelProviders(set)
  const { prices, faults: badPrices } = readModelPrices(set.PARLEY_PRICES)
  const { mail, faults: mailFaults } = readMailSettings(set)
  const oidc = readOidc(set)
  const faults = [
    ...(parsed.error?.issues ?? []).map((issue) => `${issue.path.join('.')}: ${issue.message}`),
    ...models.faults,
    ...badPrices,
    ...mailFaults,
    ...oidc.faults,
    ...combinedFaults(set, models),
    ...filesFaults(set),
  ]
  if (!parsed.success || faults.length > 0) throw new ConfigError([...new Set(faults)].sort())
  const { providers: modelProviders } = models
  const defaultModel = parsed.data.PARLEY_DEFAULT_MODEL ?? smallModelOf(modelProviders)
  return {
    ...configOf(parsed.data),
    files: filesLocation(set, path.join(parsed.data.DATA_DIR, 'files')),
    defaultModel: defaultModel ?? 'demo',
    hasDefaultModel: defaultModel !== null,
    modelProviders,
    prices,
    mail,
    oidc: oidc.settings,
    warnings: [
      ...warningsOf(set, Object.keys(VARIABLES.shape)),
      ...databaseUrlWarnings(set),
      ...models.warnings,
      ...oidc.warnings,
    ],
  }
}

function configOf(
  set: Variables,
): Omit<
  Config,
  'files' | 'defaultModel' | 'hasDefaultModel' | 'modelProviders' | 'prices' | 'mail' | 'oidc' | 'warnings'
> {
  return {
    port: set.PORT,
    host: set.HOST,
    publicUrl: set.PARLEY_PUBLIC_URL ?? null,
    databaseUrl: set.DATABASE_URL ?? null,
    directDatabaseUrl: set.PARLEY_DIRECT_DATABASE_URL ?? null,
    databaseConnections: set.PARLEY_DATABASE_CONNECTIONS,
    redisUrl: set.REDIS_URL ?? null,
    dataDirectory: set.DATA_DIR,
    adminToken: set.PARLEY_ADMIN_TOKEN ?? null,
    role: set.PARLEY_ROLE,
    workerConcurrency: set.PARLEY_WORKER_CONCURRENCY,
    embeddingModel: set.PARLEY_EMBEDDINGS ?? null,
    jwt: {
      secret: set.AUTH_JWT_SECRET ?? null,
      jwksUrl: set.AUTH_JWKS_URL ?? null,
      issuer: set.AUTH_ISSUER ?? null,
      audience: set.AUTH_AUDIENCE ?? null,
      allowUnbounded: set.AUTH_ALLOW_UNBOUNDED,
    },
    secretKey: set.PARLEY_SECRET_KEY ?? null,
    secretKeyBefore: set.PARLEY_SECRET_KEY_BEFORE ?? null,
    allowPrivateTools: set.PARLEY_ALLOW_PRIVATE_TOOLS,
    confidentialSpaces: set.PARLEY_CONFIDENTIAL_SPACES,
    directory: set.PARLEY_DIRECTORY ?? null,
    allowedOrigins: set.PARLEY_ALLOWED_ORIGINS,
    deltaMs: set.PARLEY_DELTA_MS,
    rates: {
      messages: set.PARLEY_RATE_MESSAGES,
      triggers: set.PARLEY_RATE_TRIGGERS,
      requests: set.PARLEY_RATE_REQUESTS,
    },
    limits: {
      maxRunSeconds: set.PARLEY_MAX_RUN_SECONDS,
      modelSilenceSeconds: set.PARLEY_MODEL_SILENCE_SECONDS,
      cycleRestMs: set.PARLEY_CYCLE_REST_MS,
      toolWaitSeconds: set.PARLEY_TOOL_WAIT_SECONDS,
      approvalWaitSeconds: set.PARLEY_APPROVAL_WAIT_SECONDS,
      maxChainDepth: set.PARLEY_MAX_CHAIN_DEPTH,
      maxRootRuns: set.PARLEY_MAX_ROOT_RUNS,
      maxReplyStack: set.PARLEY_MAX_REPLY_STACK,
      historyLimit: set.PARLEY_HISTORY_LIMIT,
      maxSocketsPerViewer: set.PARLEY_MAX_SOCKETS_PER_VIEWER,
      maxResponseBytes: set.PARLEY_MAX_RESPONSE_BYTES,
      maxNewSpacesPerDay: set.PARLEY_MAX_NEW_SPACES_PER_DAY,
      maxFileBytes: set.PARLEY_MAX_FILE_BYTES,
      maxFileBytesPerDay: set.PARLEY_MAX_FILE_BYTES_PER_DAY,
    },
    retention: retentionOf(set),
    invite: set.PARLEY_INVITE,
    telemetry: telemetryOf(set),
    logLevel: set.PARLEY_LOG_LEVEL,
  }
}
