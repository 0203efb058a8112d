import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import type { Run } from '../generated/prisma/client.ts'
import { BadInputError, ConflictError, ForbiddenError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { newId, prefixOf } from '../lib/ids.ts'
import { type Json, toJson } from '../lib/json.ts'
import { checkIdempotencyKey, checkJsonSize, checkName } from '../lib/validate.ts'
import { type OverBudget, overBudget, WHY_OVER_BUDGET } from '../platform/budget-state.ts'
import type { Platform } from '../platform/platform.ts'
import { NO_SUCH_AGENT } from './existing-agent.ts'
import type { Waking, Woken, WokenAgent } from './waking.ts'

export interface TriggerAgentInput {
  agentId: string
  /** Required from an admin; a service's token has its own. */
  serviceName?: string | null
  payload: unknown
  /** Only for a persistent agent. */
  urgent?: boolean | null
  idempotencyKey?: string | null
}

/** A service's call, checked. */
export interface ServiceCall {
  agentId: string
  name: string
  /** The token's or the webhook's; null for an admin. */
  serviceId: string | null
  payload: Json
  urgent: boolean
  /** The same key of a caller wakes an agent once; null: nothing to deduplicate. */
  key: { callerId: string; value: string } | null
}

/** How services wake agents. */
export interface Triggers {
  /**
   * For admins, and services that were granted the agent. `run` is null where it went to a persistent agent's inbox. The
   * same idempotency key of the same caller gives the same run, and wakes nobody.
   * @throws ForbiddenError for humans, NotFoundError, BadInputError, ConflictError where the agent is paused
   */
  trigger(viewer: Viewer, input: TriggerAgentInput): Promise<{ run: Run | null }>
  /** For whoever has been let in already. Null: there is no such agent. @throws ConflictError where it is paused */
  call(call: ServiceCall): Promise<Pick<Woken, 'run' | 'isNew'> | null>
}

interface TriggerParts {
  visibility: Visibility
  waking: Waking
}

export function createTriggers({ db }: Pick<Platform, 'db'>, { visibility, waking }: TriggerParts): Triggers {
  async function call({ agentId, key, ...service }: ServiceCall) {
    const dedupKey = key === null ? null : `${key.callerId}:${agentId}:${key.value}`
    const rootId = newId('trg')
    const trigger = { type: 'SERVICE' as const, ...service, dedupKey, rootId }
    const woken = await db.transaction(async (tx) => {
      // Held, so that nobody deletes or pauses it before this is written.
      const [agent] = await tx.$queryRaw<(WokenAgent & { paused: boolean; over: OverBudget | null })[]>`
        SELECT id, mind::text, paused, ${overBudget({ agentId, spaceId: null, rootId })} AS over FROM "Agent" WHERE id = ${agentId} FOR KEY SHARE`
      if (agent === undefined) return null
      const refusal = refusalOf(agent)
      if (refusal === null) return waking.wake(tx, agent, trigger)
      const repeat = await waking.repeatOf(tx, agent, dedupKey)
      if (repeat === null) throw refusal
      return repeat
    })
    await woken?.afterCommit()
    return woken
  }

  return {
    call,
    async trigger(viewer, input) {
      if (viewer.scope === 'HUMAN') throw new ForbiddenError('Only services trigger agents: post a message instead.')
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
  if (over === null || mind !== 'STATELESS') return null
  const until = over === 'ROOT' ? 'until an admin raises the limit' : 'until the next day (UTC)'
  return new LimitExceededError(`${WHY_OVER_BUDGET[over]} The agent cannot be triggered ${until}.`)
}

function callerOf(viewer: Exclude<Viewer, { scope: 'HUMAN' }>, { serviceName }: TriggerAgentInput) {
  if (viewer.scope === 'SERVICE') return { name: viewer.name, serviceId: viewer.id }
  if (serviceName == null) throw new BadInputError('An admin must set serviceName.', 'input.serviceName')
  return { name: checkName(serviceName, 'input.serviceName'), serviceId: null }
}
