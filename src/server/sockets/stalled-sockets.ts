/** A socket whose data waits in this process because the client does not read fast enough. */
export interface Stalled {
  viewerId(): string
  waitingBytes(): number
  /** Closes the socket with a code after which the client reconnects. */
  giveUp(): void
}

/** A process-wide budget for the bytes that were written to sockets but not yet accepted by the kernel. */
export interface StalledSockets {
  add(socket: Stalled): void
  delete(socket: Stalled): void
}

export interface StalledSocketsOptions {
  mostBytes?: number
  checkEveryMs?: number
}

const MOST_BYTES = 128 * 1024 * 1024
const CHECK_EVERY_MS = 250

/**
 * If the budget is exceeded, closes sockets of the viewer with the most waiting bytes, largest first, until the
 * rest fits.
 */
export function createStalledSockets(options: StalledSocketsOptions = {}): StalledSockets {
  const { mostBytes = MOST_BYTES, checkEveryMs = CHECK_EVERY_MS } = options
  const sockets = new Set<Stalled>()
  let timer: NodeJS.Timeout | undefined

  function check(): void {
    const waiting = Array.from(sockets, (socket) => ({ socket, bytes: socket.waitingBytes() }))
    let total = sum(waiting)
    if (total <= mostBytes) return
    const byViewer = [...Map.groupBy(waiting, ({ socket }) => socket.viewerId()).values()]
    for (const own of byViewer) own.sort((one, other) => one.bytes - other.bytes)
    while (total > mostBytes) {
      const most = byViewer.reduce((largest, own) => (sum(own) > sum(largest) ? own : largest))
      const last = most.pop()
      if (last === undefined) return
      total -= last.bytes
      sockets.delete(last.socket)
      last.socket.giveUp()
    }
  }

  return {
    add(socket) {
      sockets.add(socket)
      timer ??= setInterval(check, checkEveryMs).unref()
    },
    delete(socket) {
      if (!sockets.delete(socket) || sockets.size > 0) return
      clearInterval(timer)
      timer = undefined
    },
  }
}

const sum = (waiting: readonly { bytes: number }[]) => waiting.reduce((total, { bytes }) => total + bytes, 0)
