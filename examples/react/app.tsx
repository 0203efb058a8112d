// A chat in React with parley-client, in less than 100 lines: spaces, live text, tool calls, a stop button, a text field.

import { createConnection, type Message } from 'parley-client'
import { useSpace, useViewer } from 'parley-client/react'
import { type FormEvent, memo, StrictMode, useMemo, useState } from 'react'
import { createRoot } from 'react-dom/client'

type Connection = ReturnType<typeof createConnection>

function App() {
  const [given, setGiven] = useState<{ url: string; token: string } | null>(null)
  const connection = useMemo(() => given && createConnection(given), [given])
  if (connection) return <Chat connection={connection} />
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const values = new FormData(event.currentTarget)
    setGiven({ url: String(values.get('url')), token: String(values.get('token')) })
  }
  return (
    <form onSubmit={submit}>
      <input name="url" aria-label="Server" defaultValue="http://localhost:4000" />
      <input name="token" aria-label="Token" type="password" required />
      <button type="submit">Connect</button>
    </form>
  )
}

function Chat({ connection }: { connection: Connection }) {
  const { viewer, spaces, error } = useViewer(connection)
  const [chosen, setChosen] = useState<string | null>(null)
  const spaceId = chosen ?? spaces[0]?.id
  if (error) return <p role="alert">{error.message}</p>
  return (
    <>
      <p>You are {viewer?.human?.name ?? '…'}.</p>
      <nav>
        {spaces.map(({ id, name, unreadCount }) => (
          <button key={id} type="button" onClick={() => setChosen(id)}>
            {name} {unreadCount > 0 && `(${unreadCount})`}
          </button>
        ))}
      </nav>
      {spaceId && <Space key={spaceId} connection={connection} spaceId={spaceId} />}
    </>
  )
}

function Space({ connection, spaceId }: { connection: Connection; spaceId: string }) {
  const { space, messages, activity, hasEarlier, loadEarlier, send, status, error } = useSpace(connection, spaceId)
  const [text, setText] = useState('')
  if (status === 'ended') return <p role="alert">{error?.message}</p>
  const submit = (event: FormEvent) => {
    event.preventDefault()
    void send({ text }).then(() => setText(''))
  }
  return (
    <section>
      <h1>{space?.name}</h1>
      {hasEarlier && (
        <button type="button" onClick={() => void loadEarlier()}>
          Earlier messages
        </button>
      )}
      <ol>
        {messages.map((message) => (
          <Line key={message.id} message={message} />
        ))}
      </ol>
      {activity.map(({ agent, active }) => active && <p key={agent.id}>{agent.name} is at work</p>)}
      <form onSubmit={submit}>
        <input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} />
      </form>
    </section>
  )
}

const Line = memo(function Line({ message: { sender, parts, status, outcomes } }: { message: Message }) {
  return (
    <li>
      <b>{sender.name}</b> {parts.map((part) => wordsOf(part))}
      {status === 'STREAMING' && '…'}{' '}
      <small>{outcomes.map(({ agent, kind }) => `${agent.name}: ${kind}`).join(', ')}</small>
    </li>
  )
})

function wordsOf(part: Message['parts'][number]): string {
  if (part.__typename === 'TextPart') return part.text
  if (part.__typename === 'FilePart') return `[${part.file.name}]`
  return `[${part.toolCall.toolName}: ${part.toolCall.status}]`
}

createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <App />
  </StrictMode>,
)
