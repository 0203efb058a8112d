import { createContext, type ReactNode, use, useEffect, useMemo, useState } from 'react'
import type { Message, Space } from '../../client/index.ts'
import type { Session } from '../session.tsx'

/** Actions on the messages of the open space. */
interface MessageVerbs {
  spaceId: string
  routing: Space['routing']
  /** The first message of the shown thread; null in the conversation of the space. */
  threadId: string | null
  /** Opens the thread of a message; null in a thread. */
  openThread: ((rootId: string) => void) | null
  /** The message whose text is being edited. */
  editingId: string | null
  edit(messageId: string | null): void
  /** Puts the text of a message into the field for a new one. */
  quote(message: Message): void
  /** Shows a few words for a moment, and announces them to screen readers. */
  tell(words: string): void
}

const VerbsContext = createContext<MessageVerbs | null>(null)

/** Null where messages can only be read. */
export const useMessageVerbs = (): MessageVerbs | null => use(VerbsContext)

interface MessageVerbsProviderProps extends Omit<MessageVerbs, 'tell'> {
  children: ReactNode
}

const TOLD_MS = 2500

export function MessageVerbsProvider({ children, ...given }: MessageVerbsProviderProps) {
  const { spaceId, routing, threadId, openThread, editingId, edit, quote } = given
  const [told, setTold] = useState({ words: '' })
  useEffect(() => {
    if (told.words === '') return
    const timer = setTimeout(() => setTold({ words: '' }), TOLD_MS)
    return () => clearTimeout(timer)
  }, [told])
  const verbs = useMemo<MessageVerbs>(
    () => ({ spaceId, routing, threadId, openThread, editingId, edit, quote, tell: (words) => setTold({ words }) }),
    [spaceId, routing, threadId, openThread, editingId, edit, quote],
  )
  return (
    <VerbsContext value={verbs}>
      {children}
      <p className="told" role="status">
        {told.words !== '' && <span>{told.words}</span>}
      </p>
    </VerbsContext>
  )
}

/** The texts of a message, as its sender wrote them. */
export const textOf = ({ parts }: Pick<Message, 'parts'>): string =>
  parts.flatMap((part) => (part.__typename === 'TextPart' ? [part.text] : [])).join('\n\n')

type Who = Pick<Session, 'isHuman' | 'isAdmin' | 'humanId'>

/** Decides which actions are offered. The server has the final decision. */
export const mayEdit = ({ sender, status, deletedAt, parts }: Message, { isHuman, humanId }: Who): boolean =>
  isHuman &&
  sender.id === humanId &&
  deletedAt === null &&
  status === 'COMPLETE' &&
  parts.every(({ __typename }) => __typename !== 'ToolCallPart')

export const mayDelete = ({ sender, status, deletedAt }: Message, { isAdmin, humanId }: Who): boolean =>
  deletedAt === null && status !== 'STREAMING' && (isAdmin || sender.id === humanId)

/** A deleted message can be replied to only if it has a thread. */
export const mayReply = ({ deletedAt }: Message, { isHuman }: Who): boolean => isHuman && deletedAt === null

export const mayReact = ({ deletedAt }: Message, { isHuman }: Who): boolean => isHuman && deletedAt === null
