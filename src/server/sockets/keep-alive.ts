import type { WebSocket } from 'ws'

/** Pings each socket again and again, and closes one that has not answered by the next time. */
export interface KeepAlive {
  watch(socket: WebSocket): void
  stop(): void
}

/** Sockets are asked in so many turns: all at once would be a pause for everybody. */
const TURNS = 12

/** `onSilent` closes a socket; one that is only paused learns the reason when it reads on. */
export function createKeepAlive(everyMs: number, onSilent: (socket: WebSocket) => void): KeepAlive {
  const turns = Array.from({ length: TURNS }, () => new Set<WebSocket>())
  const alive = new WeakSet<WebSocket>()
  let turn = 0
  let opened = 0

  const timer = setInterval(() => {
    turn = (turn + 1) % TURNS
    for (const socket of turns[turn]!) {
      // One that is being closed has a time of its own: see `shut`.
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
