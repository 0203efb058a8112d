import type { Marks } from '../confidence/marks.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Message } from '../spaces/message.ts'
import type { Guard } from './guard.ts'

/** What a run's messages come from, as it writes on in them. */
export interface MessageMarks {
  /** By a step, which is said only where that may be heard; an end says nothing that was not said before. */
  by(message: Message, step: { isEnd: boolean }): { marks: Marks; isHeard: Prisma.Sql }
  /** More of it is written now. */
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
