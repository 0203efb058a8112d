import { createHash } from 'node:crypto'
import type { Tokens } from '../access/tokens.ts'
import type { Viewer } from '../access/viewer.ts'
import type { TaskPush } from '../generated/prisma/client.ts'
import { BadInputError, ForbiddenError, LimitExceededError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { SealBrokenError } from '../platform/secret-box.ts'
import { isPublicHttps } from '../rules/push-endpoint.ts'
import { type PushOutcome, pushResultOf, retrySecondsOf } from '../rules/push-result.ts'
import {
  deleteTaskPushes,
  leaseTaskPushes,
  noteSentState,
  releaseTaskPush,
  renewTaskPush,
  saveTaskPush,
} from '../stores/task-push-store.ts'

/** The push configuration of a task, as the client gives it. */
export interface TaskPushInput {
  /** Null: the server derives the id from the task and the address, so that the same input has the same id. */
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

/**
 * The result of sending a notification. `over`: no further notification is sent to this address. `error` is set when this
 * server is at fault, and is reported to its operator.
 */
export type TaskPushSent = { type: 'sent' } | { type: 'later'; afterMs: number } | { type: 'over'; error: Error | null }

/** Configurations by which A2A clients are notified of the state of tasks. Each belongs to its viewer. */
export interface TaskPushes {
  /**
   * Checks an input and the limits, before the action to which it belongs. `taskId` is null for a task that does not
   * exist yet. @throws BadInputError, ForbiddenError, LimitExceededError
   */
  check(viewer: Viewer, input: TaskPushInput, taskId: string | null): Promise<void>
  /** Stores a configuration, which the caller follows from now on. @throws as `check` */
  create(viewer: Viewer, taskId: string, input: TaskPushInput & { sentState: string }): Promise<TaskPush>
  /**
   * Returns the viewer's configurations for the task, at most MOST_OF_TASK, ordered by id, without those whose secret
   * cannot be decrypted.
   */
  list(viewer: Viewer, taskId: string): Promise<ShownTaskPush[]>
  /** Deletes one. Returns whether there was one. */
  delete(viewer: Viewer, taskId: string, id: string): Promise<boolean>
  /**
   * Leases configurations that no process follows, because theirs has died, except those that this process follows.
   * `heldIds` are its leases.
   */
  lease(options: { most: number; heldIds: readonly string[] }): Promise<TaskPush[]>
  /** Returns false if the configuration was deleted or replaced, or another process follows it. */
  renew(push: TaskPush): Promise<boolean>
  /** Lets a process follow the task again after this time. Without effect if `renew` would return false. */
  release(push: TaskPush, afterMs: number): Promise<void>
  /** Deletes the configuration. Without effect if `renew` would return false. */
  remove(push: TaskPush): Promise<void>
  /** Returns false as `renew`. */
  noteSent(push: TaskPush, sentState: string): Promise<boolean>
  /** Returns the viewer whose rights apply to the notifications; null once the token has ended, or the configuration is too old. */
  viewerOf(push: TaskPush): Promise<Viewer | null>
  /** Sends a notification once. `refusals` is how often it was refused before. Never throws for failures of the receiver. */
  send(push: TaskPush, body: object, options: { refusals: number; signal: AbortSignal }): Promise<TaskPushSent>
}

const MOST_OF_TASK = 10
const MOST_OF_VIEWER = 100
const LONGEST_ID = 200
const LONGEST_SECRET = 4096
const TIMEOUT_MS = 15_000
/** A configuration is deleted after this time, even if its task has not ended. */
const LONGEST_AGE_MS = 30 * 24 * 3_600_000
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
  { db, clock, secretBox }: Pick<Platform, 'db' | 'clock' | 'secretBox'>,
  { tokens, http }: TaskPushesParts,
): TaskPushes {
  const contextOf = ({ viewerId, taskId, id }: Pick<TaskPush, 'viewerId' | 'taskId' | 'id'>) =>
    `task-push:${viewerId}:${taskId}:${id}`

  function addressOf(push: TaskPush): Address | SealBrokenError {
    try {
      return JSON.parse(secretBox.open(push.sealed, contextOf(push))) as Address
    } catch (error) {
      if (error instanceof SealBrokenError) return error
      throw error
    }
  }

  /** Returns what clients may read; nothing if the secret cannot be decrypted. */
  function shown(push: TaskPush): ShownTaskPush[] {
    const address = addressOf(push)
    if (address instanceof SealBrokenError) return []
    return [{ id: push.id, taskId: push.taskId, url: address.url, scheme: address.scheme }]
  }

  return {
    async check(viewer, input, taskId) {
      checkInput(viewer, input)
      await checkRoom(db.prisma, { viewerId: viewer.id, taskId, id: taskId === null ? null : idOf(taskId, input) })
    },
    async create(viewer, taskId, input) {
      checkInput(viewer, input)
      const { url, token, authentication, sentState } = input
      const key = { viewerId: viewer.id, taskId, id: idOf(taskId, input) }
      const headers = {
        ...(token === null ? {} : { 'x-a2a-notification-token': token }),
        ...(authentication === null ? {} : { authorization: `${authentication.scheme} ${authentication.credentials}` }),
      }
      const address: Address = { url, headers, scheme: authentication?.scheme ?? null }
      const sealed = secretBox.seal(JSON.stringify(address), contextOf(key))
      return db.transaction(async (tx) => {
        // Requests of the viewer at the same time count one after the other.
        await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended(${`task-push:${viewer.id}`}, 0))`
        await checkRoom(tx, key)
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
      return rows.flatMap(shown)
    },
    async delete(viewer, taskId, id) {
      return (await deleteTaskPushes(db.prisma, { viewerId: viewer.id, taskId, id })) > 0
    },
    lease: (options) => leaseTaskPushes(db.prisma, options),
    renew: (push) => renewTaskPush(db.prisma, push),
    release: (push, afterMs) => releaseTaskPush(db.prisma, push, afterMs / 1000),
    async remove({ viewerId, taskId, id, leaseId }) {
      await deleteTaskPushes(db.prisma, { viewerId, taskId, id, leaseId })
    },
    noteSent: (push, sentState) => noteSentState(db.prisma, push, sentState),
    async viewerOf({ viewerId, tokenId, expiresAt, createdAt }) {
      if (clock.now() - createdAt.getTime() > LONGEST_AGE_MS) return null
      const viewer = await tokens.viewerOf(tokenId ?? viewerId)
      if (viewer === null || viewer.id !== viewerId) return null
      const signedIn = { ...viewer, tokenId, expiresAt }
      return (await tokens.stands(signedIn)) ? signedIn : null
    },
    async send(push, body, { refusals, signal }) {
      const address = addressOf(push)
      if (address instanceof SealBrokenError) return { type: 'over', error: address }
      const { url, headers } = address
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
      const result = pushResultOf(outcome)
      if (result === 'sent') return { type: 'sent' }
      const afterSeconds = result === 'later' ? retrySecondsOf(refusals) : null
      return afterSeconds === null ? { type: 'over', error: null } : { type: 'later', afterMs: afterSeconds * 1000 }
    },
  }
}

function idOf(taskId: string, { id, url }: TaskPushInput): string {
  return id ?? `psh_${createHash('sha256').update(`${taskId}\n${url}`).digest('hex').slice(0, 32)}`
}

/** Checks that a configuration may be added, or replace that with the same key. @throws LimitExceededError */
async function checkRoom(
  tx: Tx,
  { viewerId, taskId, id }: { viewerId: string; taskId: string | null; id: string | null },
): Promise<void> {
  const others = taskId === null || id === null ? { viewerId } : { viewerId, NOT: { taskId, id } }
  if (taskId !== null && (await tx.taskPush.count({ where: { ...others, taskId } })) >= MOST_OF_TASK)
    throw new LimitExceededError(`A task has at most ${MOST_OF_TASK} push configurations.`)
  if ((await tx.taskPush.count({ where: others })) >= MOST_OF_VIEWER)
    throw new LimitExceededError(`You have ${MOST_OF_VIEWER} push configurations. Delete some first.`)
}

function checkInput(viewer: Viewer, { id, url, token, authentication }: TaskPushInput): void {
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
