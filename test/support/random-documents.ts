import {
  type GraphQLArgument,
  type GraphQLField,
  type GraphQLInputField,
  type GraphQLInputType,
  type GraphQLNamedOutputType,
  type GraphQLSchema,
  getNamedType,
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
  isUnionType,
} from 'graphql'

/** Returns numbers from 0 to 1, excluding 1. Equal seeds give equal numbers. */
export type Random = () => number

export function randomOf(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

export const oneOf = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)] as T
const below = (random: Random, most: number) => Math.floor(random() * most)

/** A realistic operation or, in some cases, an unrealistic one. */
export interface RandomDocument {
  query: string
  variables?: unknown
  operationName?: unknown
}

/** Instants at both ends of the calendar and beyond. */
export const TIMES = [
  '2026-11-22T10:00:00Z',
  '-999999-01-01T00:00:00Z',
  '0000-01-01T00:00:00Z',
  '0001-01-01T00:00:00+23:59',
  '9999-12-31T23:59:59.999Z',
  '9999-12-31T23:59:59-23:59',
  '2026-11-22T10:00:00+99:99',
]
/** Difficult texts, as JSON. Their URLs lead only to this machine. */
const TEXTS = [
  '',
  ' ',
  'x',
  'Ada',
  'null',
  '0',
  '__proto__',
  'constructor',
  '%',
  '%00',
  '../..',
  "'; DROP TABLE x; --",
  '{{',
  '$1',
  '\u0000',
  'a\u0000b',
  '\ud800',
  '\udfff\ud800',
  '\u202e',
  'é€😀',
  '\r\n',
  '\u2028',
  'x'.repeat(250),
  'x'.repeat(9000),
  'http://127.0.0.1:1/',
  'https://[::1]/',
  'file:///etc/passwd',
  'javascript:1',
  'http://',
  'demo',
  'openai:x',
  ':',
  ...TIMES,
  '* * * * *',
  '99 99 * * *',
  'P1D',
]
const NUMBERS = [0, 1, -1, 2, 100, 101, 2 ** 31 - 1, 2 ** 31, -(2 ** 31), 2 ** 53, 1e308, 0.1, -0.5]
const DEEPEST = 5
const MOST_FIELDS = 6

export interface RandomDocuments {
  next(): RandomDocument
}

/** Generates documents from the schema. Any field can be selected, with arguments that are mostly of the right kind. */
export function randomDocuments(schema: GraphQLSchema, random: Random, ids: () => readonly string[]): RandomDocuments {
  const chance = (share: number) => random() < share
  const text = () => (chance(0.5) ? oneOf(random, ids()) : oneOf(random, TEXTS))

  function anything(depth = 0): unknown {
    const kind = below(random, depth > 2 ? 4 : 6)
    if (kind === 0) return text()
    if (kind === 1) return oneOf(random, NUMBERS)
    if (kind === 2) return chance(0.5)
    if (kind === 3) return null
    if (kind === 4) return Array.from({ length: below(random, 4) }, () => anything(depth + 1))
    return Object.fromEntries(
      Array.from({ length: below(random, 4) }, () => [oneOf(random, TEXTS), anything(depth + 1)]),
    )
  }

  const LEAVES: Record<string, () => unknown> = {
    Int: () => oneOf(random, NUMBERS),
    Float: () => oneOf(random, NUMBERS),
    Boolean: () => chance(0.5),
    ID: () => (chance(0.9) ? oneOf(random, ids()) : text()),
    JSON: () => anything(),
    DateTime: () => oneOf(random, TIMES),
  }

  function valueFor(type: GraphQLInputType, depth = 0): unknown {
    if (chance(0.03)) return anything()
    if (isNonNullType(type)) return valueFor(type.ofType, depth)
    if (isListType(type)) return Array.from({ length: below(random, 4) }, () => valueFor(type.ofType, depth))
    if (isEnumType(type)) return oneOf(random, type.getValues()).name
    if (isInputObjectType(type)) return inputOf(Object.values(type.getFields()), depth)
    return (LEAVES[type.name] ?? text)()
  }

  function inputOf(fields: readonly GraphQLInputField[], depth: number): Record<string, unknown> {
    const given = fields.filter(({ type }) => (isNonNullType(type) ? !chance(0.03) : depth < 4 && chance(0.3)))
    return Object.fromEntries(given.map(({ name, type }) => [name, valueFor(type, depth + 1)]))
  }

  /** Passes arguments as variables, and records these, so that any JSON can be passed. */
  function argumentsOf(args: readonly GraphQLArgument[], noted: Variables): string {
    const given = args.filter(({ type }) => (isNonNullType(type) ? !chance(0.02) : chance(0.4)))
    if (given.length === 0) return ''
    const passed = given.map((arg) => {
      const name = `v${noted.types.length}`
      noted.types.push(`$${name}: ${arg.type}`)
      noted.values[name] = valueFor(arg.type)
      return `${arg.name}: $${name}`
    })
    return `(${passed.join(', ')})`
  }

  function fieldOf({ name, args, type }: GraphQLField<unknown, unknown>, depth: number, noted: Variables): string {
    const alias = chance(0.7) ? `a${below(random, 1000)}: ` : ''
    const directive = chance(0.03) ? oneOf(random, [' @include(if: true)', ' @skip(if: false)', ' @nothing']) : ''
    return `${alias}${name}${argumentsOf(args, noted)}${directive}${selectionOf(getNamedType(type), depth + 1, noted)}`
  }

  function selectionOf(type: GraphQLNamedOutputType, depth: number, noted: Variables): string {
    if (isUnionType(type)) {
      const some = type.getTypes().filter(() => chance(0.6))
      return ` { __typename ${some.map((one) => `... on ${one.name}${selectionOf(one, depth, noted)}`).join(' ')} }`
    }
    if (!('getFields' in type)) return chance(0.01) ? ' { __typename }' : ''
    const fields = Object.values(type.getFields()).filter(
      ({ type }) => depth < DEEPEST || !('getFields' in getNamedType(type)),
    )
    const some = Array.from({ length: below(random, MOST_FIELDS) }, () => oneOf(random, fields)).filter(Boolean)
    return ` { __typename ${some.map((field) => fieldOf(field, depth, noted)).join(' ')} }`
  }

  function operation(): RandomDocument {
    const kind = oneOf(random, ['query', 'query', 'query', 'mutation', 'mutation', 'subscription'] as const)
    const root = {
      query: schema.getQueryType(),
      mutation: schema.getMutationType(),
      subscription: schema.getSubscriptionType(),
    }
    const noted: Variables = { types: [], values: {} }
    const fields = Object.values(root[kind]?.getFields() ?? {})
    const count = kind === 'subscription' ? 1 : 1 + below(random, 3)
    const body = Array.from({ length: count }, () => fieldOf(oneOf(random, fields), 0, noted)).join(' ')
    const declared = noted.types.length > 0 ? `(${noted.types.join(', ')})` : ''
    return { query: `${kind} ${declared} { ${body} }`, variables: noted.values }
  }

  function damaged(query: string): string {
    const at = below(random, query.length)
    const length = below(random, 20)
    const junk = oneOf(random, [
      '{',
      '}',
      '(',
      '"',
      '"""',
      '...',
      '@',
      '$',
      '\u0000',
      '#',
      '[',
      '!',
      '999999999999999999999',
      'on',
      'fragment A on A { ...A }',
    ])
    if (chance(0.3)) return query.slice(0, at) + query.slice(at + length)
    if (chance(0.3))
      return query.slice(0, at) + query.slice(at, at + length).repeat(1 + below(random, 40)) + query.slice(at)
    return query.slice(0, at) + junk.repeat(1 + below(random, chance(0.05) ? 3000 : 3)) + query.slice(at)
  }

  return {
    next() {
      const { query, variables } = operation()
      if (chance(0.8)) return { query, variables }
      const bad = chance(0.7) ? damaged(query) : query
      return {
        query: bad,
        variables: chance(0.3) ? anything() : variables,
        ...(chance(0.2) ? { operationName: anything() } : {}),
      }
    },
  }
}

interface Variables {
  types: string[]
  values: Record<string, unknown>
}
