import { isObject, type Json, type JsonObject } from '../lib/json.ts'

/** The methods of HTTP tools. */
export const HTTP_METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
export type HttpMethod = (typeof HTTP_METHODS)[number]

/** The HTTP request for a call to a tool, or why the call's input does not fit the URL. */
export type ToolRequest =
  | { type: 'request'; method: HttpMethod; url: string; body: string | null }
  | { type: 'fault'; message: string }

/**
 * Matches an expression of a URL template, which refers to inputs: `{id}` in the path, `{?limit,tags*}` or `{&limit}`
 * in the query.
 */
const EXPRESSION = /\{([?&]?)([^{}]*)\}/g
const NAME = /^[A-Za-z0-9_.$[\]-]+\*?$/
const LONGEST_REQUEST_URL = 8192
/** A path segment that URL parsers resolve to another path. */
const DOT_SEGMENT = /^(\.|%2e){1,2}$/i

export const hasBody = (method: string): boolean => method === 'POST' || method === 'PUT' || method === 'PATCH'

/** Whether an input with this name can be used in a URL template. */
export const isTemplateName = (name: string): boolean => NAME.test(name) && !name.endsWith('*')

/** Returns a sentence about the first fault in the expressions of a URL template (RFC 6570); null if they are valid. */
export function templateFault(url: string): string | null {
  // The request contains the stored headers, which may be secrets, so an input must not choose the host.
  if (/^https?:\/\/[^/?#]*\{/i.test(url))
    return 'The URL can contain placeholders for inputs only after the host and a slash.'
  for (const [whole, operator, names = ''] of url.matchAll(EXPRESSION)) {
    const isQuery = operator !== ''
    const bad = names.split(',').find((name) => !NAME.test(name))
    if (bad !== undefined) return `${whole} is not a list of input names.`
    if (!isQuery && names.includes('*')) return `${whole} has an asterisk, which is allowed only in the query.`
  }
  const rest = url.replace(EXPRESSION, '')
  return /[{}]/.test(rest) ? 'The URL has an unmatched brace.' : null
}

/**
 * Returns the request for an input. Without a method, the request is a POST with the whole input as JSON. With a
 * method, the inputs in the URL template are inserted into the URL. The other inputs become the JSON body or, for a
 * method without a body, the query.
 */
export function toolRequest(
  { method, url }: { method: HttpMethod | null; url: string },
  input: JsonObject,
): ToolRequest {
  if (method === null) return { type: 'request', method: 'POST', url, body: JSON.stringify(input) }
  const used = new Set<string>()
  const faults: string[] = []
  const expanded = url.replaceAll(EXPRESSION, (_, operator: string, list: string) => {
    const names = list.split(',')
    for (const name of names) used.add(name.replace(/\*$/, ''))
    if (operator === '') return names.map((name) => pathText(name, input[name], faults)).join(',')
    const pairs = names.flatMap((name) => queryPairs(name, input[name.replace(/\*$/, '')], faults))
    return pairs.length === 0 ? '' : `${operator}${pairs.join('&')}`
  })
  const rest = Object.entries(input).filter(([name]) => !used.has(name))
  const asBody = hasBody(method)
  const pairs = asBody ? [] : rest.flatMap(([name, value]) => queryPairs(`${name}*`, value, faults))
  const [fault] = faults
  if (fault !== undefined) return { type: 'fault', message: fault }
  const target = pairs.length === 0 ? expanded : withQuery(expanded, pairs.join('&'))
  if (target.length > LONGEST_REQUEST_URL)
    return { type: 'fault', message: `The URL of the request is longer than ${LONGEST_REQUEST_URL} characters.` }
  const [path = ''] = target.split(/[?#]/, 1)
  if (path.split(/[/\\]/).some((segment) => DOT_SEGMENT.test(segment)))
    return { type: 'fault', message: 'An input that is part of the path must not be "." or "..".' }
  return { type: 'request', method, url: target, body: asBody ? JSON.stringify(Object.fromEntries(rest)) : null }
}

/**
 * Removes the fragment and the query's values, which can be keys, from a URL or URL template. Parameter names and
 * template expressions remain.
 */
export function withoutQueryValues(url: string): string {
  const [, address = '', query] = /^((?:\{[^{}]*\}|[^{?#])*)(\?[^#]*)?/.exec(url) ?? []
  if (query === undefined) return address
  const parts = query.slice(1).match(/(?:\{[^{}]*\}|[^{&])+/g) ?? []
  const named = parts.flatMap((part) => {
    const inputs = part.match(/\{[^{}]*\}/g)?.join('') ?? ''
    const [name = '', ...values] = part.replace(EXPRESSION, '').split('=')
    // A part without `=` could be a key, so it is removed.
    return values.length > 0 ? [`${name}=${inputs}`] : inputs === '' ? [] : [inputs]
  })
  return named.length === 0 ? address : `${address}?${named.join('&')}`
}

function pathText(name: string, value: Json | undefined, faults: string[]): string {
  const texts = textsOf(value)
  if (texts === null) faults.push(`The input ${name} is part of the path: it must be a string or a number.`)
  else if (texts.length === 0 || texts.includes(''))
    faults.push(`The input ${name} is part of the path: it must not be empty.`)
  return (texts ?? []).map(encodeURIComponent).join(',')
}

/**
 * Returns the query parameters for an input. Omits absent and null inputs. A name with an asterisk is repeated for each
 * item of a list.
 */
function queryPairs(given: string, value: Json | undefined, faults: string[]): string[] {
  const name = given.replace(/\*$/, '')
  const texts = textsOf(value)
  if (texts === null) {
    faults.push(`The input ${name} is part of the query: it must be a string, a number, a boolean, or a list of these.`)
    return []
  }
  if (texts.length === 0) return []
  const key = encodeURIComponent(name.toWellFormed())
  if (given.endsWith('*')) return texts.map((text) => `${key}=${encodeURIComponent(text)}`)
  return [`${key}=${texts.map(encodeURIComponent).join(',')}`]
}

/** Returns the value as strings; null for an object, and for a list that contains objects or lists. */
function textsOf(value: Json | undefined): string[] | null {
  if (value === undefined || value === null) return []
  if (isObject(value)) return null
  if (!Array.isArray(value)) return [String(value).toWellFormed()]
  return value.some((item) => typeof item === 'object' && item !== null)
    ? null
    : value.map((item) => String(item).toWellFormed())
}

function withQuery(url: string, query: string): string {
  const [address = '', fragment] = url.split('#', 2)
  const joined = `${address}${address.includes('?') ? '&' : '?'}${query}`
  return fragment === undefined ? joined : `${joined}#${fragment}`
}
