import type { DecideCall } from '../flows/decide-call.ts'
import type { Platform } from '../platform/platform.ts'
import { readAwaitedAuthorizations } from '../stores/call-store.ts'
import type { McpOAuth } from '../tools/mcp/oauth.ts'

/**
 * Continues calls whose approver has already connected. The process that stored the approver's tokens may have died
 * before it continued the call.
 */
export function createConnectedCalls(
  { db }: Pick<Platform, 'db'>,
  { oauth, decideCall }: { oauth: Pick<McpOAuth, 'accessTokenOf'>; decideCall: Pick<DecideCall, 'connected'> },
): { sweep(): Promise<void> } {
  return {
    async sweep() {
      for (const key of await readAwaitedAuthorizations(db.prisma)) {
        if ((await oauth.accessTokenOf(key)) === null) continue
        await decideCall.connected({ agentId: key.agentId, serverName: key.name, humanId: key.humanId })
      }
    },
  }
}
