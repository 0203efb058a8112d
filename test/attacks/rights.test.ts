import {
  type GraphQLArgument,
  type GraphQLInputType,
  GraphQLList,
  GraphQLNonNull,
  getNamedType,
  isCompositeType,
  isEnumType,
  isInputObjectType,
  isObjectType,
} from 'graphql'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Viewer } from '../../src/access/viewer.ts'
import { schema } from '../../src/graphql/schema.ts'
import { ID_PREFIXES } from '../../src/lib/ids.ts'
import { nodeTypes, selectionOf } from '../support/every-field.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { SECRET, secretWorld } from '../support/secret-world.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

// All requests are built from the schema, so the test also covers each new field, query, mutation and subscription. The test
// fails if one of them returns anything to a stranger. It also fails for a type without an instance in the test world, until a
// developer classifies the type.

/**
 * Operations that anybody may use, because they concern the viewer's own objects, or return a separate result for each object.
 */
const FOR_EVERYBODY = ['createSpace', 'decideToolCalls', 'setNotificationSettings']
/** The types that anybody may read, with their public fields. */
const PUBLIC_TYPES = ['Agent']

describe('a stranger', () => {
  let parley: TestServer
  /** An object of each type, by the prefix of its id. */
  const ids: Record<string, string> = {}
  const strangers: { name: string; viewer: Viewer; client: ParleyClient }[] = []
  let admin: ParleyClient

  beforeAll(async () => {
    parley = await startTestServer({ worker: false, settings: { PARLEY_RATE_REQUESTS: '0' } })
    Object.assign(ids, await secretWorld(parley))
    const service: Viewer = { scope: 'SERVICE', id: '', name: 'other', agentIds: [], tokenId: null, expiresAt: null }
    for (const viewer of [await parley.human('Mallory'), service])
      strangers.push({ name: viewer.scope, viewer, client: await parley.clientOf(viewer) })
    admin = await parley.clientOf(parley.admin)
  })
  afterAll(() => parley?.close())

  const instances = () => Object.values(ids)
  const NODES = `query ($ids: [ID!]!) { nodes(ids: $ids) { __typename id ${nodeTypes
    .map((type) => `... on ${type.name} { ${selectionOf(type, 1)} }`)
    .join(' ')} } }`

  test('the test world has an instance of every type with an id', async () => {
    const found: ({ __typename: string } | null)[] = []
    // Read the fields one by one, because the number of fields of an operation is limited.
    for (const id of instances()) {
      const { data, errors } = await admin.ask<{ nodes: typeof found }>(NODES, { ids: [id] })
      expect(errors).toBeUndefined()
      found.push(...(data?.nodes ?? []))
    }
    const names = new Set(found.map((node) => node?.__typename))
    expect(nodeTypes.map(({ name }) => name).filter((name) => !names.has(name))).toEqual([])
    expect(JSON.stringify(found)).toContain(SECRET)
  })

  test('reads nothing through any field of any type', async () => {
    for (const { client } of strangers) {
      for (const id of instances()) {
        const { data } = await client.ask<{ nodes: ({ __typename: string } | null)[] }>(NODES, { ids: [id] })
        expect(JSON.stringify(data)).not.toContain(SECRET)
        const [node] = data?.nodes ?? []
        if (node != null) expect(PUBLIC_TYPES).toContain(node.__typename)
      }
    }
  })

  /** Returns a valid value for an argument or input field. Ids come from `idOf`; all other values are placeholders. */
  function inputFor(name: string, type: GraphQLInputType, idOf: (field: string) => string): unknown {
    if (type instanceof GraphQLNonNull) return inputFor(name, type.ofType, idOf)
    if (type instanceof GraphQLList) return [inputFor(name, type.ofType, idOf)]
    if (isEnumType(type)) return type.getValues()[0]?.name
    if (isInputObjectType(type)) {
      const fields = Object.values(type.getFields()).filter(
        (field) => field.type instanceof GraphQLNonNull || getNamedType(field.type).name === 'ID',
      )
      return Object.fromEntries(fields.map((field) => [field.name, inputFor(field.name, field.type, idOf)]))
    }
    const plain: Record<string, unknown> = {
      ID: idOf(name),
      String: 'x',
      Int: 1,
      Float: 1,
      Boolean: true,
      DateTime: new Date(0).toISOString(),
      JSON: { type: 'object' },
      StreamCursor: 'x',
    }
    expect(Object.keys(plain), `a value for ${name}`).toContain(getNamedType(type).name)
    return plain[getNamedType(type).name]
  }

  const ofField: Record<string, string> = {
    spaceId: 'spc',
    agentId: 'agt',
    entityId: 'hum',
    humanId: 'hum',
    runId: 'run',
    messageId: 'msg',
    toolCallId: 'tcl',
    mentionedAgentId: 'agt',
    adminAgentId: 'agt',
    eventId: 'inb',
  }
  /** Returns every choice of ids. A plain `id` can be any id of the test world. */
  const choices = () => instances().map((id) => (field: string) => ids[ofField[field] ?? ''] ?? id)

  const needed = (args: readonly GraphQLArgument[]) =>
    args.filter(
      ({ name, type }) => type instanceof GraphQLNonNull || /Id$/.test(name) || getNamedType(type).name === 'RunFilter',
    )

  async function askFor(
    client: ParleyClient,
    kind: string,
    name: string,
    args: readonly GraphQLArgument[],
    idOf: (field: string) => string,
    selection: string,
  ) {
    const given = needed(args)
    const declared = given.map((arg) => `$${arg.name}: ${arg.type}`).join(', ')
    const passed = given.map((arg) => `${arg.name}: $${arg.name}`).join(', ')
    const variables = Object.fromEntries(given.map((arg) => [arg.name, inputFor(arg.name, arg.type, idOf)]))
    const query = `${kind} ${declared && `(${declared})`} { result: ${name} ${passed && `(${passed})`} ${selection} }`
    return client.ask<{ result: { __typename?: string } | null }>(query, variables)
  }

  test.each(Object.values(schema.getQueryType()?.getFields() ?? {}))(
    'reads nothing by the query $name',
    async ({ name, args, type }) => {
      const named = getNamedType(type)
      const selection = !isCompositeType(named)
        ? ''
        : isObjectType(named)
          ? `{ __typename ${selectionOf(named, 2)} }`
          : '{ __typename id }'
      for (const { client } of strangers) {
        for (const idOf of choices()) {
          const { data, errors } = await askFor(client, 'query', name, args, idOf, selection)
          expect(JSON.stringify(data ?? null)).not.toContain(SECRET)
          for (const { extensions } of errors ?? []) expect(extensions?.code).not.toBe('INTERNAL_SERVER_ERROR')
        }
      }
    },
  )

  test.each(Object.values(schema.getMutationType()?.getFields() ?? {}))(
    'changes nothing by the mutation $name',
    async ({ name, args }) => {
      for (const { client } of strangers) {
        for (const idOf of choices()) {
          const { data, errors } = await askFor(client, 'mutation', name, args, idOf, '{ __typename }')
          for (const { extensions } of errors ?? []) expect(extensions?.code).not.toBe('INTERNAL_SERVER_ERROR')
          const type = data?.result?.__typename
          if (type !== undefined && !FOR_EVERYBODY.includes(name)) expect(type).toMatch(/Error$/)
        }
      }
    },
  )

  test.each(Object.values(schema.getSubscriptionType()?.getFields() ?? {}).filter(({ args }) => args.length > 0))(
    'receives nothing by the subscription $name',
    async ({ name, args }) => {
      const [first] = strangers
      const given = needed(args)
      const variables = Object.fromEntries(given.map((arg) => [arg.name, ids[ofField[arg.name] ?? ''] ?? '']))
      const declared = given.map((arg) => `$${arg.name}: ${arg.type}`).join(', ')
      const passed = given.map((arg) => `${arg.name}: $${arg.name}`).join(', ')
      const operation = { toString: () => `subscription (${declared}) { ${name} (${passed}) { __typename } }` }
      const watched = first!.client.subscribe(operation as never, variables as never)
      expect(JSON.stringify(await watched.ended)).toContain('NOT_FOUND')
      expect(watched.seen).toEqual([])
    },
  )

  test('the test world has an id of every kind', () => {
    // Objects of these kinds have ids, but are not nodes: memories, chains, steps, roots, notifications and push subscriptions.
    const unnamed = ['mem', 'chn', 'stp', 'trg', 'ntf', 'psh', 'ntc']
    expect(ID_PREFIXES.filter((prefix) => !(prefix in ids) && !unnamed.includes(prefix))).toEqual([])
  })
})
