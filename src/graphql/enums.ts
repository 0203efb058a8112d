import { ACTIVE_RUN_STATUSES, ENDED_RUN_STATUSES } from '../rules/statuses.ts'
import { builder } from './builder.ts'

/** Enums that several files of this folder use. */
export const MindType = builder.enumType('Mind', {
  description: 'How an agent keeps context between runs (agent memory mode).',
  values: {
    STATELESS: {
      description: 'Every trigger starts its own run, with the context rebuilt in the system prompt.',
    },
    PERSISTENT: {
      description:
        "Triggers become events in the agent's inbox. One think cycle at a time processes them, and its context is kept for later cycles.",
    },
  } as const,
})

export const ToolsetType = builder.enumType('Toolset', {
  description: 'The set of built-in tools with which the agent acts in spaces.',
  values: {
    ACTIVE_SPACE: {
      description:
        'enter_space, send_message, read_messages, read_file, send_file, edit_message, delete_message, react, get_my_runs, stop_run. The agent enters a space, and its calls apply to that space.',
    },
    SPACE_TOOLS: {
      description:
        'readSpaceMessages, sendSpaceMessage (mention, wait), readFile, sendFile, editMessage, deleteMessage, react, getMyRuns. Calls name their space.',
    },
  } as const,
})

export const PlainTextType = builder.enumType('PlainText', {
  values: {
    INTERNAL: { description: 'Closing text that the model wrote outside a tool is never posted.' },
    SPOKEN_IF_SILENT: {
      description: 'If the run posted nothing, its closing text is posted to the active space.',
    },
  } as const,
})

export const AddableByType = builder.enumType('AddableBy', {
  description: 'Which humans may add an agent to a space of which they are a member.',
  values: {
    EVERYONE: {},
    SHARES_SPACE: {
      description: 'Humans who already share a space with the agent. An admin creates the first such space.',
    },
    ADMINS: {},
  } as const,
})

export const McpAuthorizationType = builder.enumType('McpAuthorization', {
  values: {
    NONE: {},
    SERVER: {
      description: 'One token for the server, authorized by an admin at the URL that `connectMcpServer` returns.',
    },
    PERSON: {
      description:
        'One token for each person, requested when one of their runs first needs it: the call waits, and `ToolCall.authorization` says who connects where. The token of `connectMcpServer` only lists the tools.',
    },
  } as const,
})

export const ToolExecutionType = builder.enumType('ToolExecution', {
  values: {
    HTTP: { description: 'The server calls `url`; the response is the result.' },
    SPACE: {
      description:
        'A client shows the call in the active space, and a member submits the result with `submitToolResult`.',
    },
    EXTERNAL: { description: 'A service submits the result with `submitToolResult`.' },
    INTERNAL: { description: 'Nothing is executed: the input is the result (charts, cards).' },
  } as const,
})

export const ToolChoiceType = builder.enumType('ToolChoice', { values: ['AUTO', 'REQUIRED', 'NONE'] as const })

export const RoutingType = builder.enumType('Routing', {
  description: 'Which agents a new message wakes.',
  values: {
    BROADCAST: { description: 'Every agent in the space except the sender.' },
    ADMIN: {
      description: "A human's message wakes the admin agent; an agent's message wakes only the agent that it mentions.",
    },
    MENTION_CHAIN: {
      description:
        "A human's message wakes the agent that it mentions, or else the next agent in turn. The woken agent may mention the next one; a reply stack records who is called back.",
    },
  } as const,
})

export const RunStatusType = builder.enumType('RunStatus', {
  values: [...ACTIVE_RUN_STATUSES, ...ENDED_RUN_STATUSES] as const,
})

export const RunStopReasonType = builder.enumType('RunStopReason', {
  description:
    'COMPLETED: FINISHED, SKIPPED, ALL_ANSWERED, MAX_STEPS, MAX_TOOL_CALLS, TOKEN_BUDGET. FAILED: OVER_BUDGET, TIME_LIMIT, MODEL_FAILED, WORKER_LOST, INTERNAL. CANCELED: STOPPED, HANDED_ON, GONE.',
  values: {
    FINISHED: { description: 'The model had nothing more to do.' },
    SKIPPED: { description: 'The agent called the skip tool.' },
    ALL_ANSWERED: { description: 'Every message of the think cycle was answered (with `stopWhenAllAnswered`).' },
    HANDED_ON: { description: 'The agent delegated the trigger to another agent.' },
    MAX_STEPS: {},
    MAX_TOOL_CALLS: {},
    TOKEN_BUDGET: {},
    OVER_BUDGET: { description: 'A budget of the agent, the space or the root was exhausted.' },
    STOPPED: { description: 'Somebody stopped the run.' },
    TIME_LIMIT: { description: 'The run reached its time limit.' },
    MODEL_FAILED: { description: "The model's providers failed or refused, or the output reached its length limit." },
    WORKER_LOST: { description: 'The worker died three times in a row without progress.' },
    GONE: { description: "The agent left the trigger's space, or the agent or the space was deleted." },
    INTERNAL: { description: 'An internal error of the server.' },
  } as const,
})

export const TriggerTypeType = builder.enumType('TriggerType', {
  values: {
    SPACE_MESSAGE: {},
    PLAN: {},
    SERVICE: {},
    INBOX: { description: "A think cycle: events in the agent's inbox started it." },
  } as const,
})

export const GoalStatusType = builder.enumType('GoalStatus', { values: ['ACTIVE', 'COMPLETED', 'ABANDONED'] as const })

export const TokenScopeType = builder.enumType('TokenScope', {
  values: {
    ADMIN: { description: 'May do everything that the operator may.' },
    HUMAN: { description: 'Acts as one human.' },
    SERVICE: { description: 'May trigger agents and submit results of EXTERNAL tools.' },
  } as const,
})

export const HumanRoleType = builder.enumType('HumanRole', {
  values: {
    ADMIN: { description: 'May do everything that the operator may, and posts as themselves.' },
    MEMBER: {},
  } as const,
})

export const PresenceType = builder.enumType('Presence', {
  values: {
    ONLINE: { description: 'Has an open socket or subscription, and changed something within the last five minutes.' },
    AWAY: { description: 'Has an open socket or subscription.' },
    OFFLINE: {},
  } as const,
})
