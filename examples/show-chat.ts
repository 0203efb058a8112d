/** A message as the example pages show it. */
export interface ShownMessage {
  id: string
  sender: string
  text: string
  isWriting: boolean
}

/** A chat that each example implements. It calls `onMessages` after each change. */
export interface Chat {
  send(text: string): Promise<void>
  close(): void
}

export interface ChatOptions {
  /** The API's address, `http://localhost:4000/graphql`. */
  url: string
  token: string
  spaceId: string
  onMessages(messages: ShownMessage[]): void
}

/** Prompts for the address, token and space, and shows the chat as a list and a text field. */
export function showChat(place: HTMLElement, openChat: (options: ChatOptions) => Chat): void {
  const list = document.createElement('ul')
  const form = document.createElement('form')
  const field = document.createElement('input')
  form.append(field)
  place.append(list, form)
  const asked = (what: string, otherwise = '') => prompt(what, otherwise) ?? otherwise
  const chat = openChat({
    url: asked('The API', 'http://localhost:4000/graphql'),
    token: asked('A human’s token'),
    spaceId: asked('A space’s id'),
    onMessages(messages) {
      const lines = messages.map(({ sender, text, isWriting }) => {
        const line = document.createElement('li')
        line.textContent = `${sender}: ${text}${isWriting ? '…' : ''}`
        return line
      })
      list.replaceChildren(...lines)
    },
  })
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    void chat.send(field.value).then(() => {
      field.value = ''
    })
  })
}
