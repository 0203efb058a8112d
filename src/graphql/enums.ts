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
        'enter_space, send_message, read_messages, read_file, send_file, edit_message, delete_message, react, get_my_runs, stop_run. The agent first enters a space; its calls then apply to that space.',
    },
    SPACE_TOOLS: {
      description:
        'readSpaceMessages, sendSpaceMessage (mention, wait), readFile, sendFile, editMessage, deleteMessage, react, getMyRuns. Each call contains the id of the space to which it applies.',
    },
  } as const,
})

export const PlainTextType = builder.enumType('PlainText', {
  values: {
    INTERNAL: { description: 'The closing text that the model writes outside a tool call is never posted.' },
    SPOKEN_IF_SILENT: {
      description: 'If the run has posted nothing, its closing text is posted to the active space.',
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
        'One token for each person. When a run on behalf of a person first needs the token, the call waits, and `ToolCall.authorization` names the person and the page on which to connect. The token that an admin obtains through `connectMcpServer` is used only to list the tools.',
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
    INTERNAL: {
      description: 'Nothing is executed, and the input is the result, for example a chart or a card to display.',
    },
  } as const,
})

export const ToolChoiceType = builder.enumType('ToolChoice', { values: ['AUTO', 'REQUIRED', 'NONE'] as const })

export const RoutingType = builder.enumType('Routing', {
  description: 'Which agents a new message wakes.',
  values: {
    BROADCAST: { description: 'A message wakes every agent in the space except its sender.' },
    ADMIN: {
      description: "A human's message wakes the admin agent; an agent's message wakes only the agent that it mentions.",
    },
    MENTION_CHAIN: {
      description:
        "A human's message wakes the agent that it mentions or, if it mentions none, the next agent in turn. A woken agent can mention another agent; a reply stack records which agents are called back afterwards.",
    },
  } as const,
})

export const RunStatusType = builder.enumType('RunStatus', {
  values: [...ACTIVE_RUN_STATUSES, ...ENDED_RUN_STATUSES] as const,
})

export const RunStopReasonType = builder.enumType('RunStopReason', {
  description:
    'Reasons by run status. COMPLETED: FINISHED, SKIPPED, ALL_ANSWERED, MAX_STEPS, MAX_TOOL_CALLS, TOKEN_BUDGET. FAILED: OVER_BUDGET, TIME_LIMIT, MODEL_FAILED, WORKER_LOST, INTERNAL. CANCELED: STOPPED, HANDED_ON, GONE.',
  values: {
    FINISHED: { description: 'The model had nothing more to do.' },
    SKIPPED: { description: 'The agent called the skip tool.' },
    ALL_ANSWERED: {
      description: 'The agent answered every message of the think cycle, and `stopWhenAllAnswered` is set.',
    },
    HANDED_ON: { description: 'The agent delegated the trigger to another agent.' },
    MAX_STEPS: {},
    MAX_TOOL_CALLS: {},
    TOKEN_BUDGET: {},
    OVER_BUDGET: { description: 'A budget of the agent, the space, the root or the human at the root was exhausted.' },
    STOPPED: { description: 'Somebody stopped the run.' },
    TIME_LIMIT: { description: 'The run reached its time limit.' },
    MODEL_FAILED: {
      description: "The model's providers failed or refused the request, or the output reached its length limit.",
    },
    WORKER_LOST: { description: 'Three workers in a row died while executing the run, without progress.' },
    GONE: { description: "The agent left the trigger's space, or the agent or the space was deleted." },
    INTERNAL: { description: 'An internal error of the server.' },
  } as const,
})

export const TriggerTypeType = builder.enumType('TriggerType', {
  values: {
    SPACE_MESSAGE: {},
    PLAN: {},
    SERVICE: {},
    INBOX: { description: "Events in the agent's inbox started the run, which is therefore a think cycle." },
  } as const,
})

export const GoalStatusType = builder.enumType('GoalStatus', { values: ['ACTIVE', 'COMPLETED', 'ABANDONED'] as const })

export const TokenScopeType = builder.enumType('TokenScope', {
  values: {
    ADMIN: { description: 'May do everything that the operator may do.' },
    HUMAN: { description: 'Acts as one human.' },
    SERVICE: { description: 'May trigger agents and submit results of EXTERNAL tools.' },
  } as const,
})

export const HumanRoleType = builder.enumType('HumanRole', {
  values: {
    ADMIN: { description: 'May do everything that the operator may do, and sends messages under their own name.' },
    MEMBER: {},
  } as const,
})

export const PresenceType = builder.enumType('Presence', {
  values: {
    ONLINE: {
      description: 'Has an open socket or subscription, and has changed something within the last five minutes.',
    },
    AWAY: { description: 'Has an open socket or subscription, but has changed nothing within the last five minutes.' },
    OFFLINE: {},
  } as const,
})
