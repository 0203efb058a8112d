import { HiddenError } from '../lib/errors.ts'
import { builder } from './builder.ts'
import { Run, Space, TokenUsage, ToolCall } from './refs.ts'
import { type RunEvent as AnyRunEvent, itself } from './streams.ts'

type Shape<T extends AnyRunEvent['type']> = Extract<AnyRunEvent, { type: T }>

const RunEvent = builder.interfaceRef<AnyRunEvent>('RunEvent').implement({
  description: 'An event of a run. Events arrive in order.',
  resolveType: ({ type }) => type,
  fields: (t) => ({
    cursor: t.expose('cursor', { type: 'StreamCursor' }),
    at: t.expose('at', { type: 'DateTime' }),
    runId: t.exposeID('runId'),
  }),
})

const event = <T extends AnyRunEvent['type']>(type: T) => builder.objectRef<Shape<T>>(type)

/** Events whose only own field is the run in its current state. */
type OfRun = 'RunStarted' | 'RunCompleted' | 'RunCanceled' | 'RunSnapshot'
const runEvent = (type: OfRun, description?: string) =>
  event<OfRun>(type).implement({
    ...(description ? { description } : {}),
    interfaces: [RunEvent],
    fields: (t) => ({
      run: t.field({
        type: Run,
        resolve: async ({ runId, lastKnown }, _, { loaders }) => ((await loaders.runs.load(runId)) ?? lastKnown)!,
      }),
    }),
  })

type OfDelta = 'RunTextDelta' | 'RunReasoningDelta'
const deltaEvent = (type: OfDelta, description?: string) =>
  event<OfDelta>(type).implement({
    ...(description ? { description } : {}),
    interfaces: [RunEvent],
    fields: (t) => ({
      step: t.exposeInt('step'),
      delta: t.exposeString('delta'),
    }),
  })

type OfToolCall = 'RunToolCalled' | 'RunToolReturned' | 'RunToolCallChanged'
const toolCallEvent = (type: OfToolCall, description?: string) =>
  event<OfToolCall>(type).implement({
    ...(description ? { description } : {}),
    interfaces: [RunEvent],
    fields: (t) => ({
      toolCall: t.field({
        type: ToolCall,
        resolve: async ({ toolCallId, lastKnownCall }, _, { loaders }) =>
          ((await loaders.toolCalls.load(toolCallId)) ?? lastKnownCall)!,
      }),
    }),
  })

runEvent('RunStarted')
runEvent('RunCompleted')
runEvent('RunCanceled')
runEvent(
  'RunSnapshot',
  'The current state of the run, from which later events continue. Sent if `after` is older than the stored events.',
)
deltaEvent(
  'RunTextDelta',
  'Internal text of the agent, which is never shown in a space. RunTextDelta, RunReasoningDelta and RunToolInputDelta are delivered only to admins and the service that triggered the run.',
)
deltaEvent('RunReasoningDelta')
toolCallEvent('RunToolCalled')
toolCallEvent('RunToolReturned')
toolCallEvent('RunToolCallChanged', 'The approval or the claim of a tool call changed.')

event('RunResumed').implement({ interfaces: [RunEvent] })

event('RunWaitingTool').implement({
  interfaces: [RunEvent],
  fields: (t) => ({
    toolCalls: t.field({
      type: [ToolCall],
      complexity: { field: 1, multiplier: 3 },
      resolve: async ({ toolCallIds }, _, { loaders }) => {
        const calls = await Promise.all(toolCallIds.map((id) => loaders.toolCalls.load(id)))
        return calls.filter((call) => call !== null)
      },
    }),
  }),
})

event('RunFailed').implement({
  interfaces: [RunEvent],
  fields: (t) => ({
    run: t.field({
      type: Run,
      resolve: async ({ runId, lastKnown }, _, { loaders }) => ((await loaders.runs.load(runId)) ?? lastKnown)!,
    }),
    error: t.exposeString('error'),
  }),
})

event('RunStepFinished').implement({
  interfaces: [RunEvent],
  fields: (t) => ({
    step: t.exposeInt('step', { description: '0-based.' }),
    usage: t.expose('usage', { type: TokenUsage }),
  }),
})

event('RunToolInputDelta').implement({
  interfaces: [RunEvent],
  fields: (t) => ({
    step: t.exposeInt('step'),
    toolCallId: t.exposeID('toolCallId'),
    toolName: t.exposeString('toolName'),
    delta: t.exposeString('delta'),
  }),
})

event('RunSpaceEntered').implement({
  description: '`space` is null if the viewer is not a member.',
  interfaces: [RunEvent],
  fields: (t) => ({
    spaceId: t.id({
      description: 'Viewers who may not see the space do not receive this event if their operation selects this field.',
      async resolve({ spaceId }, _, { loaders }) {
        if ((await loaders.visible.spaces.load(spaceId)) === null) throw new HiddenError()
        return spaceId
      },
    }),
    space: t.field({
      type: Space,
      nullable: true,
      resolve: ({ spaceId }, _, { loaders }) => loaders.visible.spaces.load(spaceId),
    }),
  }),
})

builder.subscriptionField('runEvents', (t) =>
  t.field({
    type: RunEvent,
    description: 'Events of a run from its start, or from the position `after`. Completes when the run has ended.',
    args: { runId: t.arg.id({ required: true }), after: t.arg({ type: 'StreamCursor' }) },
    subscribe: (_, { runId, after }, { streams, ...watcher }) =>
      streams.runEvents(watcher, { runId, after: after ?? null }),
    resolve: itself,
  }),
)
