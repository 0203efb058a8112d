import { createClient } from 'graphql-ws'
import WebSocket from 'ws'

export const SEND = 'mutation ($input: SendMessageInput!) { sendMessage(input: $input) { __typename } }'
/** The response to a sent message. */
export const SENT = { data: { sendMessage: { __typename: 'SendMessagePayload' } } }

/** A client with the defaults of graphql-ws that connects to the current `url`. */
export function createMutatingClient(url: () => string, authorization: string) {
  const client = createClient({ url, webSocketImpl: WebSocket, connectionParams: { authorization }, lazy: false })
  const connected = new Promise<void>((resolve) => client.on('connected', () => resolve()))
  const run = (query: string, variables: Record<string, unknown> = {}) =>
    new Promise<unknown>((resolve, reject) => {
      let answer: unknown
      client.subscribe(
        { query, variables },
        {
          next(value) {
            answer = value
          },
          error: reject,
          complete: () => resolve(answer),
        },
      )
    })
  return { run, connected, dispose: () => client.dispose(), on: client.on }
}
