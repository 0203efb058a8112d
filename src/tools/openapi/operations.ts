import { LONGEST_TOOL_NAME } from '../../agents/tool-names.ts'
import { cut, isObject, type Json, type JsonObject } from '../../lib/json.ts'
import { checkInputSchema } from '../../lib/json-schema.ts'
import { normalSchema } from '../../lib/normal-schema.ts'
import { hasBody, isTemplateName } from '../../rules/http-request.ts'
import { createSchemaReader, OperationProblem, type SchemaReader } from './schemas.ts'

/** An operation of an OpenAPI document, converted to an HTTP tool. */
export interface OpenApiTool {
  /** The method and path: `GET /pets/{id}`. */
  operation: string
  /** A valid tool name, which is not necessarily unique. */
  name: string
  description: string
  /** The URL in the form of `ToolInput.url`, with placeholders for the inputs that are part of it. */
  url: string
  method: string
  inputSchema: JsonObject
  /** The reason why the operation cannot be converted completely, as a sentence; null if it can. */
  problem: string | null
}

/** The document cannot be read. The message is a sentence that gives the reason. */
export class DocumentFault extends Error {}

const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const
const MOST_OPERATIONS = 1000
const LONGEST_DESCRIPTION = 2000
const LONGEST_OPERATION = 300
const LONGEST_URL = 2048
const LONGEST_PROBLEM = 500
const LONGEST_SCHEMA = 65_536
/** The maximum size of all schemas in characters. All of them are returned in one response. */
const LONGEST_SCHEMAS = 2_000_000
/** The time limit for checking schemas. The remaining schemas are checked when their tool is saved. */
const LONGEST_CHECKS_MS = 5_000

/**
 * Returns the operations of an OpenAPI 3 document as tools.
 * @param address the URL of the document, to resolve relative server addresses; null if the document was given as text
 * @throws DocumentFault
 */
export function toolsOfDocument(document: Json, address: string | null): OpenApiTool[] {
  if (!isObject(document)) throw new DocumentFault('The document is not OpenAPI: its root is not an object.')
  if (typeof document['swagger'] === 'string')
    throw new DocumentFault(
      `The document is Swagger ${document['swagger'].slice(0, 20)}: convert it to OpenAPI 3 first.`,
    )
  if (typeof document['openapi'] !== 'string' || !document['openapi'].startsWith('3.'))
    throw new DocumentFault('The document is not OpenAPI 3: its field "openapi" must begin with "3.".')
  const paths = document['paths']
  if (!isObject(paths)) throw new DocumentFault('The document has no paths.')
  const reader = createSchemaReader(document)
  const operations = Object.entries(paths).flatMap(([path, item]) => operationsOf(path, item, reader))
  if (operations.length === 0) throw new DocumentFault('The document has no operations.')
  if (operations.length > MOST_OPERATIONS)
    throw new DocumentFault(`The document has ${operations.length} operations; at most ${MOST_OPERATIONS} can be read.`)
  const checkUntil = performance.now() + LONGEST_CHECKS_MS
  let left = LONGEST_SCHEMAS
  return operations.map((operation) => {
    const tool = toolOf(operation, { document, reader, address, checkUntil })
    const length = JSON.stringify(tool.inputSchema).length
    if (length <= left) left -= length
    else
      return {
        ...tool,
        inputSchema: EMPTY,
        problem: tool.problem ?? 'The schemas of the document are too long in total.',
      }
    return tool
  })
}

const EMPTY: JsonObject = { type: 'object', properties: {} }

interface Operation {
  path: string
  method: (typeof METHODS)[number]
  item: JsonObject
  given: JsonObject
}

function operationsOf(path: string, given: Json, reader: SchemaReader): Operation[] {
  const item = tried(() => reader.resolved(given)) ?? {}
  return METHODS.flatMap((method) => {
    const operation = item[method]
    return isObject(operation) ? [{ path, method, item, given: operation }] : []
  })
}

function tried<T>(work: () => T): T | null {
  try {
    return work()
  } catch (error) {
    if (error instanceof OperationProblem) return null
    throw error
  }
}

interface Reading {
  document: JsonObject
  reader: SchemaReader
  address: string | null
  checkUntil: number
}

function toolOf(operation: Operation, reading: Reading): OpenApiTool {
  const method = operation.method.toUpperCase()
  const label = cut(`${method} ${operation.path}`, LONGEST_OPERATION)
  const { operationId, summary, description } = operation.given
  const words = [summary, description].filter((text) => typeof text === 'string' && text.trim() !== '')
  const tool = {
    operation: label,
    name: toolName(typeof operationId === 'string' && operationId !== '' ? operationId : label),
    description: cut(words.length === 0 ? label : words.join('\n'), LONGEST_DESCRIPTION).replaceAll('\0', ''),
    method,
  }
  try {
    const url = urlOf(operation, reading)
    const { query, inputSchema } = inputOf(operation, reading)
    const whole = `${url}${query.length === 0 ? '' : `{?${query.join(',')}}`}`
    if (whole.length > LONGEST_URL)
      throw new OperationProblem(`The operation's URL is longer than ${LONGEST_URL} characters.`)
    return { ...tool, url: whole, inputSchema, problem: securityProblem(operation, reading) }
  } catch (error) {
    if (!(error instanceof OperationProblem)) throw error
    const url = cut(tried(() => urlOf(operation, reading)) ?? operation.path, LONGEST_URL)
    return { ...tool, url, inputSchema: EMPTY, problem: cut(error.message, LONGEST_PROBLEM) }
  }
}

const toolName = (text: string) =>
  cut(text.replace(/[^A-Za-z0-9_-]+/g, '_').replace(/^_+|_+$/g, ''), LONGEST_TOOL_NAME) || 'operation'

function urlOf({ path, item, given }: Operation, { document, reader, address }: Reading): string {
  const lists = [given['servers'], item['servers'], document['servers']]
  const [first] = (lists.find((list) => Array.isArray(list) && list.length > 0) ?? []) as Json[]
  const server = isObject(first) ? first : { url: '/' }
  const variables = reader.resolved(server['variables'])
  const filled = String(server['url'] ?? '/').replace(/\{([^{}]*)\}/g, (whole, name: string) => {
    const variable = variables[name]
    return isObject(variable) && variable['default'] !== undefined ? String(variable['default']) : whole
  })
  const base = URL.parse(filled, address ?? undefined)
  if (base === null || !['http:', 'https:'].includes(base.protocol))
    throw new OperationProblem(
      `The document does not contain the URL of its server (${JSON.stringify(filled.slice(0, 200))}): pass the URL of the document instead of its text, or set the URL of the tool yourself.`,
    )
  if (base.username !== '' || base.password !== '' || base.search !== '' || base.hash !== '')
    throw new OperationProblem("The URL of the operation's server contains a user, a query or a fragment.")
  return `${base.href.replace(/\/$/, '')}${path}`
}

interface Parameter {
  name: string
  in: string
  required: boolean
  given: JsonObject
}

/** The inputs of an operation that become part of its URL. */
interface UrlInputs {
  properties: Map<string, Json>
  required: string[]
  /** The names of the query parameters, as in the URL template. */
  query: string[]
}

function inputOf(operation: Operation, { reader, checkUntil }: Reading): { query: string[]; inputSchema: JsonObject } {
  const { properties, required, query } = urlInputsOf(operation, reader)
  const body = bodyOf(operation, reader)
  for (const [name, schema] of Object.entries(body?.properties ?? {})) {
    if (properties.has(name))
      throw new OperationProblem(`A parameter of the operation and a field of its body have the name ${name}.`)
    properties.set(name, schema)
  }
  const all = [...new Set([...required, ...(body?.required ?? [])])]
  const whole = { ...body?.rest, type: 'object', properties: Object.fromEntries(properties), required: all }
  return { query, inputSchema: checked(normalSchema(whole), checkUntil) }
}

function urlInputsOf(operation: Operation, reader: SchemaReader): UrlInputs {
  const inputs: UrlInputs = { properties: new Map(), required: [], query: [] }
  for (const parameter of parametersOf(operation, reader)) {
    if (isLeftOut(parameter)) continue
    const { name, in: place, required, given } = parameter
    if (inputs.properties.has(name))
      throw new OperationProblem(`Two parameters of the operation have the name ${name}.`)
    const schema = reader.schema(given['schema'])
    const repeats = schema['type'] === 'array' && given['explode'] !== false
    if (place === 'query') inputs.query.push(repeats ? `${name}*` : name)
    if (required) inputs.required.push(name)
    const { description } = given
    const words = typeof description === 'string' ? cut(description, LONGEST_DESCRIPTION) : null
    inputs.properties.set(name, words === null ? schema : { description: words, ...schema })
  }
  for (const [, name = ''] of operation.path.matchAll(/\{([^{}]*)\}/g))
    if (!inputs.properties.has(name))
      throw new OperationProblem(`The operation's path contains {${name}}, which is not one of its parameters.`)
  return inputs
}

function checked(schema: JsonObject, checkUntil: number): JsonObject {
  if (JSON.stringify(schema).length > LONGEST_SCHEMA)
    throw new OperationProblem(`The operation's schema is longer than ${LONGEST_SCHEMA} characters.`)
  const fault = performance.now() < checkUntil ? checkInputSchema(schema) : null
  if (fault !== null) throw new OperationProblem(fault)
  return schema
}

/**
 * Returns the parameters of an operation, including those that are defined for its path and that the operation does
 * not redefine.
 */
function parametersOf({ item, given }: Operation, reader: SchemaReader): Parameter[] {
  const found = new Map<string, Parameter>()
  const lists = [item['parameters'], given['parameters']].flatMap((list) => (Array.isArray(list) ? list : []))
  for (const one of lists) {
    const parameter = reader.resolved(one)
    const [name, place] = [String(parameter['name'] ?? ''), String(parameter['in'] ?? '')]
    const required = place === 'path' || parameter['required'] === true
    found.set(`${place} ${name}`, { name, in: place, required, given: parameter })
  }
  return [...found.values()]
}

/** Header parameters with these names are ignored, as OpenAPI requires. */
const IGNORED_HEADERS = ['accept', 'content-type', 'authorization']

/**
 * Whether the tool leaves out an optional parameter because tools cannot send it.
 * @throws OperationProblem if such a parameter is required
 */
function isLeftOut({ name, in: place, required, given }: Parameter): boolean {
  if (place === 'header' && IGNORED_HEADERS.includes(name.toLowerCase())) return true
  const why = reasonToLeaveOut({ name, place, given })
  if (why === null) return false
  if (required) throw new OperationProblem(why)
  return true
}

function reasonToLeaveOut({ name, place, given }: { name: string; place: string; given: JsonObject }): string | null {
  if (place === 'header')
    return `The operation needs the header ${name}: set it as a header of the tool if its value is always the same.`
  if (place === 'cookie') return `The operation needs the cookie ${name}, which tools do not send.`
  if (place !== 'path' && place !== 'query') return `The operation's parameter ${name} has an unknown location.`
  if (!isTemplateName(name))
    return `The operation's parameter ${JSON.stringify(name)} has a name with characters other than letters, digits and _ . $ [ ] -.`
  if (given['content'] !== undefined || given['style'] === 'deepObject')
    return `The operation's parameter ${name} is an object, which tools do not send in a URL.`
  const { schema } = given
  if (isObject(schema) && schema['type'] === 'object')
    return `The operation's parameter ${name} is an object, which tools do not send in a URL.`
  return null
}

interface Body {
  properties: JsonObject
  required: string[]
  rest: JsonObject
}

function bodyOf({ method, given }: Operation, reader: SchemaReader): Body | null {
  if (given['requestBody'] === undefined) return null
  const body = reader.resolved(given['requestBody'])
  const content = reader.resolved(body['content'])
  const json = Object.keys(content).find((type) => /^application\/([\w.+-]+\+)?json\b/i.test(type))
  const isRequired = body['required'] === true
  if (json === undefined || !hasBody(method.toUpperCase())) {
    if (!isRequired) return null
    if (json !== undefined)
      throw new OperationProblem(
        `The operation is a ${method.toUpperCase()} that requires a body, and tools do not send a body with it.`,
      )
    const types = Object.keys(content).join(', ').slice(0, 200)
    throw new OperationProblem(
      `The operation's body has ${types === '' ? 'no media type' : `the type ${types}`}, but tools send only JSON.`,
    )
  }
  const { schema } = reader.resolved(content[json])
  const { properties, required, type, $schema: _, ...rest } = normalSchema(reader.schema(schema))
  if (type !== undefined && type !== 'object')
    throw new OperationProblem(
      `The operation's body has the type ${JSON.stringify(type)}, but tools send only objects.`,
    )
  return {
    properties: isObject(properties) ? properties : {},
    required: isRequired && Array.isArray(required) ? required.map(String) : [],
    rest: ownRules(rest),
  }
}

/**
 * Returns the rules of a body's schema that the tool's schema can keep. Rules about the number or names of fields
 * are dropped, because they would also apply to the operation's parameters.
 */
function ownRules({ additionalProperties }: JsonObject): JsonObject {
  return isObject(additionalProperties) || additionalProperties === true ? { additionalProperties } : {}
}

/**
 * Returns the reason why the operation's credentials cannot be sent; null if a header can carry them, or the
 * operation needs none.
 */
function securityProblem({ given }: Operation, { document, reader }: Reading): string | null {
  const wanted = given['security'] ?? document['security']
  if (!Array.isArray(wanted) || wanted.length === 0) return null
  const components = reader.resolved(document['components'])
  const schemes = reader.resolved(components['securitySchemes'])
  const elsewhere = wanted.map((alternative) =>
    Object.keys(isObject(alternative) ? alternative : {})
      .map((name) => tried(() => reader.resolved(schemes[name])) ?? {})
      .find((scheme) => scheme['type'] === 'apiKey' && scheme['in'] !== 'header'),
  )
  const [first] = elsewhere
  if (first === undefined || elsewhere.includes(undefined)) return null
  return `The operation expects its key in the ${String(first['in'])} as ${String(first['name']).slice(0, 100)}, but tools send keys only in headers.`
}
