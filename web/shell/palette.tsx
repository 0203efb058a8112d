import { type KeyboardEvent, type ReactNode, useId, useState } from 'react'
import { useLocation } from 'wouter'
import { useAsk } from '../ask.ts'
import { SEARCH } from '../search/operations.ts'
import { Snippet } from '../search/snippet.tsx'
import { usePaused } from '../search/use-paused.ts'
import { useSession } from '../session.tsx'
import { AGENT_CHOICES } from '../talk/operations.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Icon, type IconName } from '../ui/icons.tsx'
import { useTheme } from './theme.ts'

/** A page to go to, a message that was found, or a command. */
interface Goal {
  id: string
  icon: IconName
  words: string
  /** Shown instead of the words. */
  shown?: ReactNode
  to: string | (() => void)
}

interface PaletteProps {
  open: boolean
  onOpenChange(open: boolean): void
  onNewSpace(): void
}

const MOST_SPACES = 5
const MOST_AGENTS = 5
const MOST_MESSAGES = 5
/** Shorter texts are in almost every message. */
const LEAST_LETTERS = 2

/** The command palette (Ctrl K): finds spaces, agents, pages, commands and the words of messages. */
export function Palette({ open, onOpenChange, onNewSpace }: PaletteProps) {
  return (
    <Dialog title="Find or go to" open={open} onOpenChange={onOpenChange}>
      <Search onDone={() => onOpenChange(false)} onNewSpace={onNewSpace} />
    </Dialog>
  )
}

function Search({ onDone, onNewSpace }: { onDone(): void; onNewSpace(): void }) {
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
        // biome-ignore lint/a11y/noAutofocus: it is what the dialog was opened for
        autoFocus
        role="combobox"
        aria-label="Space, agent, page, command or words of a message"
        aria-expanded="true"
        aria-controls={listId}
        aria-activedescendant={current && `${listId}-${current.id}`}
        placeholder="Space, agent, page, command or words of a message"
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
    </div>
  )
}

const bringIntoView = (option: HTMLElement | null) => option?.scrollIntoView({ block: 'nearest' })

function useGoals(text: string, onNewSpace: () => void): Goal[] {
  const { viewer, isAdmin, isHuman } = useSession()
  const commands = useCommands(onNewSpace)
  const sought = text.trim().toLowerCase()
  const { data } = useAsk(AGENT_CHOICES, { search: sought === '' ? null : sought })
  const spaces = viewer.spaces.map(({ id, name }): Goal => ({ id, icon: 'space', words: name, to: `/spaces/${id}` }))
  const agents = (data?.agents.edges ?? []).map(
    ({ node }): Goal => ({ id: node.id, icon: 'agent', words: node.name, to: `/agents/${node.id}` }),
  )
  const pages = isAdmin ? (isHuman ? [WAITING, ...OPERATORS_PAGES] : OPERATORS_PAGES) : [WAITING, AGENTS]
  const isFound = ({ words }: Goal) => words.toLowerCase().includes(sought)
  // The number of spaces is limited, so that pages and commands stay in the list.
  const found = [...spaces.filter(isFound).slice(0, MOST_SPACES), ...pages.filter(isFound)]
  return [
    ...found,
    ...agents.slice(0, MOST_AGENTS),
    ...commands.filter(isFound),
    ...useMessages(text.trim()),
    ...(text.trim() === '' ? [SEARCH_PAGE] : [searchFor(text.trim())]),
  ]
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
    const { id, sender, space } = message
    return {
      id: `${id}-${file?.id ?? ''}`,
      icon: file === null ? 'space' : 'clip',
      words: snippet,
      shown: (
        <>
          <b>{file?.name ?? sender.name}</b> <Snippet text={snippet} matches={matches} />{' '}
          <span className="note">in {space.name}</span>
        </>
      ),
      to: `/spaces/${space.id}#${id}`,
    }
  })
}

const AGENTS: Goal = { id: 'agents', icon: 'agent', words: 'Agents', to: '/agents' }
const WAITING: Goal = { id: 'waiting', icon: 'bell', words: 'Waiting for you', to: '/waiting' }
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
