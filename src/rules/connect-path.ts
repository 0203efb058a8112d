/** The path of the link by which a person connects for a call, before the id of the call. */
export const CONNECT_PATH = '/auth/mcp/calls/'
