/** The path of the link with which a person connects to an MCP server for a call. The id of the call follows. */
export const CONNECT_PATH = '/auth/mcp/calls/'
