import fc from 'fast-check'
import { buildSchema, type ExecutionResult, execute, type GraphQLObjectType, parse } from 'graphql'
import { expect, test } from 'vitest'
import { bounded } from '../../src/graphql/bounded.ts'
import { executeBounded } from '../../src/graphql/bounded-execution.ts'
import type { Context } from '../../src/graphql/context.ts'

/** An object with a text and two connections of such objects. Its id is its position. */
interface Thing {
  id: string
  text: string
  first: Thing[]
  last: Thing[]
}

const PAGE = 'edges { cursor node { ...thing } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor }'
const document = parse(`{ root { ...top } }
  fragment top on Thing { id text first { edges { cursor node { ...middle } } ${PAGE.slice(PAGE.indexOf('pageInfo'))} } last { edges { cursor node { ...middle } } ${PAGE.slice(PAGE.indexOf('pageInfo'))} } }
  fragment middle on Thing { id text first { ${PAGE} } last { ${PAGE} } }
  fragment thing on Thing { id text }`)

interface Page {
  edges: { cursor: string; node: Shown }[]
  pageInfo: { hasNextPage: boolean; hasPreviousPage: boolean; startCursor: string | null; endCursor: string | null }
}
interface Shown {
  id: string
  text: string
  first?: Page
  last?: Page
}

const connection = (things: Thing[], fromEnd: boolean) => ({
  edges: things.map((node) => ({ cursor: node.id, node })),
  fromEnd,
  pageInfo: {
    hasNextPage: false,
    hasPreviousPage: false,
    startCursor: things[0]?.id ?? null,
    endCursor: things.at(-1)?.id ?? null,
  },
})

const schema = buildSchema(`
  type Query { root: Thing! }
  type Thing { id: ID! text: String! first: ThingConnection! last: ThingConnection! }
  type ThingConnection { edges: [ThingEdge!]! pageInfo: PageInfo! }
  type ThingEdge { cursor: String! node: Thing! }
  type PageInfo { hasNextPage: Boolean! hasPreviousPage: Boolean! startCursor: String endCursor: String }`)
const fieldsOf = (name: string) => (schema.getType(name) as GraphQLObjectType).getFields()
fieldsOf('Thing')['first']!.resolve = async ({ first }: Thing) => connection(first, false)
fieldsOf('Thing')['last']!.resolve = ({ last }: Thing) => connection(last, true)
bounded(schema)

const LIMIT = 20_000

const text = fc.oneof(
  { weight: 3, arbitrary: fc.nat(200).map((length) => 'x'.repeat(length)) },
  { weight: 1, arbitrary: fc.nat(3000).map((length) => '\u0001'.repeat(length)) },
)
const thingOf = (children: fc.Arbitrary<Thing[]>): fc.Arbitrary<Thing> =>
  fc.record({ id: fc.constant(''), text, first: children, last: children })
const leaves = fc.array(thingOf(fc.constant([])), { maxLength: 6 })
const middles = fc.array(thingOf(leaves), { maxLength: 6 })
const roots = thingOf(middles).map((thing) => named(thing, 'r'))

function named(thing: Thing, id: string): Thing {
  const children = (name: 'first' | 'last') => thing[name].map((child, index) => named(child, `${id}.${name}${index}`))
  return { ...thing, id, first: children('first'), last: children('last') }
}

async function ask(root: Thing): Promise<ExecutionResult> {
  const { result } = await executeBounded(
    (contextValue, fieldResolver) => execute({ schema, document, rootValue: { root }, contextValue, fieldResolver }),
    {} as Context,
    LIMIT,
  )
  return result
}

/** The minimum content of a shortened response: one edge of each connection, which is the first one read. */
function leastOf({ id, text, first, last }: Thing): number {
  const edges = [first[0], last.at(-1)].filter((thing) => thing !== undefined)
  return JSON.stringify({ id, text }).length + edges.reduce((sum, thing) => sum + leastOf(thing), 0) + 400
}

function expectPage(page: Page | undefined, things: Thing[], end: 'first' | 'last'): void {
  if (page === undefined) return
  const { edges, pageInfo } = page
  const kept = end === 'first' ? things.slice(0, edges.length) : things.slice(things.length - edges.length)
  expect(edges.map(({ cursor }) => cursor)).toEqual(kept.map(({ id }) => id))
  expect(edges.length).toBeGreaterThanOrEqual(Math.min(1, things.length))
  const isCut = edges.length < things.length
  expect(pageInfo).toEqual({
    hasNextPage: end === 'first' && isCut,
    hasPreviousPage: end === 'last' && isCut,
    startCursor: kept[0]?.id ?? null,
    endCursor: kept.at(-1)?.id ?? null,
  })
  for (const [index, { node }] of edges.entries()) expectShown(node, kept[index]!)
}

function expectShown(shown: Shown, thing: Thing): void {
  expect(shown).toMatchObject({ id: thing.id, text: thing.text })
  expectPage(shown.first, thing.first, 'first')
  expectPage(shown.last, thing.last, 'last')
}

test('a shortened response fits the limit, has the edges nearest to the start of each page, and reports exactly what it omits', async () => {
  let shortened = 0
  let refused = 0
  const property = fc.asyncProperty(roots, async (root) => {
    const { data, errors } = await ask(root)
    if (errors !== undefined) {
      refused += 1
      expect(errors.map(({ extensions }) => extensions['code'])).toEqual(['QUERY_TOO_COMPLEX'])
      expect(leastOf(root)).toBeGreaterThan(LIMIT / 4)
      return
    }
    const bytes = Buffer.byteLength(JSON.stringify({ data }))
    expect(bytes).toBeLessThanOrEqual(LIMIT)
    expectShown((data as unknown as { root: Shown }).root, root)
    if (bytes < Buffer.byteLength(JSON.stringify(root)) / 2) shortened += 1
  })
  await fc.assert(property, { numRuns: 300 })
  expect(shortened).toBeGreaterThan(20)
  expect(refused).toBeLessThan(200)
})
