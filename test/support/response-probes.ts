import {
  type GraphQLField,
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  isAbstractType,
  isCompositeType,
  isLeafType,
  isNonNullType,
  isObjectType,
} from 'graphql'
import type { ParleyClient } from './parley-client.ts'

/** A path from the query root to objects of a type, with a function that adds a selection on these objects to a document. */
type Wrap = (selection: string) => string

/** A selection whose result is long even if it is used once, so the server must limit how often it is repeated. */
export interface Probe {
  /** `Type.field`. */
  name: string
  /** Returns the document with the selection under several aliases. */
  document(times: number): string
  /** The response bytes of one more alias. */
  bytes: number
  /** The maximum number of repetitions within the tokens of one document. */
  mostTimes: number
  viewer: string
}

const PATHS_OF_A_TYPE = 4
const DEEPEST = 6
/** A part of the 5,000 tokens of a document is reserved for the path to the selection. */
const MOST_TOKENS = 4800
/** Shorter selections cannot reach the limit within the tokens of a document. */
const LEAST_BYTES = 600

/**
 * Finds every field and list with a long result in the current world, from the schema alone. Walks from the query root over all
 * types, with the given ids as arguments, and selects all fields of each object.
 */
export async function findProbes(
  schema: GraphQLSchema,
  ids: Record<string, string>,
  viewers: Record<string, ParleyClient>,
): Promise<Probe[]> {
  const found = new Map<string, Probe>()
  const keep = (probe: Probe) => {
    const known = found.get(probe.name)
    if (probe.bytes >= LEAST_BYTES && (known === undefined || known.bytes < probe.bytes)) found.set(probe.name, probe)
  }
  for (const [viewer, client] of Object.entries(viewers)) {
    for (const { type, wrap } of waysTo(schema, ids)) {
      const leaves = leavesOf(type)
      const lists = listsOf(schema, type, ids)
      const parts = { ...leaves, ...lists }
      for (const [name, bytes] of await sizesOf(client, wrap, leaves))
        keep(probeOf(type, name, parts, { wrap, bytes, viewer }))
      for (const list of Object.keys(lists)) {
        const one = { [list]: lists[list] ?? '' }
        for (const [name, bytes] of await sizesOf(client, wrap, one))
          keep(probeOf(type, name, parts, { wrap, bytes, viewer }))
      }
    }
  }
  return [...found.values()]
}

function probeOf(
  { name: type }: GraphQLObjectType,
  field: string,
  parts: Record<string, string>,
  { wrap, bytes, viewer }: { wrap: Wrap; bytes: number; viewer: string },
): Probe {
  const document = (times: number) => wrap(Array.from({ length: times }, (_, n) => `a${n}:${parts[field]}`).join(' '))
  const tokens = document(1).match(/\w+|"[^"]*"|\.\.\.|[{}():]/g)?.length ?? 1
  return { name: `${type}.${field}`, document, bytes, mostTimes: Math.floor(MOST_TOKENS / tokens), viewer }
}

/** Returns a few paths to objects of each type, the shortest first. */
function waysTo(schema: GraphQLSchema, ids: Record<string, string>): { type: GraphQLObjectType; wrap: Wrap }[] {
  const root = schema.getQueryType()
  if (!root) throw new Error('the schema has no queries')
  const ways: { type: GraphQLObjectType; wrap: Wrap }[] = []
  const count = new Map<string, number>()
  let level: { type: GraphQLObjectType; wrap: Wrap }[] = [{ type: root, wrap: (selection) => `{ ${selection} }` }]
  for (let depth = 0; depth < DEEPEST; depth++) {
    const next: typeof level = []
    for (const { type, wrap } of level) {
      const seen = count.get(type.name) ?? 0
      if (seen >= PATHS_OF_A_TYPE) continue
      count.set(type.name, seen + 1)
      ways.push({ type, wrap })
      for (const field of Object.values(type.getFields())) next.push(...through(schema, field, wrap, ids))
    }
    level = next
  }
  return ways
}

/** Returns the next paths through a field of objects. */
function through(
  schema: GraphQLSchema,
  field: GraphQLField<unknown, unknown>,
  wrap: Wrap,
  ids: Record<string, string>,
) {
  const named = getNamedType(field.type)
  const args = argumentsOf(field, named, ids)
  if (args === null || !isCompositeType(named)) return []
  const within: Wrap = (selection) => wrap(`${field.name}${args} { ${selection} }`)
  if (isObjectType(named)) return [{ type: named, wrap: within }]
  if (!isAbstractType(named)) return []
  return schema.getPossibleTypes(named).map((type) => ({
    type,
    wrap: ((selection) => within(`... on ${type.name} { ${selection} }`)) as Wrap,
  }))
}

/** Returns arguments for a field; null if a required one is unknown. */
function argumentsOf(
  field: GraphQLField<unknown, unknown>,
  named: GraphQLNamedType,
  ids: Record<string, string>,
): string | null {
  const isPage = field.args.some(({ name }) => name === 'last')
  const given: string[] = isPage ? ['last: 20'] : []
  for (const { name, type, defaultValue } of field.args) {
    if (!isNonNullType(type) || defaultValue !== undefined) continue
    const id = name === 'id' ? ids[named.name] : undefined
    if (id === undefined) return null
    given.push(`id: "${id}"`)
  }
  return given.length === 0 ? '' : `(${given.join(', ')})`
}

/** Returns the fields without selections, by name. */
function leavesOf(type: GraphQLObjectType): Record<string, string> {
  const fields = Object.values(type.getFields()).filter(
    ({ type, args }) => isLeafType(getNamedType(type)) && args.every(({ type }) => !isNonNullType(type)),
  )
  return Object.fromEntries(fields.map(({ name }) => [name, name]))
}

/** Returns the fields of objects, each with all its leaf fields. Pages include their nodes. */
function listsOf(schema: GraphQLSchema, type: GraphQLObjectType, ids: Record<string, string>): Record<string, string> {
  const lists: Record<string, string> = {}
  for (const field of Object.values(type.getFields())) {
    const named = getNamedType(field.type)
    const args = argumentsOf(field, named, ids)
    if (args === null || !isCompositeType(named)) continue
    const page = isObjectType(named) ? named.getFields()['edges'] : undefined
    const edge = page && getNamedType(page.type)
    const node = isObjectType(edge) ? edge.getFields()['node'] : undefined
    const item = node ? getNamedType(node.type) : named
    const selection = allOf(schema, item)
    if (selection !== '')
      lists[field.name] = `${field.name}${args}${node ? `{edges{node{${selection}}}}` : `{${selection}}`}`
  }
  return lists
}

function allOf(schema: GraphQLSchema, type: GraphQLNamedType): string {
  if (isObjectType(type)) return Object.keys(leavesOf(type)).join(' ')
  if (!isAbstractType(type)) return ''
  const possible = schema.getPossibleTypes(type)
  return possible
    .map(
      (one) =>
        `... on ${one.name}{${Object.keys(leavesOf(one))
          .map((name) => `${name}_${one.name}:${name}`)
          .join(' ')}}`,
    )
    .join(' ')
}

/** Returns the total size of the values of each part, in bytes of JSON. Empty if the viewer may not read them. */
async function sizesOf(client: ParleyClient, wrap: Wrap, parts: Record<string, string>): Promise<Map<string, number>> {
  const sizes = new Map<string, number>()
  const names = Object.keys(parts)
  if (names.length === 0) return sizes
  const { data } = await client.ask(wrap(names.map((name) => `part_${name}:${parts[name]}`).join(' ')))
  function walk(value: unknown): void {
    if (typeof value !== 'object' || value === null) return
    for (const [key, inner] of Object.entries(value)) {
      const name = key.startsWith('part_') ? key.slice('part_'.length) : null
      if (name !== null && inner !== null)
        sizes.set(name, (sizes.get(name) ?? 0) + Buffer.byteLength(JSON.stringify(inner)))
      else walk(inner)
    }
  }
  walk(data)
  return sizes
}
