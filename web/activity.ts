import type { ConsoleAgentActivitySubscription } from '../generated/graphql.ts'
import type { Api } from './api.ts'
import { button, element, notify } from './dom.ts'
import { AGENT_ACTIVITY, STOP_RUN } from './operations.ts'
import { payloadOf, wordsOf } from './refusal.ts'

type Activity = ConsoleAgentActivitySubscription['agentActivity']

/** What the agents of a space do now, and the way to stop it. */
export interface ActivityView {
  element: HTMLElement
  /** Forgets the agents that are not among these. */
  keep(agentIds: string[]): void
  close(): void
}

const fail = (error: unknown) => notify(wordsOf(error))

const RUN_WORDS: Record<string, string> = {
  QUEUED: 'will begin soon',
  RUNNING: 'is at work',
  WAITING_TOOL: 'waits for an answer',
}

export function createActivity(api: Api, spaceId: string): ActivityView {
  const made = element('ul', { class: 'activity', 'aria-label': 'Agents', 'aria-live': 'polite' })
  const lines = new Map<string, HTMLLIElement>()

  async function stopRun(runId: string): Promise<void> {
    const { stopRun: result } = await api.run(STOP_RUN, { runId })
    payloadOf(result, 'StopRunPayload')
  }

  function show({ agent, active, runs }: Activity): void {
    const line = lines.get(agent.id) ?? element('li')
    line.className = active ? 'active' : ''
    const [latest] = runs
    const idle = active ? 'is at work elsewhere' : 'is idle'
    const words = latest === undefined ? idle : (RUN_WORDS[latest.status] ?? latest.status)
    line.replaceChildren(`${agent.name} ${words}`)
    for (const { id, triggerSummary } of runs) {
      const stop = button('Stop', () => stopRun(id), fail)
      stop.title = triggerSummary
      stop.setAttribute('aria-label', `Stop ${agent.name}: ${triggerSummary}`)
      line.append(stop)
    }
    if (!lines.has(agent.id)) made.append(line)
    lines.set(agent.id, line)
  }

  const close = api.watch(
    AGENT_ACTIVITY,
    { spaceId },
    {
      onData: ({ agentActivity }) => show(agentActivity),
      // Where the space is no longer to be seen, its messages say so.
      onEnd: () => made.replaceChildren(),
    },
  )

  return {
    element: made,
    keep(agentIds) {
      for (const [id, line] of lines) {
        if (agentIds.includes(id)) continue
        line.remove()
        lines.delete(id)
      }
    },
    close,
  }
}
