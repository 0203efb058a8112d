import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import { binaryOf, framesOf } from './frame.ts'
import { createReceipts } from './receipts.ts'
import type { Rounds } from './rounds.ts'

/** The way out to one client, bounded. What is sent in one tick leaves in one write; what a closing socket is given is dropped. */
export interface Outlet {
  /** Sends a text, after everything that was sent before it. */
  send(text: string, onTaken: () => void): void
  /** The same for several: each is `head` and then one of `rests`, which others have too. Binary strings. */
  sendAll(head: string, rests: readonly string[]): void
  /** How many texts the system has not taken yet; 0 where it keeps up. */
  waiting(): number
  isOpen(): boolean
  /** Resolves once few texts wait, or the socket is closed. */
  drained(): Promise<void>
  /** Writes at once what was sent in this tick: for who closes the socket next. */
  flush(): void
  /** The client is too far behind: closes the socket in a way that has it come back. */
  giveUp(): void
}

const MOST_WAITING = { texts: 1000, bytes: 4 * 1024 * 1024 }
/** Texts that wait where no more should be given yet. */
const MANY_WAITING_TEXTS = 200
const FEW_WAITING_TEXTS = 64
/** What is handed to the system at a time, once it does not take everything at once. */
const BYTES_A_WRITE = 64 * 1024

/** Texts to be sent, as they were given: only what is being written is put together. */
interface Item {
  head: string
  rests: readonly string[]
  onTaken: () => void
}

export interface OutletOptions {
  rounds: Rounds
  /** More waits than is waited for. */
  onFull(): void
  /** Whether one subscription at most is answered here: then nothing else can be meant to leave in the same write. */
  isAlone(): boolean
}

const nothing = () => {}

/**
 * The outlet of a socket over `transport`. Frames go past the socket to its transport: without compression and fragments,
 * which the server does not use, nothing comes between.
 */
export function createOutlet(socket: WebSocket, transport: Duplex, { rounds, onFull, isAlone }: OutletOptions): Outlet {
  /** Given in this tick. */
  let given: Item[] = []
  /** What the transport was handed, and has not got rid of. */
  let writing: Item[] = []
  /** What has to wait for that. */
  const held = createHeld()
  let waiting = 0
  const onDrained: (() => void)[] = []
  const receipts = createReceipts(socket, MOST_WAITING)

  const isOpen = () => socket.readyState === socket.OPEN

  function writeGiven(): void {
    const items = given
    given = []
    if (items.length === 0) return
    if (!isOpen()) settle(items)
    else if (writing.length === 0) write(items)
    else held.add(items)
  }

  function write(items: Item[]): void {
    if (isTaken(items.map(textOf).join(''), countOf(items))) settle(items)
    else writing = items
  }

  /** Writes; answers whether the system has taken everything at once. Otherwise `onWritten` is called when it has. */
  function isTaken(text: string, texts: number): boolean {
    transport.write(text, 'latin1')
    receipts.sent(texts, text.length)
    if (transport.writableLength === 0) return true
    // A write that is followed by nothing is the cheaper one; where it is stuck, an empty one behind it tells of its end.
    transport.write('', 'latin1', onWritten)
    return false
  }

  function onWritten(): void {
    settle(writing)
    writing = []
    if (!isOpen()) dropHeld()
    while (held.bytes() > 0 && writing.length === 0) write(held.take(BYTES_A_WRITE))
  }

  function settle(items: Item[]): void {
    for (const { rests, onTaken } of items) {
      waiting -= rests.length
      onTaken()
    }
    if (waiting <= FEW_WAITING_TEXTS) tellDrained()
  }

  function tellDrained(): void {
    for (const listener of onDrained.splice(0)) listener()
  }

  const dropHeld = () => settle(held.take(Number.POSITIVE_INFINITY))

  function isFull(): boolean {
    if (receipts.isOverdue()) return true
    if (writing.length === 0) return false
    return waiting >= MOST_WAITING.texts || held.bytes() + transport.writableLength > MOST_WAITING.bytes
  }

  function give(item: Item): void {
    if (isOpen() && isFull()) {
      onFull()
      dropHeld()
    }
    if (!isOpen()) item.onTaken()
    else {
      waiting += item.rests.length
      given.push(item)
      if (given.length === 1) rounds.atEnd(writeGiven)
    }
  }

  socket.once('close', () => {
    dropHeld()
    tellDrained()
  })

  /** What most messages are: nothing waits before them, and nothing comes with them. */
  function sendAtOnce(head: string, rests: readonly string[]): void {
    const item = { head, rests, onTaken: nothing }
    if (isTaken(textOf(item), rests.length)) return
    waiting += rests.length
    writing = [item]
  }

  return {
    send: (text, onTaken) => give({ head: '', rests: [binaryOf(text)], onTaken }),
    sendAll(head, rests) {
      const isFree = given.length === 0 && writing.length === 0 && isAlone() && isOpen() && !isFull()
      if (isFree) sendAtOnce(head, rests)
      else give({ head, rests, onTaken: nothing })
    },
    waiting: () => waiting,
    isOpen,
    drained() {
      if (waiting <= FEW_WAITING_TEXTS || !isOpen()) return Promise.resolve()
      return new Promise((resolve) => onDrained.push(resolve))
    },
    flush: writeGiven,
    giveUp: onFull,
  }
}

/** Texts that wait, oldest first. */
function createHeld() {
  let items: Item[] = []
  let bytes = 0
  return {
    bytes: () => bytes,
    add(more: readonly Item[]): void {
      items.push(...more)
      bytes += more.reduce((sum, item) => sum + bytesOf(item), 0)
    },
    /** Takes out the oldest, as many as make so many bytes. */
    take(most: number): Item[] {
      let count = 0
      let taken = 0
      while (count < items.length && taken < most) taken += bytesOf(items[count++]!)
      bytes -= taken
      const oldest = items.slice(0, count)
      items = items.slice(count)
      return oldest
    },
  }
}

/** Whether one has much before it; one whose socket closes has nothing. */
export function isBusy(outlet: Outlet): boolean {
  return outlet.isOpen() && outlet.waiting() > MANY_WAITING_TEXTS
}

function countOf(items: readonly Item[]): number {
  return items.reduce((sum, { rests }) => sum + rests.length, 0)
}

function bytesOf({ head, rests }: Item): number {
  return rests.reduce((sum, rest) => sum + head.length + rest.length, 0)
}

function textOf({ head, rests }: Item): string {
  return framesOf(head, rests)
}
