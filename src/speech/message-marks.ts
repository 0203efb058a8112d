import type { Marks } from '../confidence/marks.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Message } from '../spaces/message.ts'
import type { Guard } from './guard.ts'

/** The marks of a run's messages, as the run extends them. */
export interface MessageMarks {
  /**
   * The marks of a message after a step, with the condition that its members may read them. An end
   * adds no content, so it changes no marks.
   */
  by(message: Message, step: { isEnd: boolean }): { marks: Marks; isHeard: Prisma.Sql }
  /** The message has received more content. */
  writtenOn(messageId: string): void
}

export function createMessageMarks(run: Marks, guard: Guard): MessageMarks {
  const known = new Map<string, Marks>()
  const now = (): Marks => ({ places: run.places, label: run.label })
  return {
    by({ id, spaceId, places, label }, { isEnd }) {
      if (isEnd) return { marks: known.get(id) ?? { places, label }, isHeard: Prisma.sql`true` }
      return { marks: now(), isHeard: guard.inSpace(spaceId) }
    },
    writtenOn: (messageId) => void known.set(messageId, now()),
  }
}
