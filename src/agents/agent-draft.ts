import type { AgentDraft, Prisma } from '../generated/prisma/client.ts'
import type { SecretBox } from '../platform/secret-box.ts'
import type { UpdateAgentInput } from './agent-input.ts'
import type { HeadersInput } from './outgoing-request.ts'

/** The headers in a draft, by the list and the name of their tool or server; `remote`: those of the remote agent, if given. */
type DraftHeaders = Record<'tools' | 'mcpServers', Record<string, HeadersInput>> & { remote?: HeadersInput }

const contextOf = (agentId: string) => `draft:${agentId}`

/** Separates the changes of a draft from the headers in them, which are encrypted. */
export function draftOf(
  input: UpdateAgentInput,
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
  const changes = {
    ...input,
    ...(tools && { tools }),
    ...(mcpServers && { mcpServers }),
    ...(input.remote && { remote }),
  }
  const isSecret =
    [...Object.keys(headers.tools), ...Object.keys(headers.mcpServers)].length > 0 || ofRemote !== undefined
  return {
    changes: JSON.parse(JSON.stringify(changes)) as Prisma.InputJsonValue,
    headersSealed: isSecret ? secretBox.seal(JSON.stringify(headers), contextOf(input.id)) : null,
  }
}

/** The reverse of `draftOf`. @throws SealBrokenError */
export function inputOfDraft(
  { agentId, changes, headersSealed }: Pick<AgentDraft, 'agentId' | 'changes' | 'headersSealed'>,
  secretBox: SecretBox,
): UpdateAgentInput {
  const input = changes as unknown as UpdateAgentInput
  if (headersSealed === null) return input
  const headers = JSON.parse(secretBox.open(headersSealed, contextOf(agentId))) as DraftHeaders
  const withHeaders = <One extends { name: string }>(list: 'tools' | 'mcpServers', all: readonly One[]) =>
    all.map((one) => (Object.hasOwn(headers[list], one.name) ? { ...one, headers: headers[list][one.name] } : one))
  return {
    ...input,
    ...(input.tools && { tools: withHeaders('tools', input.tools) }),
    ...(input.mcpServers && { mcpServers: withHeaders('mcpServers', input.mcpServers) }),
    ...(input.remote && 'remote' in headers && { remote: { ...input.remote, headers: headers.remote } }),
  } as UpdateAgentInput
}

/**
 * Returns the changes of a draft combined with further ones: a later field replaces an earlier one, `cycle` and `budget` are merged as in
 * an update, and a tool, server or remote agent keeps the headers that an earlier change of the draft gave it.
 */
export function mergedInput(before: UpdateAgentInput, after: UpdateAgentInput): UpdateAgentInput {
  const given = Object.fromEntries(Object.entries(after).filter(([, value]) => value !== undefined))
  const merged: UpdateAgentInput = { ...before, ...given, id: after.id }
  if (before.cycle != null && after.cycle != null) merged.cycle = { ...before.cycle, ...after.cycle }
  if (before.budget != null && after.budget != null) merged.budget = { ...before.budget, ...after.budget }
  if (after.tools != null) merged.tools = keepHeaders(before.tools, after.tools)
  if (after.mcpServers != null) merged.mcpServers = keepHeaders(before.mcpServers, after.mcpServers)
  if (before.remote != null && after.remote !== null) merged.remote = keepRemote(before, after)
  return merged
}

/** Headers were given for one address, which a later change of the draft may replace. */
function keepRemote(
  { model, remote }: UpdateAgentInput,
  after: UpdateAgentInput,
): NonNullable<UpdateAgentInput['remote']> {
  const { headers, ...rest } = { ...remote, ...after.remote }
  const isSame = after.model === undefined || after.model === model || after.remote?.headers !== undefined
  return isSame && headers !== undefined ? { ...rest, headers } : rest
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
