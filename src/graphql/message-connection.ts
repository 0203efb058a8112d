import { builder } from './builder.ts'
import { Message } from './refs.ts'

/** The connection type of all fields that return messages. */
export const MessageEdge = builder.edgeObject({ type: Message, name: 'MessageEdge' })
export const MessageConnection = builder.connectionObject({ type: Message, name: 'MessageConnection' }, MessageEdge)
