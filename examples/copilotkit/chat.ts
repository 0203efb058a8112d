// Uses a space of Parley as an agent in CopilotKit's core. In production, register the same HttpAgent in CopilotKit's runtime,
// which keeps the token on the server: docs/ag-ui.md.
import { HttpAgent, type Message } from '@ag-ui/client'
import { CopilotKitCore } from '@copilotkit/core'
import type { Chat, ChatOptions, ShownMessage } from '../show-chat.ts'

export function openChat({ url, token, spaceId, onMessages }: ChatOptions): Chat {
  const agent = new HttpAgent({
    url: new URL(`/ag-ui/spaces/${spaceId}`, url).href,
    headers: { authorization: `Bearer ${token}` },
    threadId: spaceId,
  })
  const copilotkit = new CopilotKitCore({ agents__unsafe_dev_only: { parley: agent } })
  agent.agentId = 'parley'

  const show = () => onMessages(agent.messages.flatMap((message) => shownMessage(message, agent)))
  const { unsubscribe } = agent.subscribe({
    onMessagesChanged: show,
    onRunFinalized: show,
  })
  // An AG-UI run without a new message returns the newest messages of the space.
  void copilotkit.runAgent({ agent })

  return {
    async send(text) {
      agent.addMessage({ id: crypto.randomUUID(), role: 'user', content: text })
      await copilotkit.runAgent({ agent })
    },
    close() {
      unsubscribe()
      agent.abortRun()
    },
  }
}

function shownMessage(message: Message, { messages, isRunning }: HttpAgent): ShownMessage[] {
  const { id, role, content } = message
  if ((role !== 'user' && role !== 'assistant') || typeof content !== 'string' || content === '') return []
  const sender = 'name' in message && message.name !== undefined ? message.name : 'You'
  return [{ id, sender, text: content, isWriting: isRunning && role === 'assistant' && id === messages.at(-1)?.id }]
}
