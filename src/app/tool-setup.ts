import type { Platform } from '../platform/platform.ts'
import { createGuardedHttp } from '../tools/custom/guarded-http.ts'
import { createToolTrial, type ToolTrial } from '../tools/custom/tool-trial.ts'
import { createMcpOAuth, type McpOAuth } from '../tools/mcp/oauth.ts'
import { createPersonAuthorization, type PersonAuthorization } from '../tools/mcp/person-authorization.ts'
import { createServerTrial, type ServerTrial } from '../tools/mcp/server-trial.ts'
import { createOpenApiReader, LARGEST_DOCUMENT_BYTES, type OpenApiReader } from '../tools/openapi/reader.ts'

/** The steps before an admin gives a tool to an agent: connect to a server, read its description, try the tool. */
export interface ToolSetup extends ServerTrial, OpenApiReader, ToolTrial, PersonAuthorization {
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
    ...createPersonAuthorization(platform, { http, oauth }),
    finishAuthorization: oauth.finish,
    ...createToolTrial(platform, { http }),
    ...createOpenApiReader({ http: documents }),
    async close() {
      await Promise.all([http.close(), documents.close()])
    },
  }
}
