import { memo } from 'react'
import { Link } from 'wouter'
import type { Message, MessagePart, ThreadSummary } from '../../client/index.ts'
import { Avatar } from '../ui/avatar.tsx'
import { Boundary } from '../ui/boundary.tsx'
import { wordsOfCost } from '../ui/cost.ts'
import { Icon } from '../ui/icons.tsx'
import { Markdown } from '../ui/markdown.tsx'
import { Moment, Time, wordsOfDay } from '../ui/time.tsx'
import { CallCard, plainCall } from './call-card.tsx'
import { EditForm } from './edit-form.tsx'
import { Edited } from './edited.tsx'
import { FileView } from './file-view.tsx'
import { MessageActions } from './message-actions.tsx'
import { useMessageVerbs } from './message-verbs.tsx'
import { Outcomes } from './outcomes.tsx'
import { Reactions } from './reactions.tsx'

interface MessageViewProps {
  message: Message
  /** Whether this is the first message of its day, above which the day is shown. */
  isFirstOfDay: boolean
  /** Whether this is the first message that the viewer has not read. */
  isFirstUnread: boolean
  /** Whether the message directly follows one from the same sender, so that the header is left out. */
  isContinued: boolean
  /** Whether this is the message after `#` in the URL. */
  isTarget: boolean
  /** The ids of the agents whose failure another message shows, separated by spaces. */
  repeated: string
  /** The thread of the message. */
  thread: ThreadSummary | undefined
}

/** A message as plain text, for when it cannot be rendered. */
export const plainMessage = ({ sender, parts }: Message) => [`${sender.name}:`, ...parts.map(plainPart)].join('\n')

function plainPart(part: MessagePart): string {
  if (part.__typename === 'TextPart') return part.text
  if (part.__typename === 'FilePart') return `[${part.file.name}]`
  return part.__typename === 'ToolCallPart' ? plainCall(part.toolCall) : ''
}

/** A waiting call shows its own state. */
const isWaiting = (part: MessagePart) => part.__typename === 'ToolCallPart' && part.toolCall.status === 'WAITING'

const STATUS_WORDS: Record<string, string> = {
  STREAMING: 'is writing',
  REQUIRES_ACTION: 'waits for an answer',
  INTERRUPTED: 'was interrupted',
}

/** A message with its origin, outcomes and cost. Memoized, so that it renders again only when it changes. */
export const MessageView = memo(function MessageView(props: MessageViewProps) {
  const { message, isFirstOfDay, isFirstUnread, isContinued, isTarget, repeated, thread } = props
  const { id, sender, status, parts } = message
  const isAgent = sender.kind === 'AGENT'
  // The first message of an open thread is also in the conversation, where the element with the id is.
  const isShownTwice = useMessageVerbs()?.threadId === id
  return (
    <>
      {isFirstOfDay && (
        <div className="day">
          <span>{wordsOfDay(message.createdAt)}</span>
        </div>
      )}
      {isFirstUnread && (
        <div className="day new">
          <span>New</span>
        </div>
      )}
      <article
        id={isShownTwice ? undefined : id}
        className={`message ${isAgent ? 'agent' : 'human'} ${isContinued ? 'continued' : ''} ${isTarget ? 'target' : ''}`}
        data-status={status}
        aria-busy={status === 'STREAMING'}
        aria-label={`${sender.name}${isAgent ? ', agent' : ''}`}
      >
        <div className="message-side">{isContinued ? null : <Avatar entity={sender} size={36} />}</div>
        <div className="message-main">
          {!isContinued && <MessageHead message={message} />}
          <Origin message={message} />
          <Content message={message} />
          {STATUS_WORDS[status] && !(status === 'REQUIRES_ACTION' && parts.some(isWaiting)) && (
            <p className={`message-status ${status.toLowerCase()}`}>
              {status === 'STREAMING' && <span className="dots" aria-hidden="true" />}
              {STATUS_WORDS[status]}
            </p>
          )}
          <Reactions message={message} />
          <div>
            <Edited message={message} />
            <Outcomes message={message} repeated={repeated} />
            <Cost message={message} />
          </div>
          {thread !== undefined && <ThreadLine message={message} thread={thread} />}
        </div>
        <MessageActions message={message} />
      </article>
    </>
  )
})

/** The number of replies, marked if some are new. Opens the thread. */
function ThreadLine({ message: { id, sender }, thread }: { message: Message; thread: ThreadSummary }) {
  const openThread = useMessageVerbs()?.openThread
  if (openThread == null) return null
  const { replyCount, unreadCount, lastReplyAt } = thread
  const words = `${replyCount.toLocaleString()} ${replyCount === 1 ? 'reply' : 'replies'}`
  return (
    <p className="thread-place">
      <button type="button" className="thread-line" onClick={() => openThread(id)}>
        <Icon name="reply" size={14} />
        {words}
        <span className="sr-only"> to {sender.name}</span>
        {unreadCount > 0 && <span className="unread">{unreadCount} new</span>}
        {lastReplyAt !== null && (
          <span className="thread-time">
            <Moment at={lastReplyAt} />
          </span>
        )}
      </button>
    </p>
  )
}

/** The parts of a message. While its text is being edited, a form replaces the texts. */
function Content({ message }: { message: Message }) {
  const verbs = useMessageVerbs()
  if (message.deletedAt !== null) return <p className="deleted">This message was deleted.</p>
  const isEditing = verbs?.editingId === message.id
  return (
    <>
      {isEditing && <EditForm message={message} onClose={() => verbs.edit(null)} />}
      {message.parts.map((part) =>
        isEditing && part.__typename === 'TextPart' ? null : (
          <PartView key={part.id} part={part} isGrowing={message.status === 'STREAMING'} />
        ),
      )}
    </>
  )
}

function PartView({ part, isGrowing }: { part: MessagePart; isGrowing: boolean }) {
  switch (part.__typename) {
    case 'TextPart':
      return (
        <Boundary what="text" version={part.text} text={() => part.text}>
          <Markdown text={part.text} isGrowing={isGrowing} />
        </Boundary>
      )
    case 'ToolCallPart':
      return <CallCard call={part.toolCall} />
    case 'FilePart':
      return <FileView file={part.file} />
    default:
      return (
        <p className="plain-note">
          The console does not know this kind of part. Reload the page to update the console.
        </p>
      )
  }
}

function MessageHead({ message: { id, sender, actingAdmin, createdAt, mentions, run } }: { message: Message }) {
  return (
    <header>
      <strong className="sender" dir="auto">
        {sender.kind === 'AGENT' ? <Link href={`/agents/${sender.id}`}>{sender.name}</Link> : sender.name}
      </strong>
      {sender.kind === 'AGENT' && <span className="kind">agent</span>}
      {actingAdmin !== null && (
        <span className="kind" title={`Sent by ${actingAdmin.name}, who acted as ${sender.name}`}>
          sent by {actingAdmin.name}
        </span>
      )}
      {mentions.length > 0 && (
        <span className="to">
          to <b>{mentions.map(({ name }) => `@${name}`).join(', ')}</b>
        </span>
      )}
      <a className="permalink" href={`#${id}`}>
        <span className="sr-only">Link to this message, </span>
        <Time at={createdAt} />
      </a>
      {run !== null && (
        <Link className="inside" href={`/runs/${run.id}`} aria-label="Open the run that wrote this message">
          <Icon name="branch" size={14} /> run
        </Link>
      )}
    </header>
  )
}

/** The usage of all runs that the message started. */
function Cost({ message: { rootUsage } }: { message: Message }) {
  if (rootUsage === null || rootUsage.totalTokens === 0) return null
  const { totalTokens, costUsd } = rootUsage
  const cost = costUsd === null || costUsd === 0 ? '' : ` · ${wordsOfCost(costUsd)}`
  return (
    <span className="cost" title="Usage of all runs that this message started">
      {totalTokens.toLocaleString()} tokens{cost}
    </span>
  )
}

const ORIGIN_WORDS: Record<string, string> = {
  PLAN: 'the plan',
  SERVICE: 'the service',
  INBOX: 'its inbox',
}

/** Why the message was posted, if its trigger was outside of this space. */
function Origin({ message: { origin } }: { message: Message }) {
  if (origin === null) return null
  const { triggerType, triggerName, triggerSenderName, triggerSpaceId, triggerSpaceName, triggerMessage } = origin
  return (
    <p className="origin">
      <Icon name="branch" size={14} />
      <span>
        because{' '}
        {triggerSenderName !== null && (
          <>
            of <b>{triggerSenderName}</b>
          </>
        )}
        {triggerSpaceName !== null && (
          <>
            {' '}
            in{' '}
            {triggerSpaceId === null ? (
              triggerSpaceName
            ) : (
              <Link href={`/spaces/${triggerSpaceId}`}>{triggerSpaceName}</Link>
            )}
          </>
        )}
        {triggerSenderName === null && triggerSpaceName === null && (
          <>
            of {ORIGIN_WORDS[triggerType] ?? 'something elsewhere'} {triggerName !== null && <b>{triggerName}</b>}
          </>
        )}
        {triggerMessage !== null && <q dir="auto">{triggerMessage.slice(0, 140)}</q>}
      </span>
    </p>
  )
}
