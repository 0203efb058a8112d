import {
  type KeyboardEvent,
  memo,
  type Ref,
  useCallback,
  useEffect,
  useId,
  useImperativeHandle,
  useRef,
  useState,
} from 'react'
import { errorOf } from '../../client/errors.ts'
import { type LiveSpace, newIdempotencyKey, type Space } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Avatar } from '../ui/avatar.tsx'
import { Button, IconButton } from '../ui/button.tsx'
import { Refused } from '../ui/notice.tsx'
import { draftKey, keep, keptAt } from './kept.ts'
import { WAKES } from './operations.ts'
import { mayPass } from './outbox.ts'
import { useTypingSignal } from './presence.tsx'
import { UnsentList, useOutbox, useUnsent } from './unsent-list.tsx'
import { UploadList, useUploads } from './uploads.tsx'
import { isElsewhere } from './write-key.ts'

/** Functions for components outside of the composer. */
export interface ComposerHandle {
  /** Inserts a quoted text before the draft. */
  quote(text: string): void
  /** Uploads files for the message. */
  attach(files: Iterable<File>): void
  focus(): void
  /** Moves the focus to the field, except on a phone, whose keyboard would cover the conversation. */
  focusAtKeyboard(): void
}

interface ComposerProps {
  space: Space
  send: LiveSpace['send']
  /** The first message of the thread in which the new message is posted; absent outside of threads. */
  replyToId?: string
  ref?: Ref<ComposerHandle>
  /** Called when `↑` is pressed in the empty field. */
  onEditLast?: (() => void) | undefined
}

type Member = Space['members'][number]

const MOST_LETTERS = 32_000
const WAKES_EVERY_MS = 5000
const MOST_NAMED = 4

/** The field for a new message. This browser stores a draft for each space and thread. `@` mentions a member. */
export const Composer = memo(function Composer({ space, send, replyToId, ref, onEditLast }: ComposerProps) {
  const { id: spaceId } = space
  const { connection, humanId } = useSession()
  const key = draftKey(humanId ?? '', spaceId, replyToId)
  const field = useRef<HTMLTextAreaElement>(null)
  const [text, setText] = useState(() => keptAt(key) ?? '')
  const signalTyping = useTypingSignal(spaceId)
  const agents = space.members.filter(({ kind }) => kind === 'AGENT')
  const mention = useMention(field, text, setText, [
    ...agents,
    ...space.members.filter(({ id, kind }) => kind === 'HUMAN' && id !== humanId),
  ])
  const mentionedIds = mentionedIn(text, space).map(({ id }) => id)
  // Turns and states of agents can change while a person writes.
  const { data: woken } = useAsk(
    WAKES,
    { spaceId, mentionedIds, replyToId },
    { enabled: text !== '' && agents.length > 0, everyMs: WAKES_EVERY_MS },
  )
  // Reused for further attempts with the same text, so that a message whose response was lost is not posted twice.
  const attempt = useRef({ text: '', idempotencyKey: '' })

  const uploads = useUploads()
  const picker = useRef<HTMLInputElement>(null)
  const outbox = useOutbox()
  const unsent = useUnsent(spaceId)
  const sending = useDo(
    async ({ sent, fileIds }: { sent: string; fileIds: string[] }) => {
      const content = [sent, ...fileIds].join('\n')
      if (attempt.current.text !== content) attempt.current = { text: content, idempotencyKey: newIdempotencyKey() }
      const { idempotencyKey } = attempt.current
      const message = {
        text: sent,
        fileIds,
        mentionedIds: mentionedIn(sent, space).map(({ id }) => id),
        idempotencyKey,
        ...(replyToId === undefined ? {} : { replyToId }),
      }
      // Messages that were written earlier are sent first.
      const isWaiting = connection.getState() === 'lost' || unsent.some(({ refusal }) => refusal === null)
      if (isWaiting && outbox !== null) return outbox.add({ spaceId, ...message })
      try {
        await send(message)
      } catch (failure) {
        if (outbox === null || !mayPass(errorOf(failure))) throw failure
        outbox.add({ spaceId, ...message })
      }
    },
    { awaitsQueries: false },
  )

  useEffect(() => keep(key, text === '' ? null : text), [key, text])

  const focusAtKeyboard = useCallback(() => {
    if (matchMedia('(pointer: fine)').matches) field.current?.focus()
  }, [])
  useEffect(() => {
    if (replyToId !== undefined || window.location.hash !== '') return
    if (!isElsewhere(document.activeElement)) focusAtKeyboard()
  }, [replyToId, focusAtKeyboard])

  useImperativeHandle(ref, () => ({
    quote(quoted) {
      const lines = quoted.split('\n').map((line) => `> ${line}`)
      setText((now) => `${lines.join('\n')}\n\n${now}`.slice(0, MOST_LETTERS))
      // Runs after the menu has closed, because closing moves the focus.
      requestAnimationFrame(() => {
        const { current } = field
        current?.focus()
        current?.setSelectionRange(current.value.length, current.value.length)
      })
    },
    attach: uploads.add,
    focus: () => field.current?.focus(),
    focusAtKeyboard,
  }))

  const isEmpty = text.trim() === '' && uploads.ids.length === 0

  const submit = () => {
    const sent = text
    if (isEmpty || uploads.isBusy || sending.isBusy) return
    const fileIds = uploads.ids
    sending.start({ sent, fileIds }, () => {
      uploads.forget(fileIds)
      attempt.current = { text: '', idempotencyKey: '' }
      setText((now) => (now === sent ? '' : now))
      field.current?.focus()
    })
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (mention.onKeyDown(event)) return
    if (event.key === 'ArrowUp' && text === '' && onEditLast !== undefined) {
      event.preventDefault()
      onEditLast()
      return
    }
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
    event.preventDefault()
    submit()
  }

  return (
    <form
      className="composer"
      aria-label={replyToId === undefined ? 'Write' : 'Write a reply'}
      onSubmit={(event) => {
        event.preventDefault()
        submit()
      }}
    >
      <Refused error={sending.error} onRetry={submit} />
      {mention.list}
      <UnsentList spaceId={spaceId} replyToId={replyToId} />
      <div className="composer-box">
        <UploadList uploads={uploads} />
        <textarea
          ref={field}
          aria-label={replyToId === undefined ? 'Message' : 'Reply'}
          rows={1}
          dir="auto"
          maxLength={MOST_LETTERS}
          placeholder={replyToId === undefined ? `Message ${space.name}` : 'Reply'}
          value={text}
          onChange={(event) => {
            setText(event.target.value)
            if (event.target.value !== '') signalTyping()
            sending.reset()
          }}
          onKeyDown={onKeyDown}
          onPaste={({ clipboardData: { files } }) => uploads.add(files)}
          {...mention.fieldProps}
        />
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label="Files"
          onChange={({ target }) => {
            uploads.add(target.files ?? [])
            target.value = ''
          }}
        />
        <IconButton label="Attach files" icon="clip" onClick={() => picker.current?.click()} />
        <IconButton label="Mention somebody" icon="at" onClick={mention.begin} />
        <Button
          look="primary"
          icon="send"
          type="submit"
          className="send"
          isBusy={sending.isBusy}
          disabled={isEmpty || uploads.isBusy}
        >
          <span>Send</span>
        </Button>
      </div>
      <p className="composer-hint">
        {woken === undefined || text === '' ? wordsOfRouting(space, agents) : wordsOfWakes(woken.wakes)}{' '}
        <span className="keys">
          Enter sends, Shift+Enter starts a new line{onEditLast !== undefined && ', ↑ edits your last message'}.
        </span>
      </p>
    </form>
  )
})

function wordsOfWakes(agents: readonly { name: string }[]): string {
  if (agents.length === 0) return 'Wakes no agent.'
  if (agents.length > MOST_NAMED) return `Goes to ${agents.length} agents.`
  return `Goes to ${new Intl.ListFormat('en').format(agents.map(({ name }) => name))}.`
}

function wordsOfRouting({ routing, adminAgent }: Space, agents: Member[]): string {
  if (agents.length === 0) return 'There is no agent in this space.'
  if (routing === 'ADMIN') return adminAgent === null ? 'Goes to the admin agent.' : `Goes to ${adminAgent.name}.`
  if (routing === 'MENTION_CHAIN') return 'Goes to the next agent in turn. Use @ to choose one.'
  if (agents.length === 2) return `Goes to ${agents[0]?.name} and ${agents[1]?.name}.`
  return agents.length === 1 ? `Goes to ${agents[0]?.name}.` : `Goes to all ${agents.length} agents.`
}

const MOST_MENTIONS = 20

/**
 * Returns the members whose names follow an `@` outside of quotations. Under MENTION_CHAIN routing, returns only the first of
 * the agents.
 */
function mentionedIn(text: string, { members, routing }: Space): Member[] {
  // If two members share a name, it mentions the first of them.
  const byName = new Map(members.toReversed().map((member) => [member.name.toLowerCase(), member]))
  const names = [...byName.keys()].toSorted((one, other) => other.length - one.length).map(escapeRegExp)
  const own = text.replace(/^>.*$/gm, '')
  const found = own.toLowerCase().matchAll(new RegExp(`(?<!\\S)@(${names.join('|')})(?!\\w)`, 'gu'))
  const mentioned = [...new Set([...found].flatMap(([, name = '']) => byName.get(name) ?? []))]
  const [first] = mentioned.filter(({ kind }) => kind === 'AGENT')
  return mentioned
    .filter((member) => routing !== 'MENTION_CHAIN' || member.kind === 'HUMAN' || member === first)
    .slice(0, MOST_MENTIONS)
}

const escapeRegExp = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')

/** The list of members while a name is typed after `@`. The arrow keys navigate, and Enter or Tab chooses. */
function useMention(
  field: React.RefObject<HTMLTextAreaElement | null>,
  text: string,
  setText: (text: string) => void,
  members: readonly Member[],
) {
  const listId = useId()
  const [caret, setCaret] = useState(0)
  const [active, setActive] = useState(0)
  // A mention whose list was closed: the position of its name, and the start of the text at that time.
  const [closed, setClosed] = useState<{ from: number; before: string } | null>(null)
  // If the start has changed, the text was sent, deleted or replaced, so a new mention can begin at the same position.
  if (closed !== null && !text.startsWith(closed.before)) setClosed(null)
  const begun = /(^|\s)@([^\s@]*)$/.exec(text.slice(0, caret))
  const from = begun === null ? -1 : caret - (begun[2]?.length ?? 0)
  const offered =
    begun === null || closed?.from === from
      ? []
      : members.filter(({ name }) => name.toLowerCase().includes((begun[2] ?? '').toLowerCase())).slice(0, 8)
  const current = offered[Math.min(active, offered.length - 1)]

  const look = () => setCaret(field.current?.selectionStart ?? 0)
  const take = ({ name }: Member) => {
    const before = text.slice(0, from) + name
    setText(`${before} ${text.slice(caret)}`)
    setClosed({ from, before })
    requestAnimationFrame(() => {
      const at = from + name.length + 1
      field.current?.focus()
      field.current?.setSelectionRange(at, at)
      setCaret(at)
    })
  }
  const onKeyDown = (event: KeyboardEvent): boolean => {
    if (current === undefined) return false
    if (event.key === 'ArrowDown') setActive((active + 1) % offered.length)
    else if (event.key === 'ArrowUp') setActive((active + offered.length - 1) % offered.length)
    else if (event.key === 'Escape') setClosed({ from, before: text.slice(0, from) })
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
    setClosed(null)
    requestAnimationFrame(() => {
      field.current?.focus()
      field.current?.setSelectionRange(at + mark.length, at + mark.length)
      look()
    })
  }

  const list = offered.length > 0 && (
    <div className="mention-list" id={listId} role="listbox" aria-label="Members to mention">
      {offered.map((member) => (
        // biome-ignore lint/a11y/useFocusableInteractive lint/a11y/useKeyWithClickEvents: the text field keeps the focus and the keys
        <div
          key={member.id}
          id={`${listId}-${member.id}`}
          role="option"
          aria-selected={member === current}
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => take(member)}
        >
          <Avatar entity={member} size={24} /> {member.name}
          {member.kind === 'AGENT' && <span className="kind">agent</span>}
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
