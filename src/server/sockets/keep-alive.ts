import type { WebSocket } from 'ws'

/** Pings each socket periodically, and reports a socket that has not answered before its next ping. */
export interface KeepAlive {
  watch(socket: WebSocket): void
  stop(): void
}

/** Sockets are pinged in this many groups, because pinging all of them at once would block the event loop. */
const TURNS = 12

/** `onSilent` must close the socket. A client that was merely paused receives the close code when it reads again. */
export function createKeepAlive(everyMs: number, onSilent: (socket: WebSocket) => void): KeepAlive {
  const turns = Array.from({ length: TURNS }, () => new Set<WebSocket>())
  const alive = new WeakSet<WebSocket>()
  let turn = 0
  let opened = 0

  const timer = setInterval(() => {
    turn = (turn + 1) % TURNS
    for (const socket of turns[turn]!) {
      // A closing socket has its own timeout. See `shut`.
      if (socket.readyState !== socket.OPEN) continue
      if (alive.delete(socket)) socket.ping()
      else onSilent(socket)
    }
  }, everyMs / TURNS).unref()

  return {
    watch(socket: WebSocket) {
      opened += 1
      const own = turns[opened % TURNS]!.add(socket)
      alive.add(socket)
      socket.on('pong', () => alive.add(socket))
      socket.once('close', () => own.delete(socket))
    },
    stop: () => clearInterval(timer),
  }
}
