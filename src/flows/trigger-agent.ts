import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { NO_SUCH_AGENT } from '../agents/existing-agent.ts'
import { UNMARKED } from '../confidentiality/marks.ts'
import type { Run } from '../generated/prisma/client.ts'
import { type OverBudget, WHY_OVER_BUDGET } from '../lib/budget.ts'
import { BadInputError, ConflictError, ForbiddenError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { newId, prefixOf } from '../lib/ids.ts'
import { type Json, toJson } from '../lib/json.ts'
import { checkIdempotencyKey, checkJsonSize, checkName } from '../lib/validate.ts'
import { overBudget } from '../platform/budget-state.ts'
import type { Platform } from '../platform/platform.ts'
import { isAdmin } from '../rules/permissions.ts'
import { wayToWake } from '../rules/wake.ts'
import { findWoken, publishWoken, type WokenAgent, wake } from './wake.ts'

export interface TriggerAgentInput {
  agentId: string
  /** The name of the service. Required for an admin. A service token has its own name. */
  serviceName?: string | null
  payload: unknown
  /** Whether the event is urgent. Only persistent agents support this. */
  urgent?: boolean | null
  idempotencyKey?: string | null
}

/** A validated call by a service. */
export interface ServiceCall {
  agentId: string
  name: string
  /** The id of the token or webhook; null for an admin. */
  serviceId: string | null
  payload: Json
  urgent: boolean
  /**
   * The key for deduplication. The same key of the same caller wakes an agent only once. Null disables deduplication.
   */
  key: { callerId: string; value: string } | null
}

/** Triggers agents on behalf of services. */
export interface Triggers {
  /**
   * Triggers an agent. Only admins, and services that have access to the agent, may do this. `run` is null if a
   * persistent agent received an inbox event. Repeating an idempotency key returns the same run and wakes no agent.
   * @throws ForbiddenError for humans, NotFoundError, BadInputError; ConflictError if the agent is paused
   */
  trigger(viewer: Viewer, input: TriggerAgentInput): Promise<{ run: Run | null }>
  /**
   * Triggers an agent for a caller that has already been authorized. Returns null if the agent does not exist. `run`
   * may come from an earlier call with the same key.
   * @throws ConflictError if the agent is paused
   */
  call(call: ServiceCall): Promise<{ run: Run | null; isNew: boolean } | null>
}

export function createTriggers(
  platform: Pick<Platform, 'db' | 'signals'>,
  { visibility }: { visibility: Visibility },
): Triggers {
  const { db } = platform

  async function call({ agentId, key, ...service }: ServiceCall) {
    const dedupKey = key === null ? null : `${key.callerId}:${agentId}:${key.value}`
    const rootId = newId('trg')
    const called = await db.transaction(async (tx) => {
      // The lock prevents the agent from being deleted or paused before the trigger is written.
      const [agent] = await tx.$queryRaw<(WokenAgent & { paused: boolean; over: OverBudget | null })[]>`
        SELECT id, mind::text, paused, ${overBudget({ agentId, spaceId: null, rootId })} AS over FROM "Agent" WHERE id = ${agentId} FOR KEY SHARE`
      if (agent === undefined) return null
      const refusal = refusalOf(agent)
      const woken =
        refusal === null
          ? await wake(tx, agent, {
              trigger: { type: 'SERVICE', ...service, provenance: UNMARKED },
              key: dedupKey === null ? null : { once: dedupKey },
              lineage: { rootId, depth: 0, parentRunId: null },
            })
          : null
      if (woken !== null) return { run: woken.runs[0] ?? null, isNew: true, woken }
      const earlier = await findWoken(tx, agent, dedupKey)
      if (earlier === null && refusal !== null) throw refusal
      return { run: earlier?.run ?? null, isNew: false, woken }
    })
    if (called !== null && called.woken !== null) await publishWoken(platform, called.woken)
    return called
  }

  return {
    call,
    async trigger(viewer, input) {
      if (viewer.scope === 'HUMAN' && !isAdmin(viewer))
        throw new ForbiddenError('Only services trigger agents: post a message instead.')
      const { agentId, payload, idempotencyKey } = input
      const isVisible = prefixOf(agentId) === 'agt' && visibility.agents(viewer, [agentId]).has(agentId)
      if (!isVisible) throw new NotFoundError(NO_SUCH_AGENT)
      checkJsonSize(payload, 'input.payload')
      const woken = await call({
        agentId,
        ...callerOf(viewer, input),
        payload: toJson(payload),
        urgent: input.urgent === true,
        key:
          idempotencyKey == null
            ? null
            : { callerId: viewer.id, value: checkIdempotencyKey(idempotencyKey, 'input.idempotencyKey') },
      })
      if (woken === null) throw new NotFoundError(NO_SUCH_AGENT)
      return { run: woken.run }
    },
  }
}

function refusalOf({ paused, over, mind }: WokenAgent & { paused: boolean; over: OverBudget | null }) {
  if (paused) return new ConflictError('The agent is paused: an admin must resume it first (updateAgent).')
  if (over === null || wayToWake({ mind }) === 'INBOX') return null
  const until = over === 'ROOT' ? 'until an admin raises the limit' : 'until the next day (UTC)'
  return new LimitExceededError(`${WHY_OVER_BUDGET[over]} The agent cannot be triggered ${until}.`)
}

function callerOf(viewer: Viewer, { serviceName }: TriggerAgentInput) {
  if (viewer.scope === 'SERVICE') return { name: viewer.name, serviceId: viewer.id }
  if (serviceName == null) throw new BadInputError('An admin must set serviceName.', 'input.serviceName')
  return { name: checkName(serviceName, 'input.serviceName'), serviceId: null }
}
