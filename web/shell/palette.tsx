import { type KeyboardEvent, useId, useState } from 'react'
import { useLocation } from 'wouter'
import { useAsk } from '../ask.ts'
import { useSession } from '../session.tsx'
import { AGENT_CHOICES } from '../talk/operations.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Icon, type IconName } from '../ui/icons.tsx'
import { useTheme } from './theme.ts'

/** A page to go to, or a command. */
interface Goal {
  id: string
  icon: IconName
  words: string
  to: string | (() => void)
}

interface PaletteProps {
  open: boolean
  onOpenChange(open: boolean): void
  onNewSpace(): void
}

const MOST_SPACES = 5
const MOST_AGENTS = 5

/** The command palette (Ctrl K): finds spaces, agents, pages and commands. */
export function Palette({ open, onOpenChange, onNewSpace }: PaletteProps) {
  return (
    <Dialog title="Go to" open={open} onOpenChange={onOpenChange}>
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
        aria-label="Space, agent, page or command"
        aria-expanded="true"
        aria-controls={listId}
        aria-activedescendant={current && `${listId}-${current.id}`}
        placeholder="Space, agent, page or command"
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
            <Icon name={goal.icon} /> <span className="one-line">{goal.words}</span>
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
  return [...found, ...agents.slice(0, MOST_AGENTS), ...commands.filter(isFound)]
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
