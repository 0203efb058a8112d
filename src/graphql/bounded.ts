import {
  defaultFieldResolver,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLFieldResolver,
  type GraphQLOutputType,
  type GraphQLSchema,
  getNamedType,
  getNullableType,
  isEnumType,
  isLeafType,
  isListType,
  isObjectType,
  Kind,
  type SelectionSetNode,
} from 'graphql'
import { jsonSize } from '../lib/json-size.ts'
import type { Context } from './context.ts'
import type { ResponseMeter } from './response-meter.ts'
import { instancePath } from './response-path.ts'

type Resolver = GraphQLFieldResolver<unknown, Context>
type ResolveInfo = Parameters<Resolver>[3]

/** Counts a resolved value, and returns the value to serialize. A returned connection may have fewer edges. */
type Account = (value: unknown, source: unknown, args: ResolveArgs, context: Context, info: ResolveInfo) => unknown
type ResolveArgs = Record<string, unknown>

/**
 * The fields that already count their values. The introspection types belong to graphql-js, so all schemas in a
 * process share the fields of these types.
 */
const countedFields = new WeakSet<object>()

/**
 * Makes every field, including those for introspection, add its result to the context's meter before serialization.
 * The meter counts the bytes of leaves and keys, and the actual length of lists. Connections drop edges if the
 * response has to become smaller. `countedFieldResolver` counts the fields that have no resolver of their own, and
 * must be passed to the execution.
 */
export function bounded(schema: GraphQLSchema): GraphQLSchema {
  const mutation = schema.getMutationType()
  for (const type of Object.values(schema.getTypeMap())) {
    if (!isObjectType(type)) continue
    for (const field of Object.values(type.getFields())) {
      const { resolve } = field
      if (resolve === undefined || countedFields.has(field)) continue
      countedFields.add(field)
      const once = type === mutation ? resolvedOnce(resolve as Resolver) : (resolve as Resolver)
      field.resolve = counted(once, accountOf(field.type)) as typeof resolve
    }
  }
  return schema
}

/** The default field resolver, which also counts the value. */
export const countedFieldResolver: Resolver = (source, args, context, info) => {
  const { meter } = context
  if (meter === undefined) return defaultFieldResolver(source, args, context, info)
  if (meter.isExceeded) return meter.never
  addRootKeys(meter, info)
  const value = defaultFieldResolver(source, args, context, info)
  const account = knownAccountOf(info.returnType)
  if (account === null) return value
  return after(value, (settled) => accounted(account, settled, source, args, context, info))
}

function accounted(account: Account, ...given: Parameters<Account>): unknown {
  const [, , , { meter }] = given
  const value = account(...given)
  return meter?.isExceeded ? meter.never : value
}

function counted(resolve: Resolver, account: Account | null): Resolver {
  return (source, args, context, info) => {
    // The context is missing if another library introspects the schema.
    const meter = context?.meter
    if (meter === undefined) return resolve(source, args, context, info)
    if (meter.isExceeded) return meter.never
    addRootKeys(meter, info)
    const value = resolve(source, args, context, info)
    if (account === null) return value
    return after(value, (settled) => accounted(account, settled, source, args, context, info))
  }
}

/** Counts the keys of a root field and of the objects in it. Keys in lists are counted for each item. */
function addRootKeys(meter: ResponseMeter, info: ResolveInfo): void {
  if (info.path.prev !== undefined) return
  const { bytes } = itemSizeOf(info)
  meter.addItems(info.path, 1, { bytes: bytes + String(info.path.key).length + PUNCTUATION, leaves: 0 })
}

/** Makes a mutation resolve only once, even if its response is built again with fewer edges. */
function resolvedOnce(resolve: Resolver): Resolver {
  return (source, args, context, info) => {
    const { mutationResults } = context
    if (mutationResults === undefined) return resolve(source, args, context, info)
    const key = String(info.path.key)
    if (!mutationResults.has(key)) mutationResults.set(key, Promise.resolve(resolve(source, args, context, info)))
    return mutationResults.get(key)
  }
}

function after(value: unknown, next: (settled: unknown) => unknown): unknown {
  return value instanceof Promise ? value.then(next) : next(value)
}

const accounts = new Map<GraphQLOutputType, Account | null>()

function knownAccountOf(type: GraphQLOutputType): Account | null {
  let account = accounts.get(type)
  if (account === undefined) {
    account = accountOf(type)
    accounts.set(type, account)
  }
  return account
}

/**
 * Returns the function that counts a field's value. Returns null for objects, because their fields are counted
 * instead.
 */
function accountOf(declared: GraphQLOutputType): Account | null {
  const type = getNullableType(declared)
  const named = getNamedType(type)
  if (isListType(type) && isLeafType(named)) return accountForValue
  if (isListType(type)) return named.name.startsWith('__') ? accountForIntrospected : accountForList
  if (isLeafType(named)) return fixedSizeOf(named.name) ?? (isEnumType(named) ? accountForName : accountForValue)
  return named.name.endsWith('Connection') ? accountForConnection : null
}

/** The maximum size in bytes of leaves whose length does not depend on input from clients. */
const FIXED_SIZES: Record<string, number> = { Boolean: 5, Int: 11, Float: 24, DateTime: 26 }

function fixedSizeOf(name: string): Account | null {
  const bytes = FIXED_SIZES[name]
  if (bytes === undefined) return null
  return (value, _source, _args, { meter }, { path }) => {
    meter!.addValue(path, bytes, String)
    return value
  }
}

const accountForName: Account = (value, _source, _args, { meter }, { path }) => {
  meter!.addValue(path, typeof value === 'string' ? value.length + 2 : 4, String)
  return value
}

const accountForValue: Account = (value, source, _args, { meter }, info) => {
  if (value === null || value === undefined) {
    meter!.addValue(info.path, 4, String)
  } else {
    const bytes = jsonSize(value, meter!.remainingBytes)
    meter!.addValue(info.path, bytes, () => contentKeyOf(source, info))
  }
  return value
}

const accountForList: Account = (value, _source, _args, { meter }, info) => {
  if (Array.isArray(value) && value.length > 0) meter!.addItems(info.path, value.length, itemSizeOf(info))
  return value
}

/**
 * Counts the bytes of introspection leaves. The number of these leaves is not limited here, because they are cheap,
 * and the size of the schema limits their number.
 */
const accountForIntrospected: Account = (value, _source, _args, { meter }, info) => {
  if (Array.isArray(value) && value.length > 0)
    meter!.addItems(info.path, value.length, { bytes: itemSizeOf(info).bytes, leaves: 0 })
  return value
}

/** A connection as returned by `connectionOf`. */
interface Connection {
  edges: { cursor: string }[]
  pageInfo: { hasNextPage: boolean; hasPreviousPage: boolean; startCursor: string | null; endCursor: string | null }
  fromEnd?: boolean
}

const accountForConnection: Account = (value, _source, { first, last }, { meter }, { path }) => {
  if (value === null || typeof value !== 'object' || !meter!.isMeasuring) return value
  const connection = value as Connection
  const fromEnd = last != null || (first == null && connection.fromEnd === true)
  const kept = keepEdges(connection, meter!.cuts.get(instancePath(path)), fromEnd)
  meter!.connections.push({ path, edges: kept.edges.length, fromEnd })
  return kept
}

function keepEdges(connection: Connection, count: number | undefined, fromEnd: boolean): Connection {
  const { edges, pageInfo } = connection
  if (count === undefined || count >= edges.length) return connection
  const kept = fromEnd ? edges.slice(-count) : edges.slice(0, count)
  return {
    ...connection,
    edges: kept,
    pageInfo: {
      hasNextPage: fromEnd ? pageInfo.hasNextPage : true,
      hasPreviousPage: fromEnd ? true : pageInfo.hasPreviousPage,
      startCursor: kept[0]?.cursor ?? null,
      endCursor: kept.at(-1)?.cursor ?? null,
    },
  }
}

const anonymous = new WeakMap<object, number>()
let nextAnonymous = 0

/**
 * Returns a key that identifies the content of a field. The key is the same for the same object, however often and
 * under whatever aliases the content is selected.
 */
function contentKeyOf(source: unknown, { parentType, fieldName }: ResolveInfo): string {
  const { id, messageId, index } = (source ?? {}) as { id?: unknown; messageId?: unknown; index?: unknown }
  if (typeof id === 'string') return `${id}.${fieldName}`
  if (typeof messageId === 'string') return `${messageId}:${index}.${fieldName}`
  if (source === null || typeof source !== 'object') return `${parentType.name}.${fieldName}`
  const known = anonymous.get(source) ?? ++nextAnonymous
  anonymous.set(source, known)
  return `#${known}.${fieldName}`
}

/** The size of a list item apart from its values. It includes the keys of the item's fields, and punctuation. */
interface ItemSize {
  bytes: number
  leaves: number
}

const itemSizes = new WeakMap<FieldNode, ItemSize>()
/** The punctuation of a field in JSON: quotation marks, a colon and a comma. */
const PUNCTUATION = 4
/** An estimate of the length of a type name, for `__typename`. */
const TYPE_NAME_BYTES = 30

function itemSizeOf({ fieldNodes, fragments }: ResolveInfo): ItemSize {
  const total: ItemSize = { bytes: 3, leaves: 0 }
  for (const node of fieldNodes) {
    let size = itemSizes.get(node)
    if (size === undefined) {
      size = sizeOfSelection(node.selectionSet, fragments)
      itemSizes.set(node, size)
    }
    total.bytes += size.bytes
    total.leaves += size.leaves
  }
  return total
}

type Fragments = Readonly<Record<string, FragmentDefinitionNode>>

/**
 * Returns the size of a selection. If a field can have several types, the largest type counts. Nested lists are
 * counted when they are resolved.
 */
function sizeOfSelection(set: SelectionSetNode | undefined, fragments: Fragments): ItemSize {
  const total: ItemSize = { bytes: 0, leaves: 0 }
  const byType = new Map<string, ItemSize>()
  for (const selection of set?.selections ?? []) {
    if (selection.kind === Kind.FIELD) {
      const name = (selection.alias ?? selection.name).value
      total.bytes += name.length + PUNCTUATION + (selection.name.value === '__typename' ? TYPE_NAME_BYTES : 0)
      if (selection.selectionSet === undefined) total.leaves += 1
      else addTo(total, sizeOfSelection(selection.selectionSet, fragments))
      continue
    }
    const fragment = selection.kind === Kind.INLINE_FRAGMENT ? selection : fragments[selection.name.value]
    const size = sizeOfSelection(fragment?.selectionSet, fragments)
    const condition = fragment?.typeCondition?.name.value
    if (condition === undefined) addTo(total, size)
    else byType.set(condition, addTo(byType.get(condition) ?? { bytes: 0, leaves: 0 }, size))
  }
  const largest = [...byType.values()].reduce((most, size) => (size.bytes > most.bytes ? size : most), {
    bytes: 0,
    leaves: 0,
  })
  return addTo(total, largest)
}

function addTo(total: ItemSize, { bytes, leaves }: ItemSize): ItemSize {
  total.bytes += bytes
  total.leaves += leaves
  return total
}
