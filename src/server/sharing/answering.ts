import type { ExecutionResult } from 'graphql'
import type { Viewer } from '../../access/viewer.ts'
import type { SpaceEvent } from '../../schema/streams.ts'
import { witnessOf } from './witness.ts'

/** What an event comes to: the same for all, or to each viewer by itself. An error is what refuses that viewer. */
export type Answers = string | ReadonlyMap<string, string | Error>

/** What it comes to for one of the viewers that it was answered for. */
export function answerFor(answers: Answers, viewer: Viewer): string | Error | undefined {
  return typeof answers === 'string' ? answers : answers.get(identityOf(viewer))
}

/** Answers events by one operation, once for all viewers that get the same. One event at a time. */
export interface Answering {
  /** `viewers` are asked for where it turns out that they do not. */
  answer(event: SpaceEvent, viewers: () => Iterable<Viewer>): Promise<Answers>
  end(): void
}

export interface AnsweringParts {
  /** One of those who answers are for. */
  anyViewer: Viewer
  /** Runs the operation for a viewer over events that are given. @throws what refuses it. */
  run(viewer: Viewer, events: AsyncIterable<SpaceEvent>): Promise<AsyncIterable<ExecutionResult>>
  /** An answer as it is sent. */
  textOf(result: ExecutionResult): string
}

export function createAnswering({ anyViewer, run, textOf }: AnsweringParts): Answering {
  const witness = witnessOf(anyViewer)
  let common: Promise<Running> | null = null

  async function answerOwn(viewer: Viewer, event: SpaceEvent): Promise<string | Error> {
    try {
      const own = await start((events) => run(viewer, events))
      const result = await own.answer(event)
      own.end()
      return textOf(result)
    } catch (error) {
      return error as Error
    }
  }

  return {
    async answer(event, viewers) {
      common ??= start((events) => run(witness.viewer, events))
      witness.forget()
      const result = await (await common).answer(event)
      if (!witness.wasAsked()) return textOf(result)
      const distinct = new Map(Array.from(viewers(), (viewer) => [identityOf(viewer), viewer]))
      const own = async ([identity, viewer]: [string, Viewer]) => [identity, await answerOwn(viewer, event)] as const
      return new Map(await Promise.all([...distinct].map(own)))
    },
    end: () => void common?.then((running) => running.end()).catch(() => {}),
  }
}

/** Viewers of one scope with the same identity are the same. */
function identityOf({ id, tokenId }: Viewer): string {
  return `${id} ${tokenId}`
}

/** An operation that answers one event after the other. */
interface Running {
  answer(event: SpaceEvent): Promise<ExecutionResult>
  end(): void
}

async function start(run: (events: AsyncIterable<SpaceEvent>) => Promise<AsyncIterable<ExecutionResult>>) {
  let given: SpaceEvent | null = null
  // Asked for its next event only when there is one.
  async function* events(): AsyncGenerator<SpaceEvent> {
    while (given !== null) {
      const event = given
      given = null
      yield event
    }
  }
  const results = (await run(events()))[Symbol.asyncIterator]()
  const running: Running = {
    async answer(event) {
      given = event
      const { done, value } = await results.next()
      if (done) throw new Error('an operation ended before its events did')
      return value
    },
    end: () => void results.return?.(),
  }
  return running
}
