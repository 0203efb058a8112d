import type { Viewer } from '../access/viewer.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { NotFoundError } from '../lib/errors.ts'
import { newId, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import { checkInteger, checkName } from '../lib/validate.ts'
import { fetchPage } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'
import { isAdmin, requireAdmin } from '../rules/permissions.ts'
import { deleteWebhooks, insertWebhook, rotateWebhookSecret } from '../stores/webhook-store.ts'
import { lockAgentRow } from './existing-agent.ts'
import { newWebhookSecret } from './notify-secret.ts'

export interface Webhook {
  id: string
  agentId: string
  serviceName: string
  /** The path to which the service sends POST requests. */
  path: string
  /** Whether events of this webhook are urgent for a persistent agent. */
  urgent: boolean
  createdAt: Date
  /** When the webhook was last used, with a resolution of one minute. */
  lastUsedAt: Date | null
}

export interface CreateWebhookInput {
  agentId: string
  serviceName: string
  urgent?: boolean | null
}

/**
 * Signed webhooks through which services trigger agents. See
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export interface Webhooks {
  /**
   * Creates a webhook. Only admins may do this. The secret is stored encrypted and cannot be read later.
   * @throws ForbiddenError, NotFoundError, BadInputError
   */
  create(viewer: Viewer, input: CreateWebhookInput): Promise<{ webhook: Webhook; secret: string }>
  /**
   * Deletes a webhook. Only admins may do this. Later deliveries get the same response as deliveries to an unknown
   * webhook.
   * @throws ForbiddenError, NotFoundError
   */
  delete(viewer: Viewer, input: { id: string }): Promise<{ deletedWebhookId: string }>
  /**
   * Creates a new secret, which cannot be read later. Only admins may do this. The previous secret stays valid for the
   * given time; older secrets become invalid immediately.
   * @throws ForbiddenError, NotFoundError, BadInputError
   */
  rotateSecret(
    viewer: Viewer,
    input: { id: string; graceSeconds: number },
  ): Promise<{ webhook: Webhook; secret: string }>
  /**
   * Returns a page of the webhooks of one agent, or of all agents, newest first; null if the viewer is not an admin.
   */
  page(viewer: Viewer, request: PageRequest, agentId: string | null): Promise<Page<Webhook> | null>
  /** Returns webhooks in the order of the ids; null for an unknown id. Does not check visibility. */
  getMany(ids: readonly string[]): Promise<(Webhook | null)[]>
}

const LONGEST_GRACE_SECONDS = 30 * 86_400

type Row = Prisma.WebhookGetPayload<object>

export function createWebhooks({ db, secretBox, clock }: Platform): Webhooks {
  const webhookOf = ({ id, agentId, serviceName, urgent, createdAt, lastUsedAt }: Row): Webhook => ({
    id,
    agentId,
    serviceName,
    urgent,
    createdAt,
    lastUsedAt,
    path: `/hooks/agents/${id}`,
  })

  async function getMany(ids: readonly string[]): Promise<(Webhook | null)[]> {
    const rows = await db.prisma.webhook.findMany({ where: { id: { in: wellFormedIds(ids) } } })
    return inOrderOf(ids, rows.map(webhookOf))
  }

  return {
    getMany,
    async create(viewer, { agentId, serviceName, urgent }) {
      requireAdmin(viewer, 'create webhooks')
      const name = checkName(serviceName, 'input.serviceName')
      const [id, secret] = [newId('whk'), newWebhookSecret()]
      const kept = { secretSealed: secretBox.seal(secret, id), createdAt: new Date(clock.now()) }
      const row = await db.transaction(async (tx) => {
        await lockAgentRow(tx, agentId)
        return insertWebhook(tx, { id, agentId, serviceName: name, urgent: urgent === true, ...kept })
      })
      return { webhook: webhookOf(row), secret }
    },
    async delete(viewer, { id }) {
      requireAdmin(viewer, 'delete webhooks')
      await db.transaction(async (tx) => {
        const count = await deleteWebhooks(tx, { id: { in: wellFormedIds([id]) } })
        if (count === 0) throw new NotFoundError(NO_SUCH_WEBHOOK)
      })
      return { deletedWebhookId: id }
    },
    async rotateSecret(viewer, { id, graceSeconds }) {
      requireAdmin(viewer, 'rotate the secrets of webhooks')
      const seconds = checkInteger(graceSeconds, 0, LONGEST_GRACE_SECONDS, 'input.graceSeconds')
      const secret = newWebhookSecret()
      const sealed = secretBox.seal(secret, id)
      const until = new Date(clock.now() + seconds * 1000)
      const row = await db.transaction(async (tx) => {
        const rotated = await rotateWebhookSecret(tx, wellFormedIds([id]), { sealed, until })
        if (rotated === undefined) throw new NotFoundError(NO_SUCH_WEBHOOK)
        return rotated
      })
      return { webhook: webhookOf(row), secret }
    },
    async page(viewer, request, agentId) {
      if (!isAdmin(viewer)) return null
      const source = Prisma.sql`SELECT id FROM "Webhook" WHERE ${agentId}::text IS NULL OR "agentId" = ${agentId}`
      return fetchPage(db.prisma, { source, request }, getMany)
    },
  }
}

export const NO_SUCH_WEBHOOK = 'There is no such webhook.'
