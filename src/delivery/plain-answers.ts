// Optimization: composes the answer to an event from its own scalar fields, without executing GraphQL. To remove
// this stage, delete its call in answers.ts; GraphQL then executes the operation on every event. Gain: 1.6 to 2.1 ×
// less CPU per message in groups of 10 subscribers, 1.1 × in a group of 1,000 (docs/decisions/delivery-stages.md).
// The limit of `bench/fanout` with 1,000 viewers in 100 spaces needs this stage.
import {
  type DocumentNode,
  type ExecutionArgs,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLField,
  type GraphQLLeafType,
  type GraphQLObjectType,
  type GraphQLSchema,
  getArgumentValues,
  getNullableType,
  getOperationAST,
  getVariableValues,
  isAbstractType,
  isLeafType,
  isNonNullType,
  isObjectType,
  Kind,
  visit,
} from 'graphql'
import { collectFields, collectSubfields } from 'graphql/execution/collectFields.js'

/**
 * Composes the answer to an event from the event alone. Returns null if the operation must be executed because the
 * selection contains anything but the event's own scalar fields.
 */
export type PlainAnswer = (event: object) => string | null

type Operation = Pick<ExecutionArgs, 'schema' | 'document' | 'operationName' | 'variableValues'>

/** The selection of a subscription and its variables, which are the same for all its events. */
interface Question {
  schema: GraphQLSchema
  fragments: Record<string, FragmentDefinitionNode>
  variables: Record<string, unknown>
  key: string
  nodes: readonly FieldNode[]
  field: GraphQLField<unknown, unknown>
  given: Record<string, unknown>
}

/** A scalar field of the event, and the JSON text that precedes its value. */
interface Part {
  before: string
  name: string
  type: GraphQLLeafType
  isNonNull: boolean
}

interface Plan {
  parts: Part[]
  end: string
}

/**
 * Creates a function that answers the events of a valid subscription from a precomputed plan. The plan contains the
 * selected fields, their types and response names, which GraphQL execution would resolve again for each event. The
 * plan and GraphQL execution produce the same bytes (see test/delivery/plain-answers.test.ts).
 */
export function createPlainAnswer(operation: Operation, maxBytes: number): PlainAnswer {
  const question = questionOf(operation)
  const plans = plansOf(operation)

  return (event) => {
    if (question === null) return null
    const source = sourceOf(event, question)
    const type = source && typeOf(source, question)
    if (type === null) return null
    let plan = plans.get(type)
    if (plan === undefined) {
      plan = planOf(type, question)
      plans.set(type, plan)
    }
    return plan && textOf(source as Record<string, unknown>, plan, maxBytes)
  }
}

type Plans = Map<string, Plan | null>

/**
 * The plans by document and operation name. Subscriptions to different topics share these plans. `own`: the
 * selection depends on variables, so each subscription has separate plans.
 */
const sharedPlans = new WeakMap<DocumentNode, Map<string, Plans> | 'own'>()

function plansOf({ document, operationName }: Operation): Plans {
  const ofDocument = sharedPlans.get(document) ?? (selectsByVariables(document) ? 'own' : new Map<string, Plans>())
  sharedPlans.set(document, ofDocument)
  const plans = (ofDocument !== 'own' && ofDocument.get(operationName ?? '')) || new Map()
  if (ofDocument !== 'own') ofDocument.set(operationName ?? '', plans)
  return plans
}

/** Whether an `@include` or `@skip` depends on a variable. */
function selectsByVariables(document: DocumentNode): boolean {
  let isFound = false
  visit(document, {
    Directive({ arguments: given = [] }) {
      if (given.some(({ value }) => value.kind === Kind.VARIABLE)) isFound = true
    },
  })
  return isFound
}

/** Returns the selection of an operation; null unless the operation has exactly one root field. */
function questionOf({ schema, document, operationName, variableValues }: Operation): Question | null {
  const operation = getOperationAST(document, operationName)
  const root = schema.getSubscriptionType()
  if (operation == null || root == null) return null
  const { coerced } = getVariableValues(schema, operation.variableDefinitions ?? [], variableValues ?? {})
  if (coerced === undefined) return null
  const fragments = fragmentsOf(document)
  const [selected, ...others] = collectFields(schema, fragments, coerced, root, operation.selectionSet)
  const [key = '', nodes = []] = selected ?? []
  const node = nodes[0]
  const field = root.getFields()[node?.name.value ?? '']
  if (node === undefined || field === undefined || others.length > 0) return null
  return { schema, fragments, variables: coerced, key, nodes, field, given: getArgumentValues(field, node, coerced) }
}

function fragmentsOf({ definitions }: DocumentNode): Record<string, FragmentDefinitionNode> {
  const fragments: Record<string, FragmentDefinitionNode> = Object.create(null)
  for (const definition of definitions) {
    if (definition.kind === Kind.FRAGMENT_DEFINITION) fragments[definition.name.value] = definition
  }
  return fragments
}

/** Resolves the root field for an event; null if its resolver needs a context. */
function sourceOf(event: object, { field, given }: Question): object | null {
  const source = alone(() => field.resolve?.(event, given, undefined, undefined as never))
  return typeof source === 'object' ? source : null
}

/** Returns the type name of an event; null if resolving the type needs a context. */
function typeOf(event: object, { field }: Question): string | null {
  const type = getNullableType(field.type)
  if (!isAbstractType(type)) return isObjectType(type) ? type.name : null
  const found = alone(() => type.resolveType?.(event, undefined, undefined as never, type))
  return typeof found === 'string' ? found : null
}

/** Returns the result of a synchronous call that gets no context; null if the call fails or returns a promise. */
function alone(resolve: () => unknown): unknown {
  try {
    const value = resolve()
    if (!(value instanceof Promise)) return value
    value.catch(() => {})
    return null
  } catch {
    return null
  }
}

/** Returns the plan for an event type; null if the selection has a field that needs a resolver. */
function planOf(typeName: string, { schema, fragments, variables, key, nodes, field }: Question): Plan | null {
  const type = schema.getType(typeName)
  const declared = getNullableType(field.type)
  if (!isObjectType(type) || type.isTypeOf != null) return null
  if (isAbstractType(declared) && !schema.isSubType(declared, type)) return null
  const parts: Part[] = []
  let before = `{"data":{${JSON.stringify(key)}:{`
  let isFirst = true
  for (const [name, fields] of collectSubfields(schema, fragments, variables, type, nodes)) {
    before += `${isFirst ? '' : ','}${JSON.stringify(name)}:`
    isFirst = false
    const fieldName = fields[0]?.name.value ?? ''
    if (fieldName === '__typename') {
      before += JSON.stringify(type.name)
      continue
    }
    const part = partOf(type, fieldName, before)
    if (part === null) return null
    parts.push(part)
    before = ''
  }
  return { parts, end: `${before}}}}` }
}

/** Returns a field as a part of the plan; null if the field is not a scalar, or has a resolver or arguments. */
function partOf(parent: GraphQLObjectType, name: string, before: string): Part | null {
  const field = parent.getFields()[name]
  if (field === undefined || field.resolve !== undefined || field.args.length > 0) return null
  const type = getNullableType(field.type)
  return isLeafType(type) ? { before, name, type, isNonNull: isNonNullType(field.type) } : null
}

/** The maximum number of UTF-8 bytes for one UTF-16 unit. */
const MOST_BYTES_A_UNIT = 3

/**
 * Returns the answer's text. Returns null if a value does not match its type or the text may be too long. In this
 * case, the operation is executed instead.
 */
function textOf(event: Record<string, unknown>, { parts, end }: Plan, maxBytes: number): string | null {
  let text = ''
  for (const { before, name, type, isNonNull } of parts) {
    const value = jsonOf(event[name], type)
    if (value === null || (isNonNull && value === 'null')) return null
    text += before + value
    if (text.length * MOST_BYTES_A_UNIT > maxBytes) return null
  }
  return text + end
}

function jsonOf(value: unknown, type: GraphQLLeafType): string | null {
  if (value === null || value === undefined) return 'null'
  if (typeof value === 'function' || value instanceof Error) return null
  const serialized = alone(() => type.serialize(value))
  return serialized === null || serialized === undefined ? null : (JSON.stringify(serialized) ?? null)
}
