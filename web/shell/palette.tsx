import { type KeyboardEvent, useId, useState } from 'react'
import { useLocation } from 'wouter'
import { useAsk } from '../ask.ts'
import { useSession } from '../session.tsx'
import { AGENT_CHOICES } from '../talk/operations.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Icon, type IconName } from '../ui/icons.tsx'

interface Goal {
  id: string
  icon: IconName
  words: string
  href: string
}

const MOST = 12

/** Goes anywhere by a few letters: Ctrl K. */
export function Palette({ open, onOpenChange }: { open: boolean; onOpenChange(open: boolean): void }) {
  return (
    <Dialog title="Go to" open={open} onOpenChange={onOpenChange}>
      <Search onDone={() => onOpenChange(false)} />
    </Dialog>
  )
}

function Search({ onDone }: { onDone(): void }) {
  const listId = useId()
  const [, go] = useLocation()
  const [text, setText] = useState('')
  const [active, setActive] = useState(0)
  const goals = useGoals(text)
  const current = goals[Math.min(active, goals.length - 1)]
  const take = (goal: Goal | undefined) => {
    if (goal === undefined) return
    onDone()
    go(goal.href)
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
        aria-label="Space, agent or page"
        aria-expanded="true"
        aria-controls={listId}
        aria-activedescendant={current && `${listId}-${current.id}`}
        placeholder="Space, agent or page"
        value={text}
        onChange={(event) => {
          setText(event.target.value)
          setActive(0)
        }}
        onKeyDown={onKeyDown}
      />
      <div className="palette-list" id={listId} role="listbox" aria-label="Places">
        {goals.map((goal) => (
          // biome-ignore lint/a11y/useFocusableInteractive lint/a11y/useKeyWithClickEvents: the text field keeps the focus and the keys
          <div
            key={goal.id}
            id={`${listId}-${goal.id}`}
            role="option"
            aria-selected={goal === current}
            onClick={() => take(goal)}
          >
            <Icon name={goal.icon} /> {goal.words}
          </div>
        ))}
      </div>
    </div>
  )
}

function useGoals(text: string): Goal[] {
  const { viewer, isAdmin } = useSession()
  const sought = text.trim().toLowerCase()
  const { data } = useAsk(AGENT_CHOICES, { search: sought === '' ? null : sought })
  const spaces = viewer.spaces.map(({ id, name }): Goal => ({ id, icon: 'space', words: name, href: `/spaces/${id}` }))
  const agents = (data?.agents.edges ?? []).map(
    ({ node }): Goal => ({ id: node.id, icon: 'agent', words: node.name, href: `/agents/${node.id}` }),
  )
  const pages: Goal[] = [
    { id: 'waiting', icon: 'bell', words: 'Waiting for you', href: '/waiting' },
    { id: 'agents', icon: 'agent', words: 'Agents', href: '/agents' },
    ...(isAdmin
      ? ([
          { id: 'people', icon: 'people', words: 'People and access', href: '/people' },
          { id: 'runs', icon: 'branch', words: 'Runs', href: '/runs' },
          { id: 'usage', icon: 'chart', words: 'Usage', href: '/usage' },
          { id: 'audit', icon: 'record', words: 'Audit log', href: '/audit' },
          { id: 'start', icon: 'plus', words: 'Get started', href: '/start' },
        ] as const)
      : []),
  ]
  const found = [...spaces, ...pages].filter(({ words }) => words.toLowerCase().includes(sought))
  return [...found, ...agents].slice(0, MOST)
}
