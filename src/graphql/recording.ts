import {
  type GraphQLInputType,
  type GraphQLSchema,
  getNamedType,
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
} from 'graphql'
import type { Viewer } from '../access/viewer.ts'
import { prefixOf } from '../lib/ids.ts'
import { type Json, type JsonObject, storableText } from '../lib/json.ts'
import type { Context } from './context.ts'

/**
 * Mutations without an audit entry. A mutation is in this list if it is so frequent that its rows are a sufficient
 * record, if it changes no stored data, or if it writes a separate entry for each of its parts. Refusals of these
 * mutations are audited nevertheless.
 */
const WITHOUT_ENTRY = new Set(['sendMessage', 'markRead', 'triggerAgent', 'decideToolCalls', 'react', 'setTyping'])

/**
 * Mutations whose input field `name` is recorded, because the name identifies an object without an id, and is
 * neither content nor a secret.
 */
const NAMES_ITS_TARGET = new Set(['setModelProvider', 'deleteModelProvider', 'testModelProvider'])
const LONGEST_NAME = 64

/** Input fields that identify the target of a mutation. The first field that the input contains is used. */
const TARGETS = [
  'id',
  'runId',
  'toolCallId',
  'cycleId',
  'spaceId',
  'agentId',
  'humanId',
  'planId',
  'webhookId',
  'messageId',
]

/**
 * Makes every mutation write an audit entry with the actor, the action, and the parts of the input that are neither
 * content nor secrets. If an admin acts as the actor, `detail.actingAdminId` is the id of the admin, or null if the
 * admin is the operator.
 */
export function recorded(schema: GraphQLSchema): GraphQLSchema {
  for (const field of Object.values(schema.getMutationType()?.getFields() ?? {})) {
    const { name: action, resolve, args } = field
    if (resolve === undefined) continue
    const type = args.find(({ name }) => name === 'input')?.type
    field.resolve = (parent, given, context: Context, info) => {
      const acting = context.viewer.scope === 'HUMAN' ? context.viewer.acting : undefined
      const carryOut = async () => resolve(parent, given, context, info)
      const deedOf = () => {
        const input = (given as { input?: JsonObject }).input ?? {}
        const named: JsonObject = NAMES_ITS_TARGET.has(action)
          ? { name: storableText(String(input.name)).slice(0, LONGEST_NAME) }
          : {}
        const detail = {
          ...(type === undefined ? {} : { ...named, ...detailOf(type, input) }),
          ...(acting === undefined ? {} : { actingAdminId: acting.adminId }),
        }
        const targetId = action.startsWith('create') ? null : targetOf(input)
        return { ...actorOf(context.viewer), action, targetId, detail }
      }
      // While an admin acts as another human, all mutations are recorded, however frequent they are.
      const onlyRefusals = WITHOUT_ENTRY.has(action) && acting === undefined
      return context.domain.record.during(deedOf, carryOut, { onlyRefusals })
    }
  }
  return schema
}

export function actorOf(viewer: Viewer): { actorId: string | null; serviceName: string | null } {
  return {
    actorId: viewer.scope === 'HUMAN' ? viewer.id : null,
    serviceName: viewer.scope === 'SERVICE' ? viewer.name : null,
  }
}

const isOurId = (value: unknown): value is string => typeof value === 'string' && prefixOf(value) !== null

function targetOf(input: JsonObject): string | null {
  const found = TARGETS.map((name) => input[name]).find(isOurId)
  return found ?? null
}

const SAYS_NOTHING_PRIVATE = ['Boolean', 'Int', 'Float']

/**
 * Returns the names of the input's fields (`fields`), and the values of ids, enums, booleans and numbers. The
 * values of texts and JSON are left out.
 */
function detailOf(type: GraphQLInputType, input: JsonObject): JsonObject {
  const named = getNamedType(type)
  if (!isInputObjectType(named)) return {}
  const fields = Object.keys(input)
  const shown = fields.flatMap((name): [string, Json][] => {
    const field = named.getFields()[name]
    const value = field === undefined ? undefined : shownValue(field.type, input[name] as Json)
    return value === undefined ? [] : [[name, value]]
  })
  return { ...Object.fromEntries(shown), fields }
}

function shownValue(type: GraphQLInputType, value: Json): Json | undefined {
  if (value === null) return null
  if (isNonNullType(type)) return shownValue(type.ofType, value)
  if (isListType(type)) {
    const shown = (value as Json[]).map((item) => shownValue(type.ofType, item))
    return shown.some((item) => item === undefined) ? undefined : (shown as Json[])
  }
  if (isInputObjectType(type)) return detailOf(type, value as JsonObject)
  if (isEnumType(type) || SAYS_NOTHING_PRIVATE.includes(type.name)) return value
  return type.name === 'ID' && isOurId(value) ? value : undefined
}
