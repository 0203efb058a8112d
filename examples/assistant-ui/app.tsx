// Shows a space of Parley as a thread in assistant-ui, with assistant-ui's own runtime for AG-UI.
import { HttpAgent } from '@ag-ui/client'
import {
  AssistantRuntimeProvider,
  AuiIf,
  ComposerPrimitive,
  ExportedMessageRepository,
  MessagePrimitive,
  type ThreadHistoryAdapter,
  ThreadPrimitive,
} from '@assistant-ui/react'
import { fromAgUiMessages, useAgUiRuntime } from '@assistant-ui/react-ag-ui'
import { useMemo } from 'react'
import { createRoot } from 'react-dom/client'

interface Place {
  /** `http://localhost:4000/ag-ui/spaces/spc_…`, or `…/ag-ui/agents/agt_…`. */
  url: string
  token: string
}

const agentAt = ({ url, token }: Place) => new HttpAgent({ url, headers: { authorization: `Bearer ${token}` } })

/** Loads the history from the server: an AG-UI run without a new message returns the newest messages of the space. */
const historyOf = (place: Place): ThreadHistoryAdapter => ({
  async load() {
    const reader = agentAt(place)
    await reader.runAgent()
    return ExportedMessageRepository.fromArray(fromAgUiMessages(reader.messages as never))
  },
  async append() {},
})

function Chat(place: Place) {
  const { url, token } = place
  const { agent, history } = useMemo(
    () => ({ agent: agentAt({ url, token }), history: historyOf({ url, token }) }),
    [url, token],
  )
  const runtime = useAgUiRuntime({ agent, adapters: { history } })
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadPrimitive.Root>
        <ul>
          <ThreadPrimitive.Messages components={{ UserMessage: Line, AssistantMessage: Line }} />
        </ul>
        <ThreadPrimitive.If running>
          <p role="status">…</p>
        </ThreadPrimitive.If>
        {/* The history replaces the thread, and with it a message that was sent before it arrived. */}
        <AuiIf condition={({ thread }) => !thread.isLoading}>
          <ComposerPrimitive.Root>
            <ComposerPrimitive.Input placeholder="Message" />
            <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
          </ComposerPrimitive.Root>
        </AuiIf>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  )
}

const Line = () => (
  <MessagePrimitive.Root asChild>
    <li>
      <MessagePrimitive.Parts />
    </li>
  </MessagePrimitive.Root>
)

const asked = (what: string, otherwise = '') => prompt(what, otherwise) ?? otherwise
const api = asked('The API', 'http://localhost:4000/graphql')
const token = asked('A human’s token')
const url = new URL(`/ag-ui/spaces/${asked('A space’s id')}`, api).href
createRoot(document.getElementById('root') as HTMLElement).render(<Chat url={url} token={token} />)
