import * as ws from 'ws'
import type { Answer } from '../streams/answer.ts'

/** A part of `ws` that its types leave out: how it frames what it sends. */
const { Sender } = ws as unknown as {
  Sender: { frame(data: Buffer, options: { fin: boolean; opcode: number; readOnly: boolean }): Buffer[] }
}
/** Up to this length what frames begin with is remembered. */
const MOST_KNOWN_STARTS = 4096
const TEXT = { fin: true, opcode: 1, readOnly: true } as const

/** The beginning of graphql-ws' `next` for an operation, by the client's id of it; a byte a character. */
export function headOf(id: string): string {
  return Buffer.from(`{"id":${JSON.stringify(id)},"type":"next","payload":`).toString('latin1')
}

/** By the answers, and how long a head is: what stands between the heads in their frames, which is the same for all. */
const between = new WeakMap<readonly Answer[], Map<number, string[]>>()

/** The frames in which these answers go to the operation of this head; a byte a character: one flat string is what Node writes fastest. */
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

/** A byte a character. */
function bytesOf(text: string): string {
  return Buffer.byteLength(text) === text.length ? text : Buffer.from(text).toString('latin1')
}

const starts: string[] = []

/** What a frame of so many bytes begins with. */
function startOf(length: number): string {
  const known = starts[length]
  if (known !== undefined) return known
  const [bytes] = Sender.frame(Buffer.alloc(length), TEXT) as [Buffer]
  const start = bytes.toString('latin1')
  if (length < MOST_KNOWN_STARTS) starts[length] = start
  return start
}
