import { builder } from './builder.ts'

/** The enums that more than one file of this folder names. */
export const MindType = builder.enumType('Mind', {
  description: 'How an agent carries context from one wake-up to the next.',
  values: {
    STATELESS: {
      description: 'Every trigger starts a run of its own, with its context rebuilt in the system prompt.',
    },
    PERSISTENT: {
      description:
        "Triggers queue in the agent's inbox; one think cycle at a time drains it into a consciousness that persists.",
    },
  } as const,
})

export const ToolsetType = builder.enumType('Toolset', {
  description: 'Which family of built-in tools an agent acts through.',
  values: {
    ACTIVE_SPACE: {
      description:
        'enter_space, send_message, read_messages, get_my_runs, stop_run: the space entered is where everything happens.',
    },
    SPACE_TOOLS: {
      description: 'readSpaceMessages, sendSpaceMessage (mention, wait), getMyRuns: every call names its space.',
    },
  } as const,
})

export const AddableByType = builder.enumType('AddableBy', {
  description: 'Which humans may add an agent to a space of theirs.',
  values: {
    EVERYONE: {},
    SHARES_SPACE: { description: 'Those who share a space with it already; an admin makes the first.' },
    ADMINS: {},
  } as const,
})

export const ToolExecutionType = builder.enumType('ToolExecution', {
  values: {
    HTTP: { description: 'The server calls `url`; the response is the result.' },
    SPACE: { description: 'A client renders it in the active space and a member submits the result.' },
    EXTERNAL: { description: 'A worker outside submits the result.' },
    INTERNAL: { description: 'Nothing to execute: the input is the result (charts, cards).' },
  } as const,
})

export const ToolChoiceType = builder.enumType('ToolChoice', { values: ['AUTO', 'REQUIRED', 'NONE'] as const })

export const RoutingType = builder.enumType('Routing', {
  description: 'Who wakes when a message is posted in the space.',
  values: {
    BROADCAST: { description: 'Every agent member but the sender.' },
    ADMIN: {
      description: "A human's message wakes the admin agent; an agent's message wakes only the agent that it mentions.",
    },
    MENTION_CHAIN: {
      description:
        "A human's message wakes one agent, in turn, or the one it mentions; that agent may mention the next, with a reply stack.",
    },
  } as const,
})

export const RunStatusType = builder.enumType('RunStatus', {
  values: ['QUEUED', 'RUNNING', 'WAITING_TOOL', 'COMPLETED', 'FAILED', 'CANCELED'] as const,
})

export const RunStopReasonType = builder.enumType('RunStopReason', {
  description:
    'COMPLETED: FINISHED, SKIPPED, ALL_ANSWERED, MAX_STEPS, MAX_TOOL_CALLS, TOKEN_BUDGET. FAILED: OVER_BUDGET, TIME_LIMIT, MODEL_FAILED, WORKER_LOST, INTERNAL. CANCELED: STOPPED, HANDED_ON, GONE.',
  values: {
    FINISHED: { description: 'The model had nothing more to do.' },
    SKIPPED: { description: 'It called skip.' },
    ALL_ANSWERED: { description: 'Every message of the cycle was answered, where that ends it.' },
    HANDED_ON: { description: 'It gave its trigger to another agent.' },
    MAX_STEPS: {},
    MAX_TOOL_CALLS: {},
    TOKEN_BUDGET: {},
    OVER_BUDGET: { description: 'A budget of the agent, the space or the root was spent.' },
    STOPPED: { description: 'Somebody stopped it.' },
    TIME_LIMIT: { description: 'Its time was up.' },
    MODEL_FAILED: { description: "The model's providers failed, refused, or broke off at their length." },
    WORKER_LOST: { description: 'The worker died under it three times without getting any further.' },
    GONE: { description: "Its agent left the trigger's space, or agent or space was deleted." },
    INTERNAL: { description: "A fault of the server's own." },
  } as const,
})

export const TriggerTypeType = builder.enumType('TriggerType', {
  values: {
    SPACE_MESSAGE: {},
    PLAN: {},
    SERVICE: {},
    INBOX: { description: 'A think cycle woken by its inbox, whatever it holds.' },
  } as const,
})

export const GoalStatusType = builder.enumType('GoalStatus', { values: ['ACTIVE', 'COMPLETED', 'ABANDONED'] as const })

export const TokenScopeType = builder.enumType('TokenScope', {
  values: {
    ADMIN: { description: 'Everything, as the operator.' },
    HUMAN: { description: 'As one human.' },
    SERVICE: { description: 'Trigger agents and submit results of EXTERNAL tools.' },
  } as const,
})
