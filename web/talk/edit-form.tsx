import { type KeyboardEvent, useEffect, useRef, useState } from 'react'
import { type Message, payloadOf } from '../../client/index.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { CheckField } from '../ui/field.tsx'
import { Refused } from '../ui/notice.tsx'
import { textOf } from './message-verbs.tsx'
import { EDIT_MESSAGE } from './operations.ts'

const MOST_LETTERS = 32_000

/** Shows a form in place of a message's text, to change it. */
export function EditForm({ message, onClose }: { message: Message; onClose(): void }) {
  const { connection } = useSession()
  const field = useRef<HTMLTextAreaElement>(null)
  const before = textOf(message)
  const [text, setText] = useState(before)
  const [isRetried, setRetried] = useState(false)
  const hasWoken = message.outcomes.some(({ kind, run }) => run !== null || kind === 'INBOX')
  const save = useDo(async (_: null) => {
    const input = { messageId: message.id, text, retryRuns: isRetried }
    payloadOf((await connection.ask(EDIT_MESSAGE, { input })).editMessage, 'EditMessagePayload')
  })
  useEffect(() => {
    // Waits, because the menu that opened the form first returns the focus.
    const frame = requestAnimationFrame(() => {
      const { current } = field
      current?.focus()
      current?.setSelectionRange(current.value.length, current.value.length)
    })
    return () => cancelAnimationFrame(frame)
  }, [])
  const submit = () => {
    if (text === before) onClose()
    else if (!save.isBusy) save.start(null, onClose)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return
    if (event.key === 'Escape') onClose()
    else if (event.key === 'Enter' && !event.shiftKey) submit()
    else return
    event.preventDefault()
  }
  return (
    <form
      className="edit-form"
      aria-label="Edit the message"
      onSubmit={(event) => {
        event.preventDefault()
        submit()
      }}
    >
      <div className="composer-box">
        <textarea
          ref={field}
          aria-label="Text of the message"
          rows={1}
          dir="auto"
          maxLength={MOST_LETTERS}
          value={text}
          onChange={({ target }) => setText(target.value)}
          onKeyDown={onKeyDown}
        />
      </div>
      {hasWoken && (
        <CheckField
          label="Let the agents answer again"
          checked={isRetried}
          onChange={({ target }) => setRetried(target.checked)}
        />
      )}
      <Refused error={save.error} />
      <div className="edit-end">
        <span className="composer-hint">
          <span className="keys">Enter saves, Escape cancels.</span>
        </span>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" type="submit" isBusy={save.isBusy}>
          Save
        </Button>
      </div>
    </form>
  )
}
