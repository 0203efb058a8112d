import { lazy, Suspense, useCallback, useRef, useState } from 'react'
import { Link } from 'wouter'
import type { Message, Space } from '../../client/index.ts'
import { useSpace } from '../../client/react.ts'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { Avatar } from '../ui/avatar.tsx'
import { Boundary } from '../ui/boundary.tsx'
import { Button, IconButton } from '../ui/button.tsx'
import { Icon } from '../ui/icons.tsx'
import { Empty, Loading } from '../ui/notice.tsx'
import { ActivityBar } from './activity-bar.tsx'
import { Announcer } from './announcer.tsx'
import { Composer, type ComposerHandle } from './composer.tsx'
import { ConfidenceLine } from './confidence.tsx'
import { MessageVerbsProvider, mayEdit, textOf } from './message-verbs.tsx'
import { useOpenThread } from './open-thread.ts'
import { TypingLine, useTyping } from './presence.tsx'
import { useReading } from './reading.ts'
import { useSending } from './sending.ts'
import type { Part } from './space-details.tsx'
import { useStable } from './stable.ts'
import { hasSuggestions, Suggestions } from './suggestions.tsx'
import { ThreadPanel } from './thread-panel.tsx'
import { Timeline } from './timeline.tsx'
import { UnreadThreads } from './unread-threads.tsx'
import { useFileDrop } from './uploads.tsx'
import { useWriteKey } from './write-key.ts'

// Opened by a click, so the first load omits them.
const loadDetails = () => import('./space-details.tsx')
const SpaceDetails = lazy(() => loadDetails().then(({ SpaceDetails: details }) => ({ default: details })))

/** A space: its live conversation, and the field for a new message. */
export function SpacePage({ spaceId }: { spaceId: string }) {
  const [attempt, setAttempt] = useState(0)
  return <SpaceView key={attempt} spaceId={spaceId} onRetry={() => setAttempt(attempt + 1)} />
}

const FOR_GOOD = ['FORBIDDEN', 'NOT_FOUND', 'UNAUTHENTICATED']

function SpaceView({ spaceId, onRetry }: { spaceId: string; onRetry(): void }) {
  const session = useSession()
  const { connection, isHuman, humanId } = session
  const state = useSpace(connection, spaceId, { withPresence: true, rootsOnly: true, viewerId: humanId })
  // The details stay rendered after they were opened, so that they can close gradually.
  const [details, setDetails] = useState<{ part: Part; isOpen: boolean } | null>(null)
  const openDetails = (part: Part) => setDetails({ part, isOpen: true })
  const [send, sentCount] = useSending(state.send)
  const { rootId, target, targetReply, open: openThread, close: closeThread } = useOpenThread(spaceId)
  const onSeen = useReading(spaceId)
  const { space, status, error, messages, activity, presence } = state
  const typing = useTyping(state)
  const [editingId, setEditing] = useState<string | null>(null)
  const composer = useRef<ComposerHandle>(null)
  const fileDrop = useFileDrop(composer)
  useWriteKey(composer, { isEnabled: rootId === null })
  const edit = useCallback((id: string | null) => {
    setEditing(id)
    if (id === null) composer.current?.focus()
  }, [])
  const quote = useCallback((message: Message) => composer.current?.quote(textOf(message)), [])
  const editLast = useStable(() => {
    const last = messages.findLast((message) => mayEdit(message, session))
    if (last !== undefined) setEditing(last.id)
  })

  if (status === 'ended') {
    const isForGood = error === null || FOR_GOOD.includes(error.code)
    return (
      <>
        <PageHead title={space?.name ?? 'Space'} />
        <Empty icon="space" title={isForGood ? 'You cannot see this space' : 'This space could not be loaded'}>
          <p>
            {isForGood
              ? 'The space does not exist, was deleted, or you are not a member. A member can add you, or send you a join link.'
              : (error?.message ?? 'Live updates have ended.')}
          </p>
          {!isForGood && (
            <Button icon="retry" onClick={onRetry}>
              Try again
            </Button>
          )}
          <Link className="button" href="/">
            Go to your spaces
          </Link>
        </Empty>
      </>
    )
  }
  if (space === null) {
    return (
      <>
        <PageHead title="…" />
        <Loading what="the conversation" />
      </>
    )
  }
  return (
    <MessageVerbsProvider
      spaceId={spaceId}
      routing={space.routing}
      threadId={null}
      openThread={openThread}
      editingId={editingId}
      edit={edit}
      quote={quote}
    >
      {isHuman && (
        <button type="button" className="skip button" onClick={() => composer.current?.focus()}>
          Skip to the message field
        </button>
      )}
      <PageHead title={space.name} note={space.description}>
        <Link
          href={`/search?space=${spaceId}`}
          className="icon-button"
          aria-label="Search in this space"
          title="Search"
        >
          <Icon name="search" />
        </Link>
        <button
          type="button"
          className="members-button"
          onPointerEnter={() => void loadDetails()}
          onClick={() => openDetails('ALL')}
        >
          {space.members.slice(0, 5).map((member) => (
            <Avatar key={member.id} entity={member} size={26} />
          ))}
          <span className="members-count">
            {space.members.length}
            <span className="sr-only"> members, details</span>
          </span>
        </button>
        <IconButton label="About this space" icon="info" onClick={() => openDetails('ALL')} />
      </PageHead>
      <div className="talk">
        <div className="talk-main" {...fileDrop}>
          {space.confidential && <ConfidenceLine />}
          {isHuman && (
            <Boundary what="list of threads with new replies" version={rootId} fallback={null}>
              <UnreadThreads spaceId={spaceId} openId={rootId} onOpen={openThread} />
            </Boundary>
          )}
          {messages.length === 0 ? (
            <NoMessages space={space} onDetails={openDetails} />
          ) : (
            <Boundary what="conversation">
              <Timeline
                state={state}
                loadEarlier={state.loadEarlier}
                loadUntil={state.loadUntil}
                keepNewest={state.keepNewest}
                target={target}
                onSeen={onSeen}
                sentCount={sentCount}
                isBehind={rootId !== null}
              />
            </Boundary>
          )}
          <Boundary what="part of the page" version={messages} fallback={null}>
            <Announcer messages={messages} ownId={humanId} />
          </Boundary>
          <Boundary what="list of agents at work" version={activity}>
            <ActivityBar activity={activity} />
          </Boundary>
          <TypingLine names={typing} />
          {isHuman ? (
            <Boundary what="text field">
              <Composer key={spaceId} ref={composer} space={space} send={send} onEditLast={editLast} />
              <Suggestions spaceId={spaceId} send={send} onChoose={() => composer.current?.focusAtKeyboard()} />
            </Boundary>
          ) : (
            <p className="spectator">
              As the operator you can read everything, but not post. <Link href="/people">Act as a person</Link> to
              write here.
            </p>
          )}
        </div>
        {rootId !== null && (
          <Boundary what="thread" version={rootId}>
            <ThreadPanel
              key={rootId}
              space={space}
              rootId={rootId}
              target={targetReply}
              thread={state.thread}
              readThread={state.readThread}
              send={state.send}
              onClose={closeThread}
            />
          </Boundary>
        )}
      </div>
      {details !== null && (
        <Boundary what="page" version={details}>
          <Suspense>
            <SpaceDetails
              space={space}
              messages={messages}
              presence={presence}
              activity={activity}
              part={details.part}
              open={details.isOpen}
              onOpenChange={(isOpen) => setDetails({ ...details, isOpen })}
            />
          </Suspense>
        </Boundary>
      )}
    </MessageVerbsProvider>
  )
}

/** An empty conversation, with the next step of the viewer. */
function NoMessages({ space: { id, name, members }, onDetails }: { space: Space; onDetails(part: Part): void }) {
  const { isHuman } = useSession()
  const hasAgent = members.some(({ kind }) => kind === 'AGENT')
  return (
    <Empty icon="space" title={`No messages in ${name} yet`}>
      <p>
        {!hasAgent
          ? 'Add an agent that answers, or invite people.'
          : !isHuman
            ? 'Messages of its members appear here.'
            : hasSuggestions(id)
              ? 'Click a message at the bottom of the page, or write one. Below it, you see which agents woke, and why.'
              : 'Write a message to its people and agents.'}
      </p>
      {!hasAgent && (
        <p className="empty-verbs">
          <Button look="primary" icon="plus" onClick={() => onDetails('AGENTS')}>
            Add an agent
          </Button>
          <Button icon="people" onClick={() => onDetails('PEOPLE')}>
            Invite people
          </Button>
        </p>
      )}
    </Empty>
  )
}
