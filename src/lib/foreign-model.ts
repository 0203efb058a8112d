/**
 * The model name of an agent that runs elsewhere: `a2a:<card url>`, an agent on another server, or `mcp:<server>/<tool>`, a
 * tool of one of the agent's MCP servers that answers messages.
 */
export type ForeignModel = { type: 'a2a'; cardUrl: string } | { type: 'mcp'; serverName: string; toolName: string }

/** The tool by which a run sends its message to an agent on another server. */
export const ASK_REMOTE_AGENT = 'ask_remote_agent'

/** Providers cannot have these names. */
export const FOREIGN_PREFIXES: ReadonlySet<string> = new Set(['a2a', 'mcp'])

/** Whether a model name begins like that of a remote agent, even if the rest of the name is wrong. */
export const isForeignModel = (name: string): boolean =>
  FOREIGN_PREFIXES.has(name.slice(0, Math.max(0, name.indexOf(':'))))

/** Parses the model name of a remote agent; null for any other name, and for an invalid one. */
export function parseForeignModel(name: string): ForeignModel | null {
  if (name.startsWith('a2a:')) {
    const cardUrl = name.slice('a2a:'.length)
    return faultOfCardUrl(cardUrl) === null ? { type: 'a2a', cardUrl } : null
  }
  const [, serverName, toolName] = /^mcp:([A-Za-z0-9_-]{1,64})\/([\x21-\x7e]{1,128})$/.exec(name) ?? []
  return serverName === undefined || toolName === undefined ? null : { type: 'mcp', serverName, toolName }
}

/** Returns what is wrong with the model name of a remote agent, as a sentence; null if it can be parsed. */
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
