import type { WebSocket } from 'ws'

/** Asks each socket again and again whether it is there, and cuts off one that has not answered by the next time. */
export interface KeepAlive {
  watch(socket: WebSocket): void
  stop(): void
}

/** Sockets are asked in so many turns: all at once would be a pause for everybody. */
const TURNS = 12

export function createKeepAlive(everyMs: number): KeepAlive {
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
      else socket.terminate()
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
