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
 * The text of an answer for which nothing but the event is needed: of what is asked of it all is its own scalars, and in order.
 * Null for any other, which has to be executed.
 */
export type PlainAnswer = (event: object) => string | null

type Operation = Pick<ExecutionArgs, 'schema' | 'document' | 'operationName' | 'variableValues'>

/** What is asked of an event, with the variables as they are for all of its events. */
interface Question {
  schema: GraphQLSchema
  fragments: Record<string, FragmentDefinitionNode>
  variables: Record<string, unknown>
  key: string
  nodes: readonly FieldNode[]
  field: GraphQLField<unknown, unknown>
  given: Record<string, unknown>
}

/** A scalar of the event, after the text that stands before it. */
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
 * Answers a valid subscription's events by what execution would look up anew for each: which fields are selected, of which type, under
 * which names. What is executed and what is answered here have the same bytes: test/server/plain-answers.test.ts.
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

/** Of operations whose variables say nothing about what is selected, by document and name: spaces that are watched alike share them. */
const sharedPlans = new WeakMap<DocumentNode, Map<string, Plans> | 'own'>()

function plansOf({ document, operationName }: Operation): Plans {
  const ofDocument = sharedPlans.get(document) ?? (selectsByVariables(document) ? 'own' : new Map<string, Plans>())
  sharedPlans.set(document, ofDocument)
  const plans = (ofDocument !== 'own' && ofDocument.get(operationName ?? '')) || new Map()
  if (ofDocument !== 'own') ofDocument.set(operationName ?? '', plans)
  return plans
}

/** `@include` and `@skip` do, where they ask a variable. */
function selectsByVariables(document: DocumentNode): boolean {
  let isFound = false
  visit(document, {
    Directive({ arguments: given = [] }) {
      if (given.some(({ value }) => value.kind === Kind.VARIABLE)) isFound = true
    },
  })
  return isFound
}

/** Null where it is not one field that is asked for. */
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

/** What the field makes of an event; null where it needs more than that. */
function sourceOf(event: object, { field, given }: Question): object | null {
  const source = alone(() => field.resolve?.(event, given, undefined, undefined as never))
  return typeof source === 'object' ? source : null
}

/** The name of an event's type; null where more is needed to say. */
function typeOf(event: object, { field }: Question): string | null {
  const type = getNullableType(field.type)
  if (!isAbstractType(type)) return isObjectType(type) ? type.name : null
  const found = alone(() => type.resolveType?.(event, undefined, undefined as never, type))
  return typeof found === 'string' ? found : null
}

/** What comes of it at once, without a context; null where it asks for more. */
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

/** Null where something is asked for that has to be resolved. */
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
    const asked = fields[0]?.name.value ?? ''
    if (asked === '__typename') {
      before += JSON.stringify(type.name)
      continue
    }
    const part = partOf(type, asked, before)
    if (part === null) return null
    parts.push(part)
    before = ''
  }
  return { parts, end: `${before}}}}` }
}

/** Null for what is no scalar, or is found by a resolver. */
function partOf(parent: GraphQLObjectType, name: string, before: string): Part | null {
  const field = parent.getFields()[name]
  if (field === undefined || field.resolve !== undefined || field.args.length > 0) return null
  const type = getNullableType(field.type)
  return isLeafType(type) ? { before, name, type, isNonNull: isNonNullType(field.type) } : null
}

/** Bytes that a UTF-16 unit may have in UTF-8. */
const MOST_BYTES_A_UNIT = 3

/** Null where a value is not as its type has it, or the text may be too long: then the event is executed. */
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
