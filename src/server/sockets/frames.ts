// Optimization: joins the WebSocket frames of a batch into one string for one write. To remove this stage, send
// each answer with `SocketWriter.send`. Gain: 1.4 to 1.6 × less CPU per message in groups of 10 subscribers, 2.6 ×
// in a group of 1,000 (docs/decisions/delivery-stages.md). The limits of `bench/fanout` for messages over corked
// `ws` sockets depend on this stage.
import * as ws from 'ws'
import type { Answer } from '../../delivery/answer.ts'

/** The function of `ws` that frames messages. The type declarations of `ws` omit it. */
const { Sender } = ws as unknown as {
  Sender: { frame(data: Buffer, options: { fin: boolean; opcode: number; readOnly: boolean }): Buffer[] }
}
/** Frame headers are cached for messages up to this length. */
const MOST_KNOWN_STARTS = 4096
const TEXT = { fin: true, opcode: 1, readOnly: true } as const

/**
 * Returns the beginning of a graphql-ws `next` message for an operation, with one byte per character. `id`: the
 * client's id of the operation.
 */
export function headOf(id: string): string {
  return Buffer.from(`{"id":${JSON.stringify(id)},"type":"next","payload":`).toString('latin1')
}

/**
 * The parts of frames between which the operation's head is inserted, by the answers and the length of the head.
 * Operations whose heads have the same length share these parts.
 */
const between = new WeakMap<readonly Answer[], Map<number, string[]>>()

/**
 * Returns the frames of these answers for an operation with this head, with one byte per character. Node writes a
 * single flat string fastest.
 */
export function framesOf(answers: readonly Answer[], head: string): string {
  let byLength = between.get(answers)
  if (byLength === undefined) {
    byLength = new Map()
    between.set(answers, byLength)
  }
  let pieces = byLength.get(head.length)
  if (pieces === undefined) {
    pieces = piecesOf(answers, head.length)
    byLength.set(head.length, pieces)
  }
  return pieces.join(head)
}

function piecesOf(answers: readonly Answer[], headLength: number): string[] {
  const pieces = ['']
  for (const { text } of answers) {
    const rest = bytesOf(`${text}}`)
    pieces.push(pieces.pop() + startOf(headLength + rest.length), rest)
  }
  return pieces
}

/** Returns the UTF-8 bytes of a text as a string with one character per byte. */
function bytesOf(text: string): string {
  return Buffer.byteLength(text) === text.length ? text : Buffer.from(text).toString('latin1')
}

const starts: string[] = []

/** Returns the header of a frame with a payload of this length. */
function startOf(length: number): string {
  const known = starts[length]
  if (known !== undefined) return known
  const [bytes] = Sender.frame(Buffer.alloc(length), TEXT) as [Buffer]
  const start = bytes.toString('latin1')
  if (length < MOST_KNOWN_STARTS) starts[length] = start
  return start
}
