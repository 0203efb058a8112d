import { BadInputError } from '../lib/errors.ts'
import type { SecretBox } from '../platform/secret-box.ts'

/** The headers of an agent's outgoing requests, by name. */
export type Headers = Record<string, string>

/** Headers in an input. Undefined keeps the stored headers, and null removes them. */
export type HeadersInput = unknown

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}$/
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
const MOST_HEADERS = 50
const LONGEST_HEADERS = 16_384
const LONGEST_URL = 2048
/** Headers that the HTTP client sets itself. */
const RESERVED_HEADERS = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'upgrade',
  'te',
  'trailer',
  'expect',
])

/**
 * Validates headers. Returns null if there are none. @throws BadInputError, whose message never contains a header's
 * value
 */
export function checkHeaders(input: HeadersInput, field: string): Headers | null {
  if (input === null) return null
  if (typeof input !== 'object' || Array.isArray(input))
    throw new BadInputError('Headers must be an object whose values are strings.', field)
  const entries = Object.entries(input as Record<string, unknown>)
  if (entries.length > MOST_HEADERS)
    throw new BadInputError(`A request can have at most ${MOST_HEADERS} headers.`, field)
  const seen = new Set<string>()
  let length = 0
  for (const [name, value] of entries) {
    const key = name.toLowerCase()
    if (!HEADER_NAME.test(name))
      throw new BadInputError('A header name contains characters that HTTP does not allow.', field)
    if (RESERVED_HEADERS.has(key)) throw new BadInputError(`The header ${name} cannot be set.`, field)
    if (seen.has(key)) throw new BadInputError(`The header ${name} is duplicated.`, field)
    if (typeof value !== 'string' || !HEADER_VALUE.test(value)) {
      throw new BadInputError(`The header ${name} must have a string value without line breaks.`, field)
    }
    seen.add(key)
    length += name.length + value.length
  }
  if (length > LONGEST_HEADERS)
    throw new BadInputError(`The headers must have at most ${LONGEST_HEADERS} characters in total.`, field)
  return entries.length === 0 ? null : (input as Headers)
}

/** Checks that a URL is an http or https URL without user and password. @throws BadInputError */
export function checkUrl(url: string, field: string): string {
  const parsed = url.length <= LONGEST_URL && URL.canParse(url) ? new URL(url) : null
  if (parsed === null || !['http:', 'https:'].includes(parsed.protocol)) {
    throw new BadInputError(
      `Must be a URL that begins with http:// or https://, of at most ${LONGEST_URL} characters.`,
      field,
    )
  }
  if (parsed.username !== '' || parsed.password !== '') {
    throw new BadInputError('Put credentials in headers, which are stored encrypted, not in the URL.', field)
  }
  return url
}

/** The columns that store headers. */
export interface SealedHeaders {
  headersSealed: string | null
  headerNames: string[]
}

/** The owner of headers. Encrypted headers are bound to their owner. */
export interface HeadersOwner {
  kind: 'tool' | 'mcp'
  agentId: string
  name: string
}

const NO_HEADERS: SealedHeaders = { headersSealed: null, headerNames: [] }
const contextOf = ({ kind, agentId, name }: HeadersOwner) => `${kind}:${agentId}:${name}`

/**
 * Checks that stored headers are not sent to a different origin than the one for which they were given.
 * @throws BadInputError if the origin changes and the headers are kept
 */
export function checkOriginOfKept(
  { url, headers }: { url: string | null; headers: Headers | null | undefined },
  before: (SealedHeaders & { url: string | null }) | undefined,
  field: string,
): void {
  if (headers !== undefined || before === undefined || before.headersSealed === null) return
  if (originOf(url) === originOf(before.url)) return
  throw new BadInputError(
    'The URL has a different origin: send the headers again, or null to remove them.',
    `${field}.headers`,
  )
}

const originOf = (url: string | null): string | null => (url === null ? null : new URL(url).origin)

/** Returns the columns for headers. Undefined keeps the headers of `before`, and null removes them. */
export function sealHeaders(
  headers: Headers | null | undefined,
  before: SealedHeaders | undefined,
  owner: HeadersOwner,
  secretBox: SecretBox,
): SealedHeaders {
  if (headers === undefined) {
    const { headersSealed, headerNames } = before ?? NO_HEADERS
    return { headersSealed, headerNames }
  }
  if (headers === null) return NO_HEADERS
  const headersSealed = secretBox.seal(JSON.stringify(headers), contextOf(owner))
  return { headersSealed, headerNames: Object.keys(headers) }
}

/** Decrypts the headers of a tool or MCP server. @throws SealBrokenError */
export function openHeaders(
  kind: HeadersOwner['kind'],
  { agentId, name, headersSealed }: Omit<HeadersOwner, 'kind'> & Pick<SealedHeaders, 'headersSealed'>,
  secretBox: SecretBox,
): Headers {
  if (headersSealed === null) return {}
  return JSON.parse(secretBox.open(headersSealed, contextOf({ kind, agentId, name }))) as Headers
}
