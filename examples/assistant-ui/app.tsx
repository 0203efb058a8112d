// A chat by assistant-ui, which talks to an agent or space of Parley from the browser.
import { HttpAgent } from '@ag-ui/client'
import {
  AssistantRuntimeProvider,
  ComposerPrimitive,
  MessagePrimitive,
  type TextMessagePartComponent,
  ThreadPrimitive,
} from '@assistant-ui/react'
import { useAgUiRuntime } from '@assistant-ui/react-ag-ui'
import { type FormEvent, StrictMode, useMemo, useState } from 'react'
import { createRoot } from 'react-dom/client'

function Chat({ url, token }: { url: string; token: string }) {
  const agent = useMemo(() => new HttpAgent({ url, headers: { authorization: `Bearer ${token}` } }), [url, token])
  const runtime = useAgUiRuntime({ agent })
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadPrimitive.Root>
        <ThreadPrimitive.Messages components={{ Message }} />
        <ComposerPrimitive.Root>
          <ComposerPrimitive.Input aria-label="Message" />
        </ComposerPrimitive.Root>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  )
}

const Message = () => (
  <MessagePrimitive.Root role="listitem">
    <MessagePrimitive.Parts components={{ Text }} />
  </MessagePrimitive.Root>
)

const Text: TextMessagePartComponent = ({ text, status }) => (
  <p>
    {text}
    {status.type === 'running' && '…'}
  </p>
)

function App() {
  const [given, setGiven] = useState<{ url: string; token: string } | null>(null)
  if (given !== null) return <Chat {...given} />
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const values = new FormData(event.currentTarget)
    setGiven({ url: String(values.get('url')), token: String(values.get('token')) })
  }
  return (
    <form onSubmit={submit}>
      <input name="url" aria-label="Agent" placeholder="http://localhost:4000/ag-ui/agents/agt_…" required />
      <input name="token" aria-label="Token" type="password" required />
      <button type="submit">Connect</button>
    </form>
  )
}

createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <App />
  </StrictMode>,
)
