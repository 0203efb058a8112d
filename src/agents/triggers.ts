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
  /** Required for an admin; a service uses the name of its token. */
  serviceName?: string | null
  payload: unknown
  /** Only for persistent agents. */
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
  /** Deduplicates: the same key of a caller wakes an agent once. Null disables deduplication. */
  key: { callerId: string; value: string } | null
}

/** Lets services trigger agents. */
export interface Triggers {
  /**
   * For admins, and for services that were granted the agent. `run` is null if a persistent agent received an inbox
   * event. Repeating an idempotency key returns the same run and wakes nobody.
   * @throws ForbiddenError for humans, NotFoundError, BadInputError, ConflictError if the agent is paused
   */
  trigger(viewer: Viewer, input: TriggerAgentInput): Promise<{ run: Run | null }>
  /**
   * Triggers an agent for a caller that is already authorised. Returns null if the agent does not exist. @throws
   * ConflictError if it is paused
   */
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
      // The lock keeps the agent from being deleted or paused before the trigger is written.
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
