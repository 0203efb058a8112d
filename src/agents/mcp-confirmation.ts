import type { Viewer } from '../access/viewer.ts'
import { NotFoundError } from '../lib/errors.ts'
import { wellFormedIds } from '../lib/ids.ts'
import { storableText } from '../lib/json.ts'
import type { Platform } from '../platform/platform.ts'
import { requireAdmin } from '../rules/permissions.ts'
import { trustListing } from '../stores/tool-store.ts'
import { asVersion, authorOf } from './version-recording.ts'

/** Lets admins confirm the tools in the lists of MCP servers. */
export interface McpConfirmation {
  /**
   * Confirms the tools in a server's latest list, as a new version of the agent. Only admins may do this.
   * @throws ForbiddenError, NotFoundError
   */
  confirm(viewer: Viewer, input: { agentId: string; serverName: string }): Promise<void>
}

export function createMcpConfirmation({ db, clock }: Pick<Platform, 'db' | 'clock'>): McpConfirmation {
  return {
    async confirm(viewer, { agentId, serverName: name }) {
      requireAdmin(viewer, 'confirm the tools of MCP servers')
      const [id] = wellFormedIds([agentId])
      await db.transaction(async (tx) => {
        const [agent] = await tx.$queryRaw<{ id: string; version: number; createdAt: Date }[]>`
          SELECT a.id, a.version, e."createdAt" FROM "Agent" a JOIN "Entity" e ON e.id = a.id
          WHERE a.id = ${id ?? ''} AND EXISTS (
            SELECT 1 FROM "McpServer" s WHERE s."agentId" = a.id AND s.name = ${storableText(name)})
          FOR UPDATE OF a`
        if (agent === undefined) throw new NotFoundError('There is no such agent, or it has no such MCP server.')
        const note = `Confirmed the tools of the MCP server ${name}`
        await asVersion(tx, agent, { ...authorOf(viewer, note), at: new Date(clock.now()) }, () =>
          trustListing(tx, { agentId: agent.id, name: storableText(name) }),
        )
      })
    },
  }
}
