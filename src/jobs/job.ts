import type { z } from 'zod'
import type { Tx } from '../platform/db.ts'

/** How a failed job is retried. */
export interface RetryPolicy {
  /**
   * The maximum number of retries after the first attempt. A job whose last retry fails becomes a failed job (a dead
   * letter).
   */
  limit: number
  /** The delay after the first failure. Each further failure doubles the delay, with jitter. */
  delaySeconds: number
  /** The maximum delay between two attempts. */
  maxDelaySeconds: number
}

/** A kind of job: one queue in the database. */
export interface JobKind<Input extends object> {
  /** The name of the queue. Admins and metrics see this name. */
  name: string
  /** The schema that validates a stored input, because an earlier version may have written it. */
  input: z.ZodType<Input>
  /** Returns the id of the object that the job concerns, which admins see; null if there is none. */
  subject(input: Input): string | null
  retry: RetryPolicy
  /** Whether jobs with the same key run one at a time, in the order in which they were enqueued. */
  isOrdered: boolean
  /**
   * Set for a periodic job: the workers run one job in each period of this many seconds, and never two jobs at the same
   * time.
   */
  everySeconds: number | null
  /** The maximum number of jobs that a process runs at a time. */
  concurrency: number
}

/** Defines a kind of job. List it in queues.ts, and bind its handler in app/engine.ts. */
export function defineJob<Input extends object>(kind: {
  name: string
  input: z.ZodType<Input>
  subject: (input: Input) => string | null
  retry: RetryPolicy
  isOrdered?: boolean
  everySeconds?: number
  concurrency: number
}): JobKind<Input> {
  return { isOrdered: false, everySeconds: null, ...kind }
}

/** The context that a handler receives in addition to the input. */
export interface JobContext {
  /** The number of the attempt, starting at 1. */
  attempt: number
  /** Aborts when this process shuts down, or when the job no longer belongs to this process. */
  signal: AbortSignal
  /**
   * Completes the job in the transaction of its effect, so that the effect happens exactly once. Without this call, the
   * job is completed when the handler returns, and the effect is repeated if the process dies before that.
   * @throws JobLostError if the job no longer belongs to this process
   */
  complete(tx: Tx): Promise<void>
}

/** A kind of job with its handler. */
export interface BoundJob {
  // biome-ignore lint/suspicious/noExplicitAny: the input's type is checked where the handler is bound
  kind: JobKind<any>
  handle(data: unknown, context: JobContext): Promise<void>
}

/** Binds a handler to its kind of job. If the handler throws, the attempt fails. */
export function bindJob<Input extends object>(
  kind: JobKind<Input>,
  handle: (input: Input, context: JobContext) => Promise<void>,
): BoundJob {
  return { kind, handle: async (data, context) => handle(kind.input.parse(data), context) }
}

/** Thrown by a handler if further attempts cannot succeed. The job then becomes a failed job immediately. */
export class PermanentJobError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'PermanentJobError'
  }
}

/** Thrown if the job was completed, failed or claimed again after this process had claimed it. */
export class JobLostError extends Error {
  constructor() {
    super('The job no longer belongs to this process.')
    this.name = 'JobLostError'
  }
}
