import { createHash, randomUUID } from 'node:crypto'
import type { Viewer } from '../access/viewer.ts'
import type { TaskPush } from '../generated/prisma/client.ts'
import { DUE_JOBS_CHANNEL, PUSH_TASK } from '../jobs/queues.ts'
import { BadInputError, ForbiddenError, LimitExceededError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { SealBrokenError } from '../platform/secret-box.ts'
import { isPublicHttps } from '../rules/push-endpoint.ts'
import type { TaskState } from '../rules/task-state.ts'
import { deleteTaskPushes, saveTaskPush } from '../stores/task-push-store.ts'

/** A client's request to be notified of a task by push notifications. */
export interface TaskPushInput {
  /**
   * The id of the configuration. If null, the server derives the id from the task and the URL, so that repeating the
   * request gives the same id.
   */
  id: string | null
  url: string
  /** The token to send in the header X-A2A-Notification-Token. */
  token: string | null
  authentication: { scheme: string; credentials: string } | null
}

/** A configuration as clients read it, without secrets. */
export interface ShownTaskPush {
  id: string
  taskId: string
  url: string
  scheme: string | null
}

/** The URL of a configuration, and the headers with which notifications are sent to it. */
export interface TaskPushAddress {
  url: string
  headers: Record<string, string>
  scheme: string | null
}

/**
 * Manages the push notification configurations of A2A clients, which want to be notified of the state of tasks. Jobs
 * send the notifications. Each configuration belongs to the viewer who created it.
 */
export interface TaskPushes {
  /**
   * Reserves one of the viewer's configurations for a message that is about to be posted. The caller must then call
   * `create` or `release`. If the process dies, the reservation expires after 10 minutes.
   * @throws BadInputError, ForbiddenError, LimitExceededError
   */
  reserve(viewer: Viewer, input: TaskPushInput): Promise<TaskPushRoom>
  release(room: TaskPushRoom): Promise<void>
  /**
   * Stores a configuration. Uses the reservation `room` if it is given.
   * @throws the errors of `reserve`
   */
  create(viewer: Viewer, taskId: string, input: TaskPushInput, room?: TaskPushRoom): Promise<ShownTaskPush>
  /**
   * Returns the viewer's configurations for the task, ordered by id, at most MOST_OF_TASK. Omits configurations whose
   * secrets cannot be decrypted.
   */
  list(viewer: Viewer, taskId: string): Promise<ShownTaskPush[]>
  /** Deletes a configuration, if it exists. */
  delete(viewer: Viewer, taskId: string, id: string): Promise<void>
}

/** The key of the row that reserves a configuration. */
export type TaskPushRoom = Pick<TaskPush, 'viewerId' | 'taskId' | 'id'>

/** The prefix of `taskId` in rows that reserve configurations for messages that have not been posted yet. */
export const ROOM_PREFIX = 'new:'

/** The state of a new task. Clients need no notification of this state. */
const UNTOLD: TaskState = 'TASK_STATE_WORKING'
const MOST_OF_TASK = 10
const MOST_OF_VIEWER = 100
const LONGEST_ID = 200
const LONGEST_SECRET = 4096
const PRINTABLE = /^[\x21-\x7e]*$/
const HEADER_VALUE = /^[\x20-\x7e]*$/
const SCHEME = /^[A-Za-z][\w-]{0,39}$/

export function createTaskPushes({
  db,
  clock,
  jobs,
  secretBox,
  signals,
}: Pick<Platform, 'db' | 'clock' | 'jobs' | 'secretBox' | 'signals'>): TaskPushes {
  /**
   * Returns an array with the configuration as clients read it. The array is empty if the configuration's secret
   * cannot be decrypted.
   */
  function shown(push: TaskPush): ShownTaskPush[] {
    const address = addressOf(push, secretBox)
    if (address instanceof SealBrokenError) return []
    return [{ id: push.id, taskId: push.taskId, url: address.url, scheme: address.scheme }]
  }

  function rowOf(viewer: Viewer, taskId: string, input: TaskPushInput): TaskPush {
    const { url, token, authentication } = input
    const key = { viewerId: viewer.id, taskId, id: idOf(taskId, input) }
    const headers = {
      ...(token === null ? {} : { 'x-a2a-notification-token': token }),
      ...(authentication === null ? {} : { authorization: `${authentication.scheme} ${authentication.credentials}` }),
    }
    const address: TaskPushAddress = { url, headers, scheme: authentication?.scheme ?? null }
    return {
      ...key,
      tokenId: viewer.tokenId,
      expiresAt: viewer.expiresAt,
      sealed: secretBox.seal(JSON.stringify(address), contextOf(key)),
      sentState: UNTOLD,
      createdAt: new Date(clock.now()),
    }
  }

  /** Stores a row if the limits allow another one. Serializes concurrent requests of the same viewer. */
  async function save(tx: Tx, row: TaskPush): Promise<void> {
    await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended(${`task-push:${row.viewerId}`}, 0))`
    await checkRoom(tx, row)
    await saveTaskPush(tx, row)
  }

  return {
    async reserve(viewer, input) {
      checkInput(viewer, input)
      const row = rowOf(viewer, `${ROOM_PREFIX}${randomUUID()}`, input)
      await db.transaction((tx) => save(tx, row))
      return row
    },
    async release({ viewerId, taskId, id }) {
      await deleteTaskPushes(db.prisma, { viewerId, taskId, id })
    },
    async create(viewer, taskId, input, room) {
      checkInput(viewer, input)
      const row = rowOf(viewer, taskId, input)
      await db.transaction(async (tx) => {
        if (room !== undefined) {
          const { viewerId, taskId: reserved, id } = room
          await deleteTaskPushes(tx, { viewerId, taskId: reserved, id })
        }
        await save(tx, row)
        await enqueueTaskPush(tx, jobs, row, new Date(clock.now()))
      })
      await signals.publish(DUE_JOBS_CHANNEL, {})
      return { id: row.id, taskId, url: input.url, scheme: input.authentication?.scheme ?? null }
    },
    async list(viewer, taskId) {
      const rows = await db.prisma.taskPush.findMany({ where: { viewerId: viewer.id, taskId }, orderBy: { id: 'asc' } })
      return rows.flatMap(shown)
    },
    async delete(viewer, taskId, id) {
      await deleteTaskPushes(db.prisma, { viewerId: viewer.id, taskId, id })
    },
  }
}

const contextOf = ({ viewerId, taskId, id }: TaskPushRoom) => `task-push:${viewerId}:${taskId}:${id}`

/** Returns the URL and the headers for notifying a client. If they cannot be decrypted, returns the error. */
export function addressOf(push: TaskPush, secretBox: Platform['secretBox']): TaskPushAddress | SealBrokenError {
  try {
    return JSON.parse(secretBox.open(push.sealed, contextOf(push))) as TaskPushAddress
  } catch (error) {
    if (error instanceof SealBrokenError) return error
    throw error
  }
}

/** Returns the key of the job that checks the task of a configuration. */
export const keyOf = ({ viewerId, taskId, id }: TaskPushRoom): string => `${viewerId}:${taskId}:${id}`

/** Enqueues a job that checks the task's state for a push configuration, unless such a job is already waiting. */
export async function enqueueTaskPush(
  tx: Tx,
  jobs: Platform['jobs'],
  { viewerId, taskId, id }: TaskPushRoom,
  at: Date,
): Promise<void> {
  const input = { viewerId, taskId, id }
  await jobs.enqueue(tx, PUSH_TASK, [{ key: keyOf(input), input, at }])
}

function idOf(taskId: string, { id, url }: TaskPushInput): string {
  return id ?? `psh_${createHash('sha256').update(`${taskId}\n${url}`).digest('hex').slice(0, 32)}`
}

/**
 * Checks that the limits allow another configuration. A configuration with the same key does not count, because it is
 * replaced.
 * @throws LimitExceededError
 */
async function checkRoom(tx: Tx, { viewerId, taskId, id }: TaskPushRoom): Promise<void> {
  const others = { viewerId, NOT: { taskId, id } }
  if ((await tx.taskPush.count({ where: { ...others, taskId } })) >= MOST_OF_TASK)
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
