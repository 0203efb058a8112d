import { createClient } from 'graphql-ws'
import {
  commitMutation,
  createOperationDescriptor,
  Environment,
  fetchQuery,
  type GraphQLResponse,
  Network,
  Observable,
  RecordSource,
  type RecordSourceSelectorProxy,
  requestSubscription,
  type Snapshot,
  Store,
} from 'relay-runtime'
import type { Chat, ChatOptions } from '../show-chat.ts'
import SEND, { type spaceMutation } from './__generated__/spaceMutation.graphql.ts'
import MESSAGES, { type spaceQuery } from './__generated__/spaceQuery.graphql.ts'
import LIVE, { type spaceSubscription } from './__generated__/spaceSubscription.graphql.ts'

/**
 * A chat with Relay. The store appends posted messages to the connection, and updates the part of a streaming text
 * by the part's id.
 */
export function openChat({ url, token, spaceId, onMessages }: ChatOptions): Chat {
  const authorization = `Bearer ${token}`
  const socket = createClient({
    url: url.replace(/^http/, 'ws'),
    connectionParams: { authorization },
    retryAttempts: Number.POSITIVE_INFINITY,
  })
  const headers = { authorization, 'content-type': 'application/json' }
  const environment = new Environment({
    store: new Store(new RecordSource()),
    network: Network.create(
      async ({ text: query }, variables) =>
        (await fetch(url, { method: 'POST', headers, body: JSON.stringify({ query, variables }) })).json(),
      ({ text }, variables) =>
        Observable.create<GraphQLResponse>((sink) => socket.subscribe({ query: text ?? '', variables }, sink as never)),
    ),
  })
  const operation = createOperationDescriptor(MESSAGES, { spaceId })
  const kept = environment.retain(operation)
  let live: { dispose(): void } | undefined
  let connections: string[] = []
  const shown = environment.subscribe(environment.lookup(operation.fragment), show)
  const asked = fetchQuery<spaceQuery>(environment, MESSAGES, { spaceId }).subscribe({
    next({ space }) {
      if (!space) return
      connections = [space.messages.__id]
      live = requestSubscription<spaceSubscription>(environment, {
        subscription: LIVE,
        variables: { spaceId, after: space.streamCursor, connections },
        updater: addPart,
      })
    },
  })

  function show({ data }: Snapshot): void {
    const { space } = data as unknown as spaceQuery['response']
    const messages = space?.messages.edges.map(({ node }) => node).sort((one, other) => one.seq - other.seq)
    onMessages(
      (messages ?? []).map(({ id, sender, parts, status }) => ({
        id,
        sender: sender.name,
        text: parts.map(({ text }) => text ?? '').join('\n\n'),
        isWriting: status === 'STREAMING',
      })),
    )
  }

  return {
    send(text) {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      commitMutation<spaceMutation>(environment, {
        mutation: SEND,
        variables: { input: { spaceId, text }, connections },
        onCompleted: () => resolve(),
        onError: reject,
      })
      return promise
    },
    close() {
      asked.unsubscribe()
      live?.dispose()
      shown.dispose()
      kept.dispose()
      void socket.dispose()
    },
  }
}

/** Adds the event's part to its message if the part is new. The store has already updated the text of a known part. */
function addPart(store: RecordSourceSelectorProxy, data: spaceSubscription['response'] | null | undefined): void {
  const { messageId, part } = data?.spaceMessages ?? {}
  const message = messageId === undefined ? undefined : store.get(messageId)
  const parts = message?.getLinkedRecords('parts') ?? []
  const begun = part && store.get(part.id)
  if (begun && !parts.some((known) => known?.getDataID() === part.id))
    message?.setLinkedRecords([...parts, begun], 'parts')
}
