import type { Platform } from '../platform/platform.ts'
import { createGuardedHttp } from '../tools/custom/guarded-http.ts'
import { createToolTrial, type ToolTrial } from '../tools/custom/tool-trial.ts'
import { createMcpOAuth, type McpOAuth } from '../tools/mcp/oauth.ts'
import { createServerTrial, type ServerTrial } from '../tools/mcp/server-trial.ts'
import { createOpenApiReader, LARGEST_DOCUMENT_BYTES, type OpenApiReader } from '../tools/openapi/reader.ts'

/** The steps of an admin before giving an agent a tool: connect to an MCP server, read an OpenAPI document, try a call. */
export interface ToolSetup extends ServerTrial, OpenApiReader, ToolTrial {
  finishAuthorization: McpOAuth['finish']
  /** Aborts all requests in progress. */
  close(): Promise<void>
}

export function createToolSetup(platform: Platform): ToolSetup {
  const { allowPrivateTools: allowPrivate } = platform.config
  const http = createGuardedHttp({ allowPrivate })
  const documents = createGuardedHttp({ allowPrivate, maxBytes: LARGEST_DOCUMENT_BYTES })
  const oauth = createMcpOAuth(platform, { http })
  return {
    ...createServerTrial(platform, { http, oauth }),
    finishAuthorization: oauth.finish,
    ...createToolTrial(platform, { http }),
    ...createOpenApiReader({ http: documents }),
    async close() {
      await Promise.all([http.close(), documents.close()])
    },
  }
}
