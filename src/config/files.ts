import { z } from 'zod'

/** A bucket in S3 or on an S3-compatible server. */
export interface S3Location {
  bucket: string
  /** The prefix of every key. It ends with a slash, or is '' for no prefix. */
  prefix: string
  region: string
  endpoint: string | null
  accessKeyId: string
  secretAccessKey: string
  sessionToken: string | null
}

const BUCKET = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/([\w.-]+(?:\/[\w.-]+)*))?\/?$/

export const FILES_VARIABLES = {
  PARLEY_FILES: z
    .string()
    .refine((value) => !/^\w+:\/\//.test(value) || BUCKET.test(value), 'must be a directory, or s3://bucket/prefix')
    .optional(),
}

const AWS_VARIABLES = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'] as const

type Environment = Record<string, string | undefined>

const isBucket = (setting: string | undefined) => setting !== undefined && BUCKET.test(setting)

/** Returns a line for each AWS variable that a bucket needs and that is missing or invalid. */
export function filesFaults(set: Environment): string[] {
  if (!isBucket(set['PARLEY_FILES'])) return []
  const missing = AWS_VARIABLES.filter((name) => set[name] === undefined).map(
    (name) => `${name}: must be set, because PARLEY_FILES is a bucket`,
  )
  const endpoint = set['AWS_ENDPOINT_URL_S3'] ?? set['AWS_ENDPOINT_URL']
  const isUsable = endpoint === undefined || /^https?:$/.test(URL.parse(endpoint)?.protocol ?? '')
  return isUsable ? missing : [...missing, 'AWS_ENDPOINT_URL: must be a URL that begins with http:// or https://']
}

/** Returns where files are stored: a directory, or a bucket. */
export function filesLocation(set: Environment, fallback: string): string | S3Location {
  const setting = set['PARLEY_FILES'] ?? fallback
  const [, bucket = '', prefix = ''] = BUCKET.exec(setting) ?? []
  if (bucket === '') return setting
  return {
    bucket,
    prefix: prefix === '' ? '' : `${prefix}/`,
    region: set['AWS_REGION'] ?? set['AWS_DEFAULT_REGION'] ?? 'us-east-1',
    endpoint: set['AWS_ENDPOINT_URL_S3'] ?? set['AWS_ENDPOINT_URL'] ?? null,
    accessKeyId: set['AWS_ACCESS_KEY_ID'] ?? '',
    secretAccessKey: set['AWS_SECRET_ACCESS_KEY'] ?? '',
    sessionToken: set['AWS_SESSION_TOKEN'] ?? null,
  }
}
