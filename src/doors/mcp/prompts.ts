import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import { isObject } from '../../lib/json.ts'
import { AGENT, LIST_AGENTS, type Page } from '../tasks/documents.ts'
import type { McpExchange, Result } from './exchange.ts'
import { asProtocolError } from './task-methods.ts'

const PAGE = 50
const LONGEST_NAME = 40
const AGENT_ID = /(agt_[0-9a-f]{32})$/

interface Agent {
  id: string
  name: string
  description: string | null
}

export interface Prompts {
  list(exchange: McpExchange, params: unknown): Promise<Result>
  get(exchange: McpExchange, params: unknown): Promise<Result>
}

const ARGUMENTS = [{ name: 'message', description: 'The text to send to the agent.', required: true }]

const invalid = (message: string) => new ProtocolError(ProtocolErrorCode.InvalidParams, message)

/** Offers a prompt for each agent that the viewer may see. */
export function createPrompts(): Prompts {
  return {
    list: ({ caller }, params) =>
      asProtocolError(async () => {
        const { cursor: after = null } = isObject(params) ? params : {}
        const { agents } = await caller.ask<{ agents: Page<Agent> }>(LIST_AGENTS, { first: PAGE, after })
        const prompts = agents.edges.map(({ node }) => ({
          name: nameOf(node),
          title: node.name,
          description: node.description || `Asks the agent ${node.name}.`,
          arguments: ARGUMENTS,
        }))
        const { hasNextPage, endCursor } = agents.pageInfo
        return { prompts, ...(hasNextPage ? { nextCursor: endCursor } : {}) }
      }),

    get: ({ caller }, params) =>
      asProtocolError(async () => {
        const { name, arguments: given } = isObject(params) ? params : {}
        const [, id] = AGENT_ID.exec(String(name)) ?? []
        const { agent } = id === undefined ? { agent: null } : await caller.ask<{ agent: Agent | null }>(AGENT, { id })
        if (agent === null) throw invalid('There is no such prompt: see prompts/list.')
        const { message } = isObject(given) ? given : {}
        if (typeof message !== 'string' || message === '') throw invalid('The argument `message` is required.')
        const text = `Ask the agent ${JSON.stringify(agent.name)} with the tool ask_agent (agentId: ${agent.id}), and report its answer. The text to send:\n\n${message}`
        return {
          description: agent.description || `Asks the agent ${agent.name}.`,
          messages: [{ role: 'user', content: { type: 'text', text } }],
        }
      }),
  }
}

/** Returns a readable name for a prompt. The agent's id makes the name unique. */
function nameOf({ id, name }: Agent): string {
  const readable = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, LONGEST_NAME)
  return readable === '' ? id : `${readable}-${id}`
}
