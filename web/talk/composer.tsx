import { type KeyboardEvent, memo, useEffect, useId, useRef, useState } from 'react'
import { type LiveSpace, newIdempotencyKey, type Space } from '../../client/index.ts'
import { useDo } from '../ask.ts'
import { Avatar } from '../ui/avatar.tsx'
import { Button, IconButton } from '../ui/button.tsx'
import { Refused } from '../ui/notice.tsx'

interface ComposerProps {
  space: Space
  send: LiveSpace['send']
}

type Agent = Space['members'][number]

const MOST_LETTERS = 32_000
const draftKey = (spaceId: string) => `parley.draft.${spaceId}`

/** The field for a new message. Drafts are kept per space; `@` mentions an agent. */
export const Composer = memo(function Composer({ space, send }: ComposerProps) {
  const { id: spaceId } = space
  const field = useRef<HTMLTextAreaElement>(null)
  const [text, setText] = useState(() => sessionStorage.getItem(draftKey(spaceId)) ?? '')
  const agents = space.members.filter(({ kind }) => kind === 'AGENT')
  const mention = useMention(field, text, setText, agents)
  const named = mentionedIn(text, agents)
  // Kept for repeated attempts with the same text, so that a message whose response was lost is not posted
  // twice.
  const attempt = useRef({ text: '', idempotencyKey: '' })

  const sending = useDo((sent: string) => {
    if (attempt.current.text !== sent) attempt.current = { text: sent, idempotencyKey: newIdempotencyKey() }
    const { idempotencyKey } = attempt.current
    return send({ text: sent, mentionedAgentId: mentionedIn(sent, agents)?.id ?? null, idempotencyKey })
  })

  useEffect(() => {
    if (text === '') sessionStorage.removeItem(draftKey(spaceId))
    else sessionStorage.setItem(draftKey(spaceId), text)
  }, [spaceId, text])

  const submit = () => {
    const sent = text
    if (sent.trim() === '' || sending.isBusy) return
    sending.start(sent, () => {
      attempt.current = { text: '', idempotencyKey: '' }
      setText((now) => (now === sent ? '' : now))
      field.current?.focus()
    })
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (mention.onKeyDown(event)) return
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
    event.preventDefault()
    submit()
  }

  return (
    <form
      className="composer"
      aria-label="Write"
      onSubmit={(event) => {
        event.preventDefault()
        submit()
      }}
    >
      <Refused error={sending.error} onRetry={submit} />
      {mention.list}
      <div className="composer-box">
        <textarea
          ref={field}
          aria-label="Message"
          rows={1}
          dir="auto"
          maxLength={MOST_LETTERS}
          placeholder={`Message ${space.name}`}
          value={text}
          onChange={(event) => {
            setText(event.target.value)
            sending.reset()
          }}
          onKeyDown={onKeyDown}
          {...mention.fieldProps}
        />
        <IconButton label="Mention an agent" icon="agent" onClick={mention.begin} disabled={agents.length === 0} />
        <Button look="primary" icon="send" type="submit" isBusy={sending.isBusy} disabled={text.trim() === ''}>
          Send
        </Button>
      </div>
      <p className="composer-hint">
        {named === null ? wordsOfRouting(space, agents) : `Goes to ${named.name}.`}{' '}
        <span className="keys">Enter sends, Shift+Enter starts a new line.</span>
      </p>
    </form>
  )
})

function wordsOfRouting({ routing, adminAgent }: Space, agents: Agent[]): string {
  if (agents.length === 0) return 'There is no agent in this space.'
  if (routing === 'ADMIN')
    return adminAgent === null ? 'Goes to the admin agent.' : `Goes to ${adminAgent.name}. Use @ for another agent.`
  if (routing === 'MENTION_CHAIN') return 'Goes to the next agent in turn. Use @ to choose one.'
  if (agents.length === 2) return `Goes to ${agents[0]?.name} and ${agents[1]?.name}.`
  return agents.length === 1 ? `Goes to ${agents[0]?.name}.` : `Goes to all ${agents.length} agents.`
}

/** Returns the agent of the first `@` that is followed by a name. */
function mentionedIn(text: string, agents: Agent[]): Agent | null {
  const byLength = agents.toSorted((one, other) => other.name.length - one.name.length)
  const found = byLength
    .map((agent) => ({
      agent,
      at: text.toLowerCase().search(new RegExp(`(^|\\s)@${escapeRegExp(agent.name.toLowerCase())}(?![\\w])`, 'u')),
    }))
    .filter(({ at }) => at >= 0)
  return found.toSorted((one, other) => one.at - other.at)[0]?.agent ?? null
}

const escapeRegExp = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')

/** The list of agents while a name is typed after `@`: navigated with the arrow keys, chosen with Enter or Tab. */
function useMention(
  field: React.RefObject<HTMLTextAreaElement | null>,
  text: string,
  setText: (text: string) => void,
  agents: Agent[],
) {
  const listId = useId()
  const [caret, setCaret] = useState(0)
  const [active, setActive] = useState(0)
  const [closedAt, setClosedAt] = useState(-1)
  const begun = /(^|\s)@([^\s@]*)$/.exec(text.slice(0, caret))
  const from = begun === null ? -1 : caret - (begun[2]?.length ?? 0)
  const offered =
    begun === null || closedAt === from
      ? []
      : agents.filter(({ name }) => name.toLowerCase().includes((begun[2] ?? '').toLowerCase())).slice(0, 8)
  const current = offered[Math.min(active, offered.length - 1)]

  const look = () => setCaret(field.current?.selectionStart ?? 0)
  const take = (agent: Agent) => {
    const next = `${text.slice(0, from)}${agent.name} ${text.slice(caret)}`
    setText(next)
    setClosedAt(from)
    requestAnimationFrame(() => {
      const at = from + agent.name.length + 1
      field.current?.focus()
      field.current?.setSelectionRange(at, at)
      setCaret(at)
    })
  }
  const onKeyDown = (event: KeyboardEvent): boolean => {
    if (current === undefined) return false
    if (event.key === 'ArrowDown') setActive((active + 1) % offered.length)
    else if (event.key === 'ArrowUp') setActive((active + offered.length - 1) % offered.length)
    else if (event.key === 'Escape') setClosedAt(from)
    else if (event.key === 'Enter' || event.key === 'Tab') take(current)
    else return false
    event.preventDefault()
    return true
  }
  const begin = () => {
    const at = field.current?.selectionStart ?? text.length
    const before = text.slice(0, at)
    const mark = before === '' || /\s$/.test(before) ? '@' : ' @'
    setText(`${before}${mark}${text.slice(at)}`)
    setClosedAt(-1)
    requestAnimationFrame(() => {
      field.current?.focus()
      field.current?.setSelectionRange(at + mark.length, at + mark.length)
      look()
    })
  }

  const list = offered.length > 0 && (
    <div className="mention-list" id={listId} role="listbox" aria-label="Agents to mention">
      {offered.map((agent) => (
        // biome-ignore lint/a11y/useFocusableInteractive lint/a11y/useKeyWithClickEvents: the text field keeps the focus and the keys
        <div
          key={agent.id}
          id={`${listId}-${agent.id}`}
          role="option"
          aria-selected={agent === current}
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => take(agent)}
        >
          <Avatar entity={agent} size={24} /> {agent.name}
        </div>
      ))}
    </div>
  )
  const fieldProps = {
    onSelect: look,
    onKeyUp: look,
    ...(current === undefined
      ? {}
      : {
          'aria-controls': listId,
          'aria-activedescendant': `${listId}-${current.id}`,
          'aria-autocomplete': 'list' as const,
        }),
  }
  return { list, onKeyDown, begin, fieldProps }
}
