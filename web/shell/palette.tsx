import { type KeyboardEvent, type ReactNode, useId, useState } from 'react'
import { useLocation } from 'wouter'
import { useAsk } from '../ask.ts'
import { SEARCH } from '../search/operations.ts'
import { Snippet } from '../search/snippet.tsx'
import { usePaused } from '../search/use-paused.ts'
import { useSession } from '../session.tsx'
import { findDirectSpace } from '../talk/direct-space.ts'
import { AGENT_CHOICES, PEOPLE_CHOICES } from '../talk/operations.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Icon, type IconName } from '../ui/icons.tsx'
import { Moment } from '../ui/time.tsx'
import { useTheme } from './theme.ts'

/** An entry of the palette: a page, a person or message that was found, or a command. */
interface Goal {
  id: string
  icon: IconName
  words: string
  /** An element to show instead of the words. */
  shown?: ReactNode
  to: string | (() => void)
}

interface PaletteProps {
  open: boolean
  onOpenChange(open: boolean): void
  /** Opens the form for a new space, with a person chosen if one is given. */
  onNewSpace(person: NamedPerson | null): void
}

type NamedPerson = { id: string; name: string }

const MOST_SPACES = 5
const MOST_PEOPLE = 5
const MOST_AGENTS = 5
const MOST_MESSAGES = 5
/** Almost every message contains a text shorter than this. */
const LEAST_LETTERS = 2

/** The command palette (Ctrl K): finds spaces, people, agents, pages, commands and the words of messages. */
export function Palette({ open, onOpenChange, onNewSpace }: PaletteProps) {
  return (
    <Dialog title="Find or go to" open={open} onOpenChange={onOpenChange}>
      <Search onDone={() => onOpenChange(false)} onNewSpace={onNewSpace} />
    </Dialog>
  )
}

function Search({ onDone, onNewSpace }: { onDone(): void; onNewSpace: PaletteProps['onNewSpace'] }) {
  const listId = useId()
  const [, go] = useLocation()
  const [text, setText] = useState('')
  const [active, setActive] = useState(0)
  const goals = useGoals(text, onNewSpace)
  const current = goals[Math.min(active, goals.length - 1)]
  const take = (goal: Goal | undefined) => {
    if (goal === undefined) return
    onDone()
    if (typeof goal.to === 'string') go(goal.to)
    else goal.to()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown') setActive((active + 1) % Math.max(1, goals.length))
    else if (event.key === 'ArrowUp') setActive((active + goals.length - 1) % Math.max(1, goals.length))
    else if (event.key === 'Enter') take(current)
    else return
    event.preventDefault()
  }
  return (
    <div className="palette">
      <input
        // biome-ignore lint/a11y/noAutofocus: people open the dialog to type
        autoFocus
        role="combobox"
        aria-label="Search spaces, people, agents, pages, commands and messages"
        aria-expanded="true"
        aria-controls={listId}
        aria-activedescendant={current && `${listId}-${current.id}`}
        placeholder="Search spaces, people, agents, pages, commands and messages"
        value={text}
        onChange={(event) => {
          setText(event.target.value)
          setActive(0)
        }}
        onKeyDown={onKeyDown}
      />
      <div className="palette-list" id={listId} role="listbox" aria-label="Results">
        {goals.map((goal) => (
          // biome-ignore lint/a11y/useFocusableInteractive lint/a11y/useKeyWithClickEvents: the text field keeps the focus and the keys
          <div
            key={goal.id}
            id={`${listId}-${goal.id}`}
            role="option"
            aria-selected={goal === current}
            ref={goal === current ? bringIntoView : null}
            onClick={() => take(goal)}
          >
            <Icon name={goal.icon} /> <span className="one-line">{goal.shown ?? goal.words}</span>
          </div>
        ))}
      </div>
      {goals.length === 0 && (
        <p className="hint" role="status">
          Nothing with this name.
        </p>
      )}
      <p className="palette-keys">
        ↑ ↓ choose, Enter opens. In a space, <kbd>/</kbd> goes to the message field.
      </p>
    </div>
  )
}

const bringIntoView = (option: HTMLElement | null) => option?.scrollIntoView({ block: 'nearest' })

function useGoals(text: string, onNewSpace: PaletteProps['onNewSpace']): Goal[] {
  const { viewer, isAdmin, isHuman } = useSession()
  const commands = useCommands(() => onNewSpace(null))
  const people = usePeople(text.trim(), onNewSpace)
  const sought = text.trim().toLowerCase()
  const { data } = useAsk(AGENT_CHOICES, { search: sought === '' ? null : sought })
  const spaces = viewer.spaces.map(({ id, name }): Goal => ({ id, icon: 'space', words: name, to: `/spaces/${id}` }))
  const agents = (data?.agents.edges ?? []).map(
    ({ node }): Goal => ({ id: node.id, icon: 'agent', words: node.name, to: `/agents/${node.id}` }),
  )
  const pages = [
    ...(isHuman || !isAdmin ? [WAITING] : []),
    ...(isHuman ? [NOTIFICATIONS] : []),
    ...(isAdmin ? OPERATORS_PAGES : [AGENTS]),
    PROFILE,
  ]
  const isFound = ({ words }: Goal) => words.toLowerCase().includes(sought)
  // The number of spaces is limited, so that pages and commands stay in the list.
  const found = [...spaces.filter(isFound).slice(0, MOST_SPACES), ...pages.filter(isFound)]
  return [
    ...found,
    ...people,
    ...agents.slice(0, MOST_AGENTS),
    ...commands.filter(isFound),
    ...useMessages(text.trim()),
    ...(text.trim() === '' ? [SEARCH_PAGE] : [searchFor(text.trim())]),
  ]
}

/**
 * Finds people by a part of their name. Choosing a person opens their conversation with the viewer; for the operator, their
 * page.
 */
function usePeople(text: string, onNewSpace: PaletteProps['onNewSpace']): Goal[] {
  const { connection, isHuman, humanId } = useSession()
  const [, go] = useLocation()
  const { data } = useAsk(PEOPLE_CHOICES, { search: text }, { enabled: text !== '' })
  const converse = async (person: NamedPerson) => {
    // If there is no answer, the form for a new space shows the reason.
    const space = await findDirectSpace(connection, humanId ?? '', person.id).catch(() => null)
    if (space === null) onNewSpace(person)
    else go(`/spaces/${space.id}`)
  }
  if (text === '') return []
  const found = (data?.humans.edges ?? []).map(({ node }) => node)
  return found
    .filter(({ id, erasedAt }) => id !== humanId && erasedAt === null)
    .slice(0, MOST_PEOPLE)
    .map(({ id, name }): Goal => {
      const shown = (
        <>
          {name} <span className="note">person</span>
        </>
      )
      const to = isHuman ? () => void converse({ id, name }) : `/people/${id}`
      return { id, icon: 'people', words: name, shown, to }
    })
}

const SEARCH_PAGE: Goal = { id: 'search', icon: 'search', words: 'Search messages and files', to: '/search' }

const searchFor = (text: string): Goal => ({
  id: 'search',
  icon: 'search',
  words: `Search messages and files for “${text}”`,
  to: `/search?q=${encodeURIComponent(text)}`,
})

/** The messages and files that match best. */
function useMessages(text: string): Goal[] {
  const query = usePaused(text)
  const enabled = query.length >= LEAST_LETTERS && text.length >= LEAST_LETTERS
  const { data } = useAsk(SEARCH, { query, order: 'BEST', first: MOST_MESSAGES }, { enabled })
  if (!enabled) return []
  return (data?.search.edges ?? []).map(({ node: { snippet, matches, file, message } }): Goal => {
    const { id, sender, space, createdAt } = message
    return {
      id: `${id}-${file?.id ?? ''}`,
      icon: file === null ? 'space' : 'clip',
      words: snippet,
      shown: (
        <>
          <b>{file?.name ?? sender.name}</b> <Snippet text={snippet} matches={matches} />{' '}
          <span className="note">
            in {space.name}, <Moment at={createdAt} />
          </span>
        </>
      ),
      to: `/spaces/${space.id}#${id}`,
    }
  })
}

const AGENTS: Goal = { id: 'agents', icon: 'agent', words: 'Agents', to: '/agents' }
const WAITING: Goal = { id: 'waiting', icon: 'check', words: 'Waiting for you', to: '/waiting' }
const NOTIFICATIONS: Goal = { id: 'notifications', icon: 'bell', words: 'Notification settings', to: '/notifications' }
const PROFILE: Goal = { id: 'profile', icon: 'people', words: 'Profile', to: '/profile' }
const OPERATORS_PAGES: readonly Goal[] = [
  AGENTS,
  { id: 'people', icon: 'people', words: 'People and access', to: '/people' },
  { id: 'runs', icon: 'branch', words: 'Runs', to: '/runs' },
  { id: 'models', icon: 'mind', words: 'Models', to: '/models' },
  { id: 'usage', icon: 'chart', words: 'Usage', to: '/usage' },
  { id: 'audit', icon: 'record', words: 'Audit log', to: '/audit' },
  { id: 'start', icon: 'plus', words: 'Get started', to: '/start' },
]

/** Commands that are available on every page. */
function useCommands(onNewSpace: () => void): Goal[] {
  const { isAdmin, isHuman, mayGoBack, goBack, signOut } = useSession()
  const { isDark, toggle } = useTheme()
  const commands: (Goal | false)[] = [
    (isAdmin || isHuman) && { id: 'new-space', icon: 'plus', words: 'New space…', to: onNewSpace },
    isAdmin && { id: 'new-agent', icon: 'plus', words: 'New agent…', to: '/agents?new' },
    isDark
      ? { id: 'light', icon: 'sun', words: 'Light colours', to: toggle }
      : { id: 'dark', icon: 'moon', words: 'Dark colours', to: toggle },
    mayGoBack && { id: 'operator', icon: 'people', words: 'Return to the operator', to: goBack },
    { id: 'out', icon: 'out', words: 'Sign out', to: signOut },
  ]
  return commands.filter((command) => command !== false)
}
