/**
 * The parsed model name of an agent that runs elsewhere. `a2a:<card url>` is an agent on another server.
 * `mcp:<server>/<tool>` is a tool of one of the agent's MCP servers, which answers the messages.
 */
export type ForeignModel = { type: 'a2a'; cardUrl: string } | { type: 'mcp'; serverName: string; toolName: string }

/** The tool with which a run sends its message to an agent on another server. */
export const ASK_REMOTE_AGENT = 'ask_remote_agent'

/** The prefixes of these model names. Model providers cannot have these names. */
export const FOREIGN_PREFIXES: ReadonlySet<string> = new Set(['a2a', 'mcp'])

/** Whether a name begins like the model name of a remote agent, even if the rest is invalid. */
export const isForeignModel = (name: string): boolean =>
  FOREIGN_PREFIXES.has(name.slice(0, Math.max(0, name.indexOf(':'))))

/** Parses the model name of a remote agent. Returns null for an invalid name and for any other name. */
export function parseForeignModel(name: string): ForeignModel | null {
  if (name.startsWith('a2a:')) {
    const cardUrl = name.slice('a2a:'.length)
    return faultOfCardUrl(cardUrl) === null ? { type: 'a2a', cardUrl } : null
  }
  const [, serverName, toolName] = /^mcp:([A-Za-z0-9_-]{1,64})\/([\x21-\x7e]{1,128})$/.exec(name) ?? []
  return serverName === undefined || toolName === undefined ? null : { type: 'mcp', serverName, toolName }
}

/** Returns a sentence about the fault in a remote agent's model name; null if the name is valid. */
export function faultOfForeignModel(name: string): string | null {
  if (parseForeignModel(name) !== null) return null
  if (name.startsWith('mcp:'))
    return 'Use "mcp:<server>/<tool>", with the name of an MCP server of the agent and of its tool.'
  return `Use "a2a:<URL of the agent card>". ${faultOfCardUrl(name.slice('a2a:'.length)) ?? ''}`
}

function faultOfCardUrl(text: string): string | null {
  const url = /^[\x21-\x7e]+$/.test(text) && URL.canParse(text) ? new URL(text) : null
  if (url === null || !['http:', 'https:'].includes(url.protocol)) return 'The URL must begin with http:// or https://.'
  if (url.username !== '' || url.password !== '')
    return 'Put credentials in the headers of `remote`, which are stored encrypted, not in the URL.'
  return url.hash === '' ? null : 'The URL must not have a fragment.'
}
