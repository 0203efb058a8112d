import { useState } from 'react'
import { useLocation } from 'wouter'
import { type Message, payloadOf } from '../../client/index.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Form, numberIn, SelectField, TextField, textIn } from '../ui/field.tsx'
import { Time } from '../ui/time.tsx'
import { textOf } from './message-verbs.tsx'
import { FORK_SPACE, UPDATE_SPACE } from './operations.ts'

interface CopySpaceProps {
  space: { id: string; name: string }
  /** The last message to copy. Without it, the form asks which messages to copy. */
  last?: Message
  onCopied(): void
}

const LONGEST_QUOTE = 80

/** Returns the quoted beginning of a message, or whose message it is. */
function nameOf(message: Message): string {
  const text = textOf(message).replace(/\s+/g, ' ').trim()
  if (text === '') return `the message of ${message.sender.name}`
  return `“${text.length > LONGEST_QUOTE ? `${text.slice(0, LONGEST_QUOTE)}…` : text}”`
}

/** Copies the space for the viewer alone, with copies of its agents, and opens the copy. */
export function CopySpace({ space, last, onCopied }: CopySpaceProps) {
  const { connection } = useSession()
  const [, go] = useLocation()
  const [isPart, setPart] = useState(false)
  const copy = useDo(async (values: FormData) => {
    const atSeq = last?.seq ?? (isPart ? numberIn(values, 'atSeq') : null)
    const input = { spaceId: space.id, name: textIn(values, 'name'), atSeq }
    const { id } = payloadOf((await connection.ask(FORK_SPACE, { input })).forkSpace, 'ForkSpacePayload').space
    const part = atSeq === null ? '' : ` up to ${last === undefined ? `message ${atSeq}` : nameOf(last)}`
    const day = new Date().toLocaleDateString('en', { day: 'numeric', month: 'long', year: 'numeric' })
    const description = `Copy of ${space.name}${part}, made on ${day}. Its agents are copies too.`
    // Without the description, the copy is still complete.
    await connection.ask(UPDATE_SPACE, { input: { id, description } }).catch(() => {})
    return id
  })
  const open = (id: string) => {
    onCopied()
    go(`/spaces/${id}`)
  }
  return (
    <Form
      label="Copy this space"
      submit="Copy this space"
      isBusy={copy.isBusy}
      error={copy.error}
      onSubmit={(values) => copy.start(values, open)}
    >
      <p className="hint">
        Try something out in a copy, whose members are you and copies of the agents. In the copy, tools with external
        effects require approval.
      </p>
      <TextField
        label="Name of the copy"
        name="name"
        placeholder={`${space.name} (copy)`}
        maxLength={200}
        autoFocus={last !== undefined}
      />
      {last === undefined ? (
        <SelectField
          label="Messages to copy"
          value={isPart ? 'PART' : 'ALL'}
          options={[
            ['ALL', 'all'],
            ['PART', 'up to message number …'],
          ]}
          onChange={({ target }) => setPart(target.value === 'PART')}
        />
      ) : (
        <p>
          The copy ends with {nameOf(last)} (<Time at={last.createdAt} />
          ).
        </p>
      )}
      {isPart && (
        <TextField
          label="Up to message number"
          name="atSeq"
          type="number"
          min={0}
          required
          hint="To choose a message, use “Copy the space up to here…” in its menu."
        />
      )}
    </Form>
  )
}
