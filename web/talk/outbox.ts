import { errorOf } from '../../client/errors.ts'
import { type Connection, type ParleyError, payloadOf } from '../../client/index.ts'
import { createObservable, type Observable } from '../../client/observable.ts'
import { SEND_MESSAGE } from '../../client/operations.ts'
import { keep, keptAt, unsentKey } from './kept.ts'

/** A message that could not be sent yet. */
export interface Unsent {
  spaceId: string
  text: string
  fileIds: string[]
  mentionedIds: string[]
  /** The first message of its thread. Absent outside of threads. */
  replyToId?: string
  /** All attempts have the same key, so that a message whose response was lost is not posted twice. */
  idempotencyKey: string
  /** Why the server refused the message; null while it is retried automatically. */
  refusal: string | null
}

/** The messages of all spaces that wait until the server responds, in the order in which they were written. */
export interface Outbox extends Observable<readonly Unsent[]> {
  add(message: Omit<Unsent, 'refusal'>): void
  /** Retries at once. With a key, also retries the message with that key if it was refused. */
  retry(idempotencyKey?: string): void
  discard(idempotencyKey: string): void
  /** Sends until the returned function is called. */
  start(): () => void
}

const FIRST_PAUSE_MS = 1000
const LONGEST_PAUSE_MS = 30_000
const MAY_PASS = ['NETWORK', 'INTERNAL_SERVER_ERROR', 'RATE_LIMITED']

/** Returns whether the server may accept the same message later. */
export const mayPass = ({ code }: ParleyError): boolean => MAY_PASS.includes(code)

export function createOutbox(connection: Connection, humanId: string): Outbox {
  const key = unsentKey(humanId)
  let unsent: readonly Unsent[] = read(key)
  let failures = 0
  let isRunning = false
  let isSending = false
  let timer: ReturnType<typeof setTimeout> | undefined
  const observable = createObservable<readonly Unsent[]>({ read: () => unsent })

  function set(next: readonly Unsent[]): void {
    unsent = next
    keep(key, next.length === 0 ? null : JSON.stringify(next))
    observable.changed()
  }

  const drop = (idempotencyKey: string) => set(unsent.filter((one) => one.idempotencyKey !== idempotencyKey))

  /** Sends the messages one after the other. Resolves to the failure that requires a pause. */
  async function sendAll(): Promise<ParleyError | null> {
    for (;;) {
      const next = unsent.find(({ refusal }) => refusal === null)
      if (next === undefined || !isRunning) return null
      const { refusal: _, ...input } = next
      try {
        payloadOf((await connection.ask(SEND_MESSAGE, { input })).sendMessage, 'SendMessagePayload')
        failures = 0
        drop(next.idempotencyKey)
      } catch (failure) {
        const error = errorOf(failure)
        if (mayPass(error)) return error
        set(
          unsent.map((one) => (one.idempotencyKey === next.idempotencyKey ? { ...one, refusal: error.message } : one)),
        )
      }
    }
  }

  async function flush(): Promise<void> {
    if (!isRunning || isSending) return
    clearTimeout(timer)
    isSending = true
    const error = await sendAll()
    isSending = false
    if (error === null || !isRunning) return
    const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures)
    failures += 1
    timer = setTimeout(() => void flush(), Math.max(pauseMs, error.retryAfterMs ?? 0))
  }

  return {
    getState: observable.getState,
    subscribe: observable.subscribe,
    add(message) {
      set([...unsent, { ...message, refusal: null }])
      void flush()
    },
    retry(idempotencyKey) {
      set(unsent.map((one) => (one.idempotencyKey === idempotencyKey ? { ...one, refusal: null } : one)))
      void flush()
    },
    discard: drop,
    start() {
      isRunning = true
      void flush()
      const stop = connection.subscribe(() => {
        if (connection.getState() === 'live') void flush()
      })
      return () => {
        isRunning = false
        clearTimeout(timer)
        stop()
      }
    },
  }
}

function read(key: string): readonly Unsent[] {
  try {
    const stored: unknown = JSON.parse(keptAt(key) ?? '[]')
    return Array.isArray(stored) ? stored.filter(isUnsent) : []
  } catch {
    return []
  }
}

const isUnsent = (value: unknown): value is Unsent =>
  typeof value === 'object' &&
  value !== null &&
  'idempotencyKey' in value &&
  typeof value.idempotencyKey === 'string' &&
  'spaceId' in value &&
  typeof value.spaceId === 'string' &&
  'text' in value &&
  typeof value.text === 'string'
