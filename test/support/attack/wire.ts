import { Agent, type IncomingMessage, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { WebSocket } from 'ws'

/**
 * A response or frame larger than this violates `PARLEY_MAX_RESPONSE_BYTES`. The limit includes an allowance for the envelope.
 */
export const MOST_RESPONSE_BYTES = 8 * 1024 * 1024 + 64 * 1024
/** The maximum time for a body (src/server/http/body.ts). test/attacks/unfinished-bodies.test.ts checks the shorter times. */
const BODY_CLOSED_WITHIN_MS = 33_000
/**
 * A long timeout, because requests of a hostile member also wait for the other requests of that member. A request without an
 * answer by then hangs.
 */
const ANSWERED_WITHIN_MS = 120_000
const KEPT_CHARACTERS = 64 * 1024
const INTERNAL = 'INTERNAL_SERVER_ERROR'

/** The requests of one hostile member, and a record of the responses. */
export interface Wire {
  post(body: string, how?: PostOptions): Promise<Answer>
  /** Opens an acknowledged socket; null if it was refused. */
  socket(): Promise<AttackSocket | null>
  /** Opens a TCP connection for arbitrary bytes. */
  raw(): Socket
  /** Returns whether the server closes a POST with an endless body in time. */
  unfinishedBody(declaredBytes: number): Promise<void>
  /** Counts an outcome of the current action. */
  count(action: string, outcome: string): void
  finding(text: string): void
  close(): void
}

export interface PostOptions {
  token?: string
  accept?: string
  /** How to read the response: `quick` without pauses, `slow` in small chunks with pauses, `broken-off` only the first chunk before disconnecting. */
  reading?: 'quick' | 'slow' | 'broken-off'
  contentType?: string
}

export interface Answer {
  status: number
  /** The first characters of the body. */
  text: string
  bytes: number
}

export interface AttackSocket {
  socket: WebSocket
  /** Sends the operation with this id. */
  subscribe(id: string, payload: object): void
  /** Stops reading for a time. In the meantime, the server may close the socket with 1013. */
  pause(ms: number): Promise<void>
  isOpen(): boolean
  close(): void
}

export interface WireReport {
  /** The number of times, by `action: outcome`. */
  counts: Record<string, number>
  /** Forbidden outcomes, each with the preceding actions. Only the first of each kind is recorded. */
  findings: string[]
  largestResponse: number
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

/** Connects one hostile member to the server, on 127.0.0.1 only. */
export function createWire(origin: string, token: string, report: WireReport, isOver: () => boolean): Wire {
  const agent = new Agent({ keepAlive: true, maxSockets: 40 })
  const { hostname, port } = new URL(origin)
  if (hostname !== '127.0.0.1') throw new Error(`The attack runs against 127.0.0.1 only, not ${hostname}.`)
  const opened = new Set<{ destroy(): void }>()
  const kinds = new Set<string>()

  function finding(text: string): void {
    const kind = text.split(/[:\n]/)[0] ?? ''
    if (kinds.has(kind)) return
    kinds.add(kind)
    report.findings.push(text)
  }

  /** Searches the received data for faults, also across the boundaries of chunks. */
  function judge(what: string, piece: string, sent: string): void {
    if (piece.includes(INTERNAL)) finding(`${INTERNAL} by ${what}: ${around(piece)}\n  after ${sent.slice(0, 1500)}`)
  }

  function measure(what: string, bytes: number, sent: string): void {
    report.largestResponse = Math.max(report.largestResponse, bytes)
    if (bytes > MOST_RESPONSE_BYTES) {
      finding(
        `a response past the bound by ${what}: ${(bytes / 2 ** 20).toFixed(1)} MiB\n  after ${sent.slice(0, 600)}`,
      )
    }
  }

  /** Reads the data in chunks, and keeps only the part that is reported. */
  function createReader(isStream: boolean, sent: string) {
    const answer = { text: '', bytes: 0 }
    const what = isStream ? 'SSE' : 'HTTP'
    let [last, measured] = ['', 0]
    return {
      answer,
      take(piece: string): void {
        const bytes = Buffer.byteLength(piece)
        answer.bytes += bytes
        if (answer.text.length < KEPT_CHARACTERS) answer.text += piece.slice(0, KEPT_CHARACTERS - answer.text.length)
        judge(what, last + piece, sent)
        last = piece.slice(-INTERNAL.length)
        // In a stream, each event is checked separately.
        const end = isStream ? piece.lastIndexOf('\n\n') : -1
        measured = end < 0 ? measured + bytes : Buffer.byteLength(piece.slice(end))
        measure(what, measured, sent)
      },
    }
  }

  async function read(response: IncomingMessage, sent: string, reading: PostOptions['reading']): Promise<Answer> {
    const reader = createReader(/event-stream|multipart/.test(response.headers['content-type'] ?? ''), sent)
    response.setEncoding('utf8')
    try {
      for await (const piece of response) {
        reader.take(piece)
        if (reading === 'broken-off' || isOver()) break
        if (reading === 'slow') await sleep(50)
      }
    } catch {
      // The server may close the socket.
    }
    return { status: response.statusCode ?? 0, ...reader.answer }
  }

  return {
    finding,
    count(action, outcome) {
      const key = `${action}: ${outcome}`
      report.counts[key] = (report.counts[key] ?? 0) + 1
    },
    post(body, { token: other = token, accept = '*/*', reading = 'quick', contentType = 'application/json' } = {}) {
      return new Promise((resolve) => {
        const headers = { authorization: `Bearer ${other}`, 'content-type': contentType, accept }
        const none = (status: number, text: string) => resolve({ status, text, bytes: 0 })
        const sent = request(`${origin}/graphql`, { method: 'POST', agent, headers }, async (response) => {
          const answer = await read(response, body, reading)
          const { status } = answer
          if (status >= 500 && status !== 503)
            finding(`HTTP ${status}: ${answer.text.slice(0, 300)}\n  after ${body.slice(0, 1500)}`)
          resolve(answer)
        })
        sent.on('error', (error) => none(0, String(error)))
        sent.setTimeout(ANSWERED_WITHIN_MS, () => {
          finding(`no answer within ${ANSWERED_WITHIN_MS / 1000} s\n  after ${body.slice(0, 1500)}`)
          sent.destroy()
        })
        sent.end(body)
      })
    },
    async socket() {
      const socket = new WebSocket(`${origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws')
      const ending = { destroy: () => socket.terminate() }
      opened.add(ending)
      let [pausedFor, sent] = [0, '']
      socket.on('error', () => {})
      socket.on('close', (code) => {
        opened.delete(ending)
        if (code === 1011) finding(`a socket was closed with 1011\n  after ${sent.slice(0, 1500)}`)
        if (code === 1006 && pausedFor > 0 && !isOver()) {
          finding(
            `a reader that paused for ${pausedFor} ms was closed with 1006 instead of 1013\n  after ${sent.slice(0, 600)}`,
          )
        }
      })
      const acknowledged = new Promise<boolean>((resolve) => {
        socket.once('close', () => resolve(false))
        socket.on('message', (data) => {
          const text = String(data)
          judge('a socket', text, sent)
          measure('a socket', Buffer.byteLength(text), sent)
          if (text.startsWith('{"type":"connection_ack"')) resolve(true)
          if (text === '{"type":"ping"}') socket.send('{"type":"pong"}')
        })
      })
      socket.once('open', () => {
        socket.send(JSON.stringify({ type: 'connection_init', payload: { authorization: `Bearer ${token}` } }))
      })
      if (!(await acknowledged)) return null
      return {
        socket,
        isOpen: () => socket.readyState === socket.OPEN,
        subscribe(id, payload) {
          sent = JSON.stringify({ id, type: 'subscribe', payload })
          if (socket.readyState === socket.OPEN) socket.send(sent)
        },
        async pause(ms) {
          pausedFor = ms
          socket.pause()
          await sleep(ms)
          socket.resume()
          // If the socket closed during the pause, its close event arrives now.
          await sleep(1000)
          pausedFor = 0
        },
        close: () => socket.close(),
      }
    },
    raw() {
      const socket = connect({ host: hostname, port: Number(port) })
      const ending = { destroy: () => socket.destroy() }
      opened.add(ending)
      socket.on('error', () => {})
      socket.on('close', () => opened.delete(ending))
      socket.resume()
      return socket
    },
    async unfinishedBody(declaredBytes) {
      const socket = this.raw()
      const closed = new Promise<true>((resolve) => socket.once('close', () => resolve(true)))
      const head = ['POST /graphql HTTP/1.1', `host: ${hostname}`, `authorization: Bearer ${token}`]
      socket.write(
        [...head, 'content-type: application/json', `content-length: ${declaredBytes}`, '', '{"query":"'].join('\r\n'),
      )
      const inTime = await Promise.race([closed, sleep(BODY_CLOSED_WITHIN_MS).then(() => false)])
      if (!inTime && !isOver()) finding(`an unfinished body is still open after ${BODY_CLOSED_WITHIN_MS / 1000} s`)
      socket.destroy()
    },
    close() {
      for (const one of [...opened]) one.destroy()
      agent.destroy()
    },
  }
}

/** Returns the part of a text that contains the fault. */
function around(text: string): string {
  const at = text.indexOf(INTERNAL)
  return text.slice(Math.max(0, at - 300), at + 200)
}
