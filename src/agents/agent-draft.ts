import type { AgentDraft, Prisma } from '../generated/prisma/client.ts'
import type { SecretBox } from '../platform/secret-box.ts'
import type { UpdateAgentInput } from './agent-input.ts'
import type { HeadersInput } from './outgoing-request.ts'

/**
 * The headers in a draft, by list and by name of the tool or MCP server. `remote` contains the headers of the remote
 * agent, if they were given. `remoteModel` is the model that the draft had when the settings of the remote agent were
 * given.
 */
type DraftHeaders = Record<'tools' | 'mcpServers', Record<string, HeadersInput>> & {
  remote?: HeadersInput
  remoteModel?: string
}

const contextOf = (agentId: string) => `draft:${agentId}`

/**
 * Separates the changes of a draft from the headers in them, and encrypts these headers.
 * @param model the model of the agent after the changes
 */
export function draftOf(
  input: UpdateAgentInput,
  model: string,
  secretBox: SecretBox,
): { changes: Prisma.InputJsonValue; headersSealed: string | null } {
  const headers: DraftHeaders = { tools: {}, mcpServers: {} }
  const without = (list: 'tools' | 'mcpServers') =>
    input[list]?.map(({ headers: given, ...one }) => {
      if (given !== undefined) headers[list][one.name] = given
      return one
    })
  const [tools, mcpServers] = [without('tools'), without('mcpServers')]
  const { headers: ofRemote, ...remote } = input.remote ?? {}
  if (ofRemote !== undefined) headers.remote = ofRemote
  if (input.remote != null) headers.remoteModel = model
  const changes = {
    ...input,
    ...(tools && { tools }),
    ...(mcpServers && { mcpServers }),
    ...(input.remote && { remote }),
  }
  const isSecret =
    [...Object.keys(headers.tools), ...Object.keys(headers.mcpServers)].length > 0 || input.remote != null
  return {
    changes: JSON.parse(JSON.stringify(changes)) as Prisma.InputJsonValue,
    headersSealed: isSecret ? secretBox.seal(JSON.stringify(headers), contextOf(input.id)) : null,
  }
}

/** A draft as an input. */
export interface DraftInput {
  input: UpdateAgentInput
  /** The model for which the settings of the remote agent were given; null for none. */
  remoteModel: string | null
}

/**
 * Restores the input from the result of `draftOf`.
 * @throws SealBrokenError
 */
export function inputOfDraft(
  { agentId, changes, headersSealed }: Pick<AgentDraft, 'agentId' | 'changes' | 'headersSealed'>,
  secretBox: SecretBox,
): DraftInput {
  const input = changes as unknown as UpdateAgentInput
  if (headersSealed === null) return { input, remoteModel: null }
  const headers = JSON.parse(secretBox.open(headersSealed, contextOf(agentId))) as DraftHeaders
  const withHeaders = <One extends { name: string }>(list: 'tools' | 'mcpServers', all: readonly One[]) =>
    all.map((one) => (Object.hasOwn(headers[list], one.name) ? { ...one, headers: headers[list][one.name] } : one))
  const opened = {
    ...input,
    ...(input.tools && { tools: withHeaders('tools', input.tools) }),
    ...(input.mcpServers && { mcpServers: withHeaders('mcpServers', input.mcpServers) }),
    ...(input.remote && 'remote' in headers && { remote: { ...input.remote, headers: headers.remote } }),
  } as UpdateAgentInput
  return { input: opened, remoteModel: headers.remoteModel ?? null }
}

/**
 * Returns the changes of a draft combined with further changes. A later field replaces an earlier one, but `cycle` and
 * `budget` are merged as in an update. A tool, MCP server or remote agent keeps the headers from an earlier change in
 * the draft.
 * @param model the current model of the agent, without the draft
 */
export function mergedInput(
  { input: before, remoteModel }: DraftInput,
  after: UpdateAgentInput,
  model: string,
): UpdateAgentInput {
  const given = Object.fromEntries(Object.entries(after).filter(([, value]) => value !== undefined))
  const merged: UpdateAgentInput = { ...before, ...given, id: after.id }
  if (before.cycle != null && after.cycle != null) merged.cycle = { ...before.cycle, ...after.cycle }
  if (before.budget != null && after.budget != null) merged.budget = { ...before.budget, ...after.budget }
  if (after.tools != null) merged.tools = keepHeaders(before.tools, after.tools)
  if (after.mcpServers != null) merged.mcpServers = keepHeaders(before.mcpServers, after.mcpServers)
  if (before.remote != null && after.remote !== null) {
    // Headers, and the permission to receive confidential content, were given for one address. The draft or the agent
    // may have another address now, so they are removed.
    const { headers: _headers, mayReceiveConfidential: _leave, ...rest } = before.remote
    const kept = remoteModel === (merged.model ?? model) ? before.remote : rest
    merged.remote = { ...kept, ...after.remote }
  }
  return merged
}

function keepHeaders<One extends { name: string; url?: string | null; headers?: HeadersInput }>(
  before: readonly One[] | null | undefined,
  after: readonly One[],
): One[] {
  return after.map((one) => {
    const same = before?.find(({ name, url }) => name === one.name && url === one.url)
    return one.headers === undefined && same?.headers !== undefined ? { ...one, headers: same.headers } : one
  })
}
