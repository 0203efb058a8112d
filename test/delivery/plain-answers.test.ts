import fc from 'fast-check'
import {
  execute,
  type GraphQLNamedType,
  getNamedType,
  isAbstractType,
  isLeafType,
  isObjectType,
  parse,
  validate,
} from 'graphql'
import { expect, test, vi } from 'vitest'
import { createPlainAnswer } from '../../src/delivery/plain-answers.ts'
import { schema } from '../../src/graphql/schema.ts'
import { runsOf } from '../support/effort.ts'

const MAX_BYTES = 8 * 1024 * 1024

const AT = { cursor: 'MDEyMzQ1Njc4OWFiY2RlZi4x', at: new Date(1_700_000_000_123), spaceId: 'spc_1', runId: 'run_1' }
const text = fc.string({ unit: fc.constantFrom('a', '"', '\\', '\n', 'é', '😀', '\ud800', '\u2028', '</') })
const odd = fc.oneof(fc.constant(undefined), fc.constant(null), fc.double(), fc.boolean(), fc.constant({ a: 1 }))
const some = <T>(usual: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 8, arbitrary: usual as fc.Arbitrary<unknown> }, { weight: 1, arbitrary: odd })

/** Random events of each subscription field, some of which have values that their type does not allow. */
const EVENTS: Record<string, fc.Arbitrary<object>> = {
  spaceMessages: fc.record({
    type: fc.constantFrom('MessageTextDelta', 'MessagePartChanged', 'MessagePosted', 'SpaceSnapshot', 'MemberLeft'),
    messageId: some(text),
    partIndex: some(fc.nat(9)),
    offset: some(fc.integer()),
    delta: some(text),
  }),
  runEvents: fc.record({
    type: fc.constantFrom(
      'RunTextDelta',
      'RunReasoningDelta',
      'RunToolInputDelta',
      'RunResumed',
      'RunFailed',
      'RunStarted',
    ),
    step: some(fc.nat(9)),
    delta: some(text),
    error: some(text),
    toolName: some(text),
    toolCallId: some(text),
  }),
  viewerEvents: fc.record({
    type: fc.constantFrom('ViewerSnapshot', 'ViewerSpaceRemoved', 'ViewerSpaceChanged', 'ViewerToolCallSettled'),
    toolCallId: some(text),
  }),
  agentActivity: fc.record({ agentId: some(text) }),
}

const HEAD: Record<string, string> = {
  spaceMessages: 'spaceMessages(spaceId: "spc_1", after: $after)',
  runEvents: 'runEvents(runId: "run_1", after: $after)',
  viewerEvents: 'viewerEvents',
  agentActivity: 'agentActivity(spaceId: "spc_1")',
}

const directive = fc.constantFrom(
  '',
  '',
  '',
  '@include(if: $yes)',
  '@skip(if: $yes)',
  '@skip(if: false)',
  '@include(if: $no)',
)

/** Generates a random selection of a type: its fields under any aliases, and fragments on its possible types. */
function selections(type: GraphQLNamedType, depth: number): fc.Arbitrary<string> {
  const fields = 'getFields' in type ? Object.values(type.getFields()) : []
  const leaves = fields.filter((field) => isLeafType(getNamedType(field.type))).map(({ name }) => name)
  const objects = fields.filter((field) => !isLeafType(getNamedType(field.type))).map(({ name }) => name)
  const field = fc
    .tuple(fc.constantFrom('__typename', ...leaves), fc.constantFrom('', '', 'own_', '__'), directive)
    .map(([name, alias, when]) => `${alias === '' ? '' : `${alias}${name}: `}${name} ${when}`)
  const object = fc
    .constantFrom('__typename', ...objects)
    .map((name) => (name === '__typename' ? name : `${name} { __typename }`))
  const types: readonly GraphQLNamedType[] = isAbstractType(type) ? [type, ...schema.getPossibleTypes(type)] : [type]
  const fragment =
    depth === 0
      ? field
      : fc
          .tuple(fc.constantFrom(...types), directive)
          .chain(([on, when]) => selections(on, depth - 1).map((inner) => `... on ${on.name} ${when} { ${inner} }`))
  const one = fc.oneof(
    { weight: 12, arbitrary: field },
    { weight: 5, arbitrary: fragment },
    { weight: 1, arbitrary: object },
    { weight: 1, arbitrary: fc.constant('...Named') },
  )
  return fc.array(one, { minLength: 1, maxLength: 4 }).map((parts) => parts.join(' '))
}

const asked = fc.constantFrom(...Object.keys(EVENTS)).chain((name) => {
  const type = getNamedType(schema.getSubscriptionType()!.getFields()[name]!.type)
  return fc.record({
    document: fc
      .tuple(
        selections(type, 2),
        isObjectType(type) ? fc.constant('__typename') : selections(type, 1),
        fc.constantFrom('', 'it: '),
      )
      .map(
        ([
          own,
          named,
          alias,
        ]) => `subscription ($after: StreamCursor, $yes: Boolean!, $no: Boolean = false) { ${alias}${HEAD[name]} { ${own} } }
          fragment Named on ${type.name} { ${named.replaceAll('...Named', '__typename')} }`,
      ),
    event: EVENTS[name]!.map((event) => ({ ...AT, ...event })),
    yes: fc.boolean(),
  })
})

test('a payload that is built from the event alone has the bytes of an execution, for any selection', () => {
  let answered = 0
  const property = fc.property(asked, ({ document: source, event, yes }) => {
    const document = parse(source)
    const unused = validate(schema, document).filter(({ message }) => !/is never used/.test(message))
    fc.pre(unused.length === 0)
    for (const value of [yes, !yes]) {
      const operation = { schema, document, variableValues: { yes: value } }
      const plain = createPlainAnswer(operation, MAX_BYTES)(event)
      if (plain === null) continue
      answered += 1
      expect(plain).toBe(JSON.stringify(execute({ ...operation, rootValue: event, contextValue: {} })))
    }
  })
  fc.assert(property, { numRuns: runsOf({ usual: 300, nightly: 5000 }) })
  expect(answered).toBeGreaterThan(30)
})

const delta = { ...AT, type: 'MessageTextDelta', messageId: 'msg_1', partIndex: 0, offset: 3, delta: '“hé”' }
const plainOf = (selection: string, event: object = delta) =>
  createPlainAnswer(
    { schema, document: parse(`subscription { spaceMessages(spaceId: "spc_1") { ${selection} } }`) },
    MAX_BYTES,
  )(event)

test('a delta is built from the event, even if other events of the operation need lookups', () => {
  expect(
    plainOf(
      '__typename cursor ... on MessagePosted { message { text } } ... on MessageTextDelta { by: messageId delta }',
    ),
  ).toBe(
    `{"data":{"spaceMessages":{"__typename":"MessageTextDelta","cursor":"${AT.cursor}","by":"msg_1","delta":"“hé”"}}}`,
  )
})

test('fields that need a lookup, or do not match their type, are left to full execution', () => {
  expect(plainOf('... on MessageTextDelta { delta part { text } }')).toBeNull()
  expect(plainOf('cursor', { ...delta, cursor: null })).toBeNull()
  expect(plainOf('... on MessageTextDelta { offset }', { ...delta, offset: 'far' })).toBeNull()
})

test('subscriptions to many spaces with one document share one plan', () => {
  const document = parse(
    'subscription ($id: ID!) { spaceMessages(spaceId: $id) { ... on MessageTextDelta { delta } } }',
  )
  const [one, two] = ['spc_1', 'spc_2'].map((id) =>
    createPlainAnswer({ schema, document, variableValues: { id } }, MAX_BYTES),
  )
  expect(one?.(delta)).toBe('{"data":{"spaceMessages":{"delta":"“hé”"}}}')
  const lookUp = vi.spyOn(schema, 'getType')
  expect(two?.(delta)).toBe('{"data":{"spaceMessages":{"delta":"“hé”"}}}')
  expect(lookUp).not.toHaveBeenCalled()
})
