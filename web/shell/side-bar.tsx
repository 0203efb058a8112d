import { useRef } from 'react'
import { Virtualizer } from 'virtua'
import { Link, useLocation } from 'wouter'
import type { ListedSpace } from '../../client/index.ts'
import { wordsOfName } from '../decide/property-titles.ts'
import { useGrantsToDecideCount } from '../decide/use-grants.ts'
import { useSession } from '../session.tsx'
import { Avatar } from '../ui/avatar.tsx'
import { Button, IconButton } from '../ui/button.tsx'
import { Icon, type IconName } from '../ui/icons.tsx'
import { Loading, Refused } from '../ui/notice.tsx'
import { Moment } from '../ui/time.tsx'
import { useTheme } from './theme.ts'

const MOST_SHOWN = 99

interface SideBarProps {
  onSearch(): void
  onNewSpace(): void
  /** Called when a link in the sidebar is clicked. */
  onGo(): void
}

/** Navigation: waiting calls, spaces by last activity, and the operator's pages. */
export function SideBar({ onSearch, onNewSpace, onGo }: SideBarProps) {
  const { viewer, isAdmin, isHuman } = useSession()
  const waiting = viewer.pendingToolCalls.length + useGrantsToDecideCount()
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: a link that is activated by a key also gets a click
    <nav
      className="side-bar"
      aria-label="Navigation"
      onClick={({ target }) => target instanceof Element && target.closest('a') !== null && onGo()}
    >
      <div className="brand">
        <span className="brand-mark" aria-hidden="true" />
        <strong>Parley</strong>
        <ThemeButton />
      </div>
      <Button look="quiet" icon="search" className="search-button" onClick={onSearch}>
        Find or go to… <kbd>Ctrl K</kbd>
      </Button>
      {(isHuman || !isAdmin) && (
        <Place href="/waiting" icon="check" count={waiting} countLabel="waiting">
          Waiting for you
        </Place>
      )}
      {isHuman && (
        <Place href="/notifications" icon="bell">
          Notification settings
        </Place>
      )}
      {isAdmin && (
        <>
          <Place href="/agents" icon="agent">
            Agents
          </Place>
          <Place href="/people" icon="people">
            People and access
          </Place>
          <Place href="/models" icon="mind">
            Models
          </Place>
          <Place href="/runs" icon="branch">
            Runs
          </Place>
          <Place href="/usage" icon="chart">
            Usage
          </Place>
          <Place href="/audit" icon="record">
            Audit log
          </Place>
          <Place href="/start" icon="plus">
            Get started
          </Place>
        </>
      )}
      <div className="side-title">
        <h2>Spaces</h2>
        {(isHuman || isAdmin) && <IconButton label="New space" icon="plus" onClick={onNewSpace} />}
      </div>
      <SpaceList />
      <Identity />
    </nav>
  )
}

interface PlaceProps {
  href: string
  icon: IconName
  count?: number
  countLabel?: string
  children: string
}

function Place({ href, icon, count = 0, countLabel = '', children }: PlaceProps) {
  const [at] = useLocation()
  const isHere = at === href || at.startsWith(`${href}/`)
  return (
    <Link href={href} className="place" aria-current={isHere ? 'page' : undefined}>
      <Icon name={icon} />
      <span className="grow">{children}</span>
      {count > 0 && (
        <span className="badge" role="img" aria-label={`${count} ${countLabel}`}>
          {count > MOST_SHOWN ? `${MOST_SHOWN}+` : count}
        </span>
      )}
    </Link>
  )
}

function SpaceList() {
  const { spaces, hasAllSpaces, error } = useSession().viewer
  const scroller = useRef<HTMLDivElement>(null)
  return (
    <section className="space-list" ref={scroller} aria-label="Spaces">
      <Refused error={error} onRetry={() => location.reload()} />
      {spaces.length === 0 &&
        error === null &&
        (hasAllSpaces ? <p className="hint">No spaces yet.</p> : <Loading what="your spaces" />)}
      <Virtualizer scrollRef={scroller}>
        {spaces.map((space) => (
          <SpaceLine key={space.id} space={space} />
        ))}
      </Virtualizer>
    </section>
  )
}

function SpaceLine({
  space: { id, name, confidential, unreadCount, unreadMentions, lastMessage },
}: {
  space: ListedSpace
}) {
  const [at] = useLocation()
  const isHere = at === `/spaces/${id}`
  const { pendingToolCalls } = useSession().viewer
  const asking = pendingToolCalls.find(({ message }) => message !== null && message.id === lastMessage?.id)
  return (
    <Link
      href={`/spaces/${id}`}
      className={`space-line ${unreadCount > 0 ? 'unread' : ''}`}
      aria-current={isHere ? 'page' : undefined}
    >
      <span className="space-name">
        <span className="grow" dir="auto">
          {name}
        </span>
        {confidential && (
          <span className="confided" title="Confidential">
            <Icon name="lock" size={13} />
            <span className="sr-only">Confidential</span>
          </span>
        )}
        {lastMessage !== null && <Moment at={lastMessage.createdAt} />}
      </span>
      <span className="space-last">
        <span className="grow" dir="auto">
          {lastMessage === null
            ? 'No messages yet'
            : asking === undefined
              ? lineOf(lastMessage)
              : `${asking.agent.name} ${asking.waitsFor === 'DECISION' ? 'asks for approval' : 'asks'}: ${wordsOfName(asking.toolName)}`}
        </span>
        {unreadCount > 0 && (
          <span
            className="badge"
            role="img"
            aria-label={`${unreadCount} unread${unreadMentions > 0 ? `, ${unreadMentions} mention you` : ''}`}
          >
            {unreadMentions > 0 && '@ '}
            {unreadCount > MOST_SHOWN ? `${MOST_SHOWN}+` : unreadCount}
          </span>
        )}
      </span>
    </Link>
  )
}

function lineOf({ sender, text, deletedAt }: NonNullable<ListedSpace['lastMessage']>): string {
  if (deletedAt !== null) return `${sender.name} deleted a message`
  if (text !== '') return `${sender.name}: ${text.slice(0, 80)}`
  return sender.kind === 'HUMAN' ? `${sender.name} sent a file` : `${sender.name} called a tool or sent a file`
}

function Identity() {
  const { viewer, mayGoBack, actingUntil, goBack, signOut } = useSession()
  const { scope, human, serviceName } = viewer.viewer ?? {}
  const name = human?.name ?? serviceName ?? 'operator'
  return (
    <div className="identity">
      <Avatar entity={{ id: human?.id ?? 'operator', name, kind: 'HUMAN' }} size={30} />
      <span className="grow one-line">
        <span className="sr-only">You are </span>
        <Link href="/profile" dir="auto" title="Profile and sessions">
          {scope === 'ADMIN' ? 'the operator' : name}
        </Link>
      </span>
      {mayGoBack && actingUntil === null && (
        <Button look="quiet" onClick={goBack}>
          Operator
        </Button>
      )}
      <IconButton label="Sign out" icon="out" onClick={signOut} />
    </div>
  )
}

function ThemeButton() {
  const { isDark, toggle } = useTheme()
  return (
    <IconButton label={isDark ? 'Light colours' : 'Dark colours'} icon={isDark ? 'sun' : 'moon'} onClick={toggle} />
  )
}
