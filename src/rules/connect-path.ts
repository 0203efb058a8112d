/** The path of the link that connects a person to the MCP server of a call. The call's id is appended. */
export const CONNECT_PATH = '/auth/mcp/calls/'
