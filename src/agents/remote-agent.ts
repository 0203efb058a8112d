import type { Limits } from '../config.ts'
import { type Agent, Prisma } from '../generated/prisma/client.ts'
import { BadInputError } from '../lib/errors.ts'
import { type ForeignModel, isForeignModel, parseForeignModel } from '../lib/foreign-model.ts'
import type { SecretBox } from '../platform/secret-box.ts'
import { type ApprovalPolicy, type ApprovalPolicyInput, checkApproval } from './approval-policy.ts'
import { checkHeaders, type Headers, type HeadersInput } from './outgoing-request.ts'

/** An admin's input for the connection to a remote agent, whose model name is `a2a:<card url>`. */
export interface RemoteAgentInput {
  /** The headers. Absent keeps the stored headers, and null removes them. */
  headers?: HeadersInput
  /** The approval policy. Absent keeps the stored policy, and null removes it. */
  approval?: ApprovalPolicyInput | null
  /** Whether the remote agent may receive confidential content. Absent keeps the stored value, and null means false. */
  mayReceiveConfidential?: boolean | null
}

/** The validated settings of the connection. Undefined keeps the stored setting, and null removes it. */
export interface RemoteSettings {
  headers: Headers | null | undefined
  approval: ApprovalPolicy | null | undefined
  mayReceiveConfidential: boolean | undefined
}

/** The latest agent card that was read. */
export interface RemoteCard {
  /** The URL from which the card was read. */
  cardUrl: string
  /** The fingerprint of the trusted card. This is the first card, until an admin confirms another one. */
  trusted: string
  /** The fingerprint of this card. */
  fingerprint: string
  /** When the card was read, in ms since 1970. Absent in cards stored by earlier versions. */
  readAt?: number
  name: string
  description: string
  version: string
  /** The URL to which messages for the agent are sent. */
  url: string
  skills: string[]
}

/** The columns of an agent's row that describe the connection to its remote agent. */
export type RemoteColumns = Pick<
  Agent,
  | 'id'
  | 'model'
  | 'remoteHeadersSealed'
  | 'remoteHeaderNames'
  | 'remoteApproval'
  | 'remoteMayReceiveConfidential'
  | 'remoteCard'
>

/** The remote agent in the form in which admins see it. */
export interface RemoteAgent {
  agentId: string
  cardUrl: string
  headerNames: string[]
  approval: ApprovalPolicy | null
  mayReceiveConfidential: boolean
  /** The card; null until a run has read it. */
  card: RemoteCard | null
  /** Whether messages may be sent to the remote agent, because its card equals the trusted card. */
  confirmed: boolean
}

export function remoteAgentOf(agent: RemoteColumns): RemoteAgent | null {
  const foreign = parseForeignModel(agent.model)
  if (foreign?.type !== 'a2a') return null
  const card = agent.remoteCard as unknown as RemoteCard | null
  return {
    agentId: agent.id,
    cardUrl: foreign.cardUrl,
    headerNames: agent.remoteHeaderNames,
    approval: agent.remoteApproval as ApprovalPolicy | null,
    mayReceiveConfidential: agent.remoteMayReceiveConfidential,
    card,
    confirmed: card === null || card.fingerprint === card.trusted,
  }
}

/**
 * Validates the settings of a connection. Undefined and null are returned unchanged. @throws BadInputError with the
 * invalid field
 */
export function checkRemote(
  input: RemoteAgentInput | null | undefined,
  limits: Limits,
): RemoteSettings | null | undefined {
  if (input == null) return input
  const { headers, approval, mayReceiveConfidential } = input
  return {
    headers: headers === undefined ? undefined : checkHeaders(headers, 'input.remote.headers'),
    approval: approval === undefined ? undefined : checkApproval(approval, 'input.remote.approval', limits),
    mayReceiveConfidential: mayReceiveConfidential === undefined ? undefined : mayReceiveConfidential === true,
  }
}

/** The settings of an agent that are checked if its model is a remote agent. */
export interface ForeignAgentFacts {
  model: string
  fallbackModels: readonly string[]
  phases: readonly { model: string | null }[]
  isPersistent: boolean
  mcpServerNames: readonly string[]
  /** Whether the input contains `remote`. */
  hasRemote: boolean
  maxSteps: number
  /** The maximum number of calls per run. */
  maxToolCalls: number
}

/** The minimum number of calls per run. A run sends the message with one call and posts the answer with another one. */
const FEWEST_FOREIGN_CALLS = 2

/**
 * Checks that a remote agent is used only as the main model of a stateless agent.
 * @throws BadInputError
 */
export function checkForeignUse(facts: ForeignAgentFacts): void {
  const { model, fallbackModels, phases, isPersistent, mcpServerNames, hasRemote } = facts
  const other = [...fallbackModels, ...phases.flatMap((phase) => phase.model ?? [])].find(isForeignModel)
  if (other !== undefined)
    throw new BadInputError(
      `Only the main model of an agent can be an agent on another server, not the model of a fallback or a phase.`,
      fallbackModels.includes(other) ? 'input.fallbackModels' : 'input.phases',
    )
  const foreign = parseForeignModel(model)
  if (hasRemote && foreign?.type !== 'a2a')
    throw new BadInputError('Only an agent whose model is "a2a:<card url>" can have `remote`.', 'input.remote')
  if (foreign === null) return
  const tooFew = facts.maxSteps < FEWEST_FOREIGN_CALLS ? 'maxSteps' : 'maxToolCalls'
  if (facts[tooFew] < FEWEST_FOREIGN_CALLS)
    throw new BadInputError(
      `An agent on another server needs one call to send the message, and one to post the answer: set ${tooFew} to at least ${FEWEST_FOREIGN_CALLS}.`,
      `input.${tooFew}`,
    )
  if (isPersistent)
    throw new BadInputError('An agent on another server keeps its own context: set mind to STATELESS.', 'input.model')
  if (phases.length > 0)
    throw new BadInputError(
      'An agent on another server has no phases, because that server controls its steps.',
      'input.phases',
    )
  if (foreign.type === 'mcp' && !mcpServerNames.includes(foreign.serverName))
    throw new BadInputError(`The agent has no MCP server named "${foreign.serverName}".`, 'input.model')
}

const contextOf = (agentId: string, model: string) => `remote:${agentId}:${model}`

/**
 * Decrypts the headers for a remote agent, given by the name of the model. @throws SealBrokenError if the headers were
 * given for another remote agent
 */
export function openRemoteHeaders(
  { id, remoteHeadersSealed }: Pick<RemoteColumns, 'id' | 'remoteHeadersSealed'>,
  model: string,
  secretBox: SecretBox,
): Headers {
  if (remoteHeadersSealed === null) return {}
  return JSON.parse(secretBox.open(remoteHeadersSealed, contextOf(id, model))) as Headers
}

const originOf = (foreign: ForeignModel | null) => (foreign?.type === 'a2a' ? new URL(foreign.cardUrl).origin : null)

const isSameOrigin = (model: string, other: string) =>
  originOf(parseForeignModel(model)) === originOf(parseForeignModel(other))

/**
 * Returns the columns after a change of the model or of `remote`. An undefined value means no change. A new model keeps
 * the approval policy. If its card has the same origin, it also keeps the headers and the permission to receive
 * confidential content. The card of the new model is trusted on first use, as for a new agent.
 * @throws BadInputError if headers would be sent to another origin
 */
export function remoteColumns(
  before: RemoteColumns,
  { model = before.model, remote }: { model?: string; remote?: RemoteSettings | null },
  secretBox: SecretBox,
): Partial<Prisma.AgentUncheckedUpdateInput> {
  const isMoved = model !== before.model
  if (!isMoved && remote === undefined) return {}
  if (parseForeignModel(model)?.type !== 'a2a' || remote === null) return { ...NO_REMOTE, ...(isMoved ? NO_CARD : {}) }
  const approval = remote?.approval
  const mayReceiveConfidential =
    remote?.mayReceiveConfidential ?? (isSameOrigin(before.model, model) ? undefined : false)
  return {
    ...headersAfter(before, model, remote?.headers, secretBox),
    ...(isMoved ? NO_CARD : {}),
    ...(approval === undefined
      ? {}
      : { remoteApproval: (approval as unknown as Prisma.InputJsonValue | null) ?? Prisma.DbNull }),
    ...(mayReceiveConfidential === undefined ? {} : { remoteMayReceiveConfidential: mayReceiveConfidential }),
  }
}

const NO_CARD = { remoteCard: Prisma.DbNull }
const NO_HEADERS = { remoteHeadersSealed: null, remoteHeaderNames: [] }
const NO_REMOTE = { ...NO_HEADERS, remoteApproval: Prisma.DbNull, remoteMayReceiveConfidential: false }

function headersAfter(
  before: RemoteColumns,
  model: string,
  given: Headers | null | undefined,
  secretBox: SecretBox,
): Partial<Prisma.AgentUncheckedUpdateInput> {
  if (given === null) return NO_HEADERS
  if (given === undefined) {
    if (before.remoteHeadersSealed === null || model === before.model) return {}
    if (!isSameOrigin(model, before.model))
      throw new BadInputError(
        'The URL has a different origin: send the headers again, or null to remove them.',
        'input.remote.headers',
      )
    return sealedFor(before.id, model, openRemoteHeaders(before, before.model, secretBox), secretBox)
  }
  return sealedFor(before.id, model, given, secretBox)
}

/** Returns the columns with the encrypted headers for a remote agent, given by the name of the model. */
export function sealedFor(agentId: string, model: string, headers: Headers, secretBox: SecretBox) {
  return {
    remoteHeadersSealed: secretBox.seal(JSON.stringify(headers), contextOf(agentId, model)),
    remoteHeaderNames: Object.keys(headers),
  }
}
