import type { Tokens } from '../access/tokens.ts'
import type { Viewer } from '../access/viewer.ts'
import type { TaskPush } from '../generated/prisma/client.ts'
import { BadInputError, ForbiddenError, LimitExceededError } from '../lib/errors.ts'
import { newId, prefixOf } from '../lib/ids.ts'
import type { Platform } from '../platform/platform.ts'
import { isPublicHttps } from '../rules/push-endpoint.ts'
import { type PushOutcome, type PushResult, pushResultOf } from '../rules/push-result.ts'
import {
  deleteTaskPushes,
  leaseTaskPushes,
  noteSentState,
  releaseTaskPush,
  renewTaskPush,
  saveTaskPush,
} from '../stores/task-push-store.ts'

/** Where a client is notified of a task, as it gives it. */
export interface TaskPushInput {
  /** Null: the server makes one. */
  id: string | null
  url: string
  /** Sent in the header X-A2A-Notification-Token. */
  token: string | null
  authentication: { scheme: string; credentials: string } | null
}

/** A configuration, as clients read it: without secrets. */
export interface ShownTaskPush {
  id: string
  taskId: string
  url: string
  scheme: string | null
}

/** The address of a configuration. */
interface Address {
  url: string
  headers: Record<string, string>
  scheme: string | null
}

/** Configurations by which A2A clients are notified of the state of tasks. Each belongs to its viewer. */
export interface TaskPushes {
  /** Checks an input before what it belongs to is done. @throws BadInputError, ForbiddenError */
  check(viewer: Viewer, input: TaskPushInput): void
  /** Stores a configuration, which the caller follows from now on. @throws as `check`; LimitExceededError */
  create(viewer: Viewer, taskId: string, input: TaskPushInput & { sentState: string }): Promise<TaskPush>
  /** Returns the viewer's configurations for the task, at most MOST_OF_TASK, ordered by id. */
  list(viewer: Viewer, taskId: string): Promise<ShownTaskPush[]>
  /** Deletes one. Returns whether there was one. */
  delete(viewer: Viewer, taskId: string, id: string): Promise<boolean>
  shown(push: TaskPush): ShownTaskPush
  /** Leases configurations that no process follows, because theirs has died. */
  lease(): Promise<TaskPush[]>
  /** Returns false if the configuration was deleted or replaced. */
  renew(push: TaskPush): Promise<boolean>
  release(push: TaskPush): Promise<void>
  remove(push: TaskPush): Promise<void>
  noteSent(push: TaskPush, sentState: string): Promise<void>
  /** Returns the viewer whose rights decide what is sent; null once the token has ended. */
  viewerOf(push: TaskPush): Promise<Viewer | null>
  /** Sends a notification once. Never throws for what the receiver causes. */
  send(push: TaskPush, body: object, signal: AbortSignal): Promise<PushResult>
}

const MOST_OF_TASK = 10
const MOST_OF_VIEWER = 100
const LONGEST_ID = 200
const LONGEST_SECRET = 4096
const TIMEOUT_MS = 15_000
const PRINTABLE = /^[\x21-\x7e]*$/
const HEADER_VALUE = /^[\x20-\x7e]*$/
const SCHEME = /^[A-Za-z][\w-]{0,39}$/

export interface TaskPushesParts {
  tokens: Pick<Tokens, 'viewerOf' | 'stands'>
  /** Connects to public addresses only, even if tools may connect to private ones. */
  http: {
    send(request: {
      method: 'POST'
      url: string
      headers: Record<string, string>
      body: string
      stays: true
      timeoutMs: number
      signal: AbortSignal
    }): Promise<PushOutcome>
  }
}

export function createTaskPushes(
  { db, secretBox }: Pick<Platform, 'db' | 'secretBox'>,
  { tokens, http }: TaskPushesParts,
): TaskPushes {
  const contextOf = ({ viewerId, taskId, id }: Pick<TaskPush, 'viewerId' | 'taskId' | 'id'>) =>
    `task-push:${viewerId}:${taskId}:${id}`
  const addressOf = (push: TaskPush) => JSON.parse(secretBox.open(push.sealed, contextOf(push))) as Address

  function shown(push: TaskPush): ShownTaskPush {
    const { url, scheme } = addressOf(push)
    return { id: push.id, taskId: push.taskId, url, scheme }
  }

  return {
    check,
    shown,
    async create(viewer, taskId, input) {
      check(viewer, input)
      const { url, token, authentication, sentState } = input
      const key = { viewerId: viewer.id, taskId, id: input.id ?? newId('psh') }
      const headers = {
        ...(token === null ? {} : { 'x-a2a-notification-token': token }),
        ...(authentication === null ? {} : { authorization: `${authentication.scheme} ${authentication.credentials}` }),
      }
      const address: Address = { url, headers, scheme: authentication?.scheme ?? null }
      const sealed = secretBox.seal(JSON.stringify(address), contextOf(key))
      return db.transaction(async (tx) => {
        // Requests of the viewer at the same time count one after the other.
        await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended(${`task-push:${viewer.id}`}, 0))`
        const others = { viewerId: viewer.id, NOT: { taskId, id: key.id } }
        if ((await tx.taskPush.count({ where: { ...others, taskId } })) >= MOST_OF_TASK)
          throw new LimitExceededError(`A task has at most ${MOST_OF_TASK} push configurations.`)
        if ((await tx.taskPush.count({ where: others })) >= MOST_OF_VIEWER)
          throw new LimitExceededError(`You have ${MOST_OF_VIEWER} push configurations. Delete some first.`)
        await saveTaskPush(tx, {
          ...key,
          tokenId: viewer.tokenId,
          expiresAt: viewer.expiresAt,
          sealed,
          sentState,
        })
        return tx.taskPush.findUniqueOrThrow({ where: { viewerId_taskId_id: key } })
      })
    },
    async list(viewer, taskId) {
      const rows = await db.prisma.taskPush.findMany({ where: { viewerId: viewer.id, taskId }, orderBy: { id: 'asc' } })
      return rows.map(shown)
    },
    async delete(viewer, taskId, id) {
      return (await deleteTaskPushes(db.prisma, { viewerId: viewer.id, taskId, id })) > 0
    },
    lease: () => leaseTaskPushes(db.prisma, MOST_OF_VIEWER),
    renew: (push) => renewTaskPush(db.prisma, push),
    release: (push) => releaseTaskPush(db.prisma, push),
    async remove({ viewerId, taskId, id, sealed }) {
      // Not one that has replaced it.
      await deleteTaskPushes(db.prisma, { viewerId, taskId, id, sealed })
    },
    noteSent: (push, sentState) => noteSentState(db.prisma, push, sentState),
    async viewerOf({ viewerId, tokenId, expiresAt }) {
      const viewer = await tokens.viewerOf(tokenId ?? viewerId)
      if (viewer === null || viewer.id !== viewerId) return null
      const signedIn = { ...viewer, tokenId, expiresAt }
      return (await tokens.stands(signedIn)) ? signedIn : null
    },
    async send(push, body, signal) {
      const { url, headers } = addressOf(push)
      const outcome = await http.send({
        method: 'POST',
        url,
        headers: { ...headers, 'content-type': 'application/a2a+json' },
        body: JSON.stringify(body),
        // A receiver that redirects could lead the credentials elsewhere.
        stays: true,
        timeoutMs: TIMEOUT_MS,
        signal,
      })
      return pushResultOf(outcome)
    },
  }
}

function check(viewer: Viewer, { id, url, token, authentication }: TaskPushInput): void {
  if (viewer.scope === 'HUMAN' && viewer.acting !== undefined)
    throw new ForbiddenError('An admin who acts as somebody else cannot configure push notifications.')
  if (viewer.tokenId !== null && prefixOf(viewer.tokenId) !== 'acc')
    throw new ForbiddenError('A session cannot configure push notifications: use an access token.')
  if (id !== null && (id === '' || id.length > LONGEST_ID || !PRINTABLE.test(id)))
    throw new BadInputError(`\`id\` must have 1 to ${LONGEST_ID} visible ASCII characters.`, 'id')
  if (!isPublicHttps(url))
    throw new BadInputError('`url` must be a public https address without user and password.', 'url')
  if (token !== null && (token.length > LONGEST_SECRET || !HEADER_VALUE.test(token)))
    throw new BadInputError(`\`token\` must have at most ${LONGEST_SECRET} ASCII characters.`, 'token')
  if (authentication === null) return
  const { scheme, credentials } = authentication
  if (!SCHEME.test(scheme))
    throw new BadInputError('`authentication.scheme` must be the name of an HTTP scheme.', 'scheme')
  if (credentials.length > LONGEST_SECRET || !HEADER_VALUE.test(credentials))
    throw new BadInputError(`\`credentials\` must have at most ${LONGEST_SECRET} ASCII characters.`, 'credentials')
}
