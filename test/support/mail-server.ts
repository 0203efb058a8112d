import type { AddressInfo, Socket } from 'node:net'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { until } from './until.ts'

/** An email as the server received it. */
export interface ReceivedMail {
  /** The recipients of the envelope. */
  to: string[]
  /** Everything that was transmitted. */
  raw: string
  /** The headers by name, in lower case. */
  headers: Map<string, string>
  /** The plain text. */
  text: string
  /** The link in the plain text; '' if there is none. */
  link: string
}

/** An SMTP server that keeps everything that it receives. */
export interface MailServer {
  /** The value for PARLEY_SMTP_URL. */
  url: string
  mails: ReceivedMail[]
  /** Waits until an address has received this many emails, and returns the last one. */
  mailTo(address: string, count?: number): Promise<ReceivedMail>
  /** Sets the behaviour of the server from now on. */
  behave(how: Behaviour): void
  /** How often a client has connected. */
  connections(): number
  close(): Promise<void>
}

/**
 * `refuses` replies 550 to each recipient. `busy` replies 451. `breaks` accepts the content, but closes the connection instead
 * of replying. `silent` never replies to RCPT.
 */
export type Behaviour = 'accepts' | 'refuses' | 'busy' | 'breaks' | 'silent'

export async function startMailServer(options: SMTPServerOptions = {}): Promise<MailServer> {
  const mails: ReceivedMail[] = []
  let behaviour: Behaviour = 'accepts'
  let connected = 0
  const refusal = (code: number, text: string) => Object.assign(new Error(text), { responseCode: code })
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onConnect(_, callback) {
      connected += 1
      callback()
    },
    onRcptTo(_, __, callback) {
      if (behaviour === 'refuses') callback(refusal(550, '5.1.1 No such user'))
      else if (behaviour === 'busy') callback(refusal(451, '4.7.1 Try again later'))
      else if (behaviour !== 'silent') callback()
    },
    onData(stream, session, callback) {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => {
        mails.push(
          mailOf(
            Buffer.concat(chunks).toString(),
            session.envelope.rcptTo.map(({ address }) => address),
          ),
        )
        if (behaviour === 'breaks') for (const socket of sockets) socket.destroy()
        else callback()
      })
    },
    ...options,
  })
  const sockets = new Set<Socket>()
  server.server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  server.on('error', () => {})
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()))
  const { port } = server.server.address() as AddressInfo
  const sentTo = (address: string) => mails.filter(({ to }) => to.includes(address))
  return {
    url: `smtp://127.0.0.1:${port}`,
    mails,
    mailTo: async (address, count = 1) => {
      const found = await until(
        `${address} has ${count} mails`,
        () => sentTo(address).length >= count && sentTo(address),
      )
      return found.at(-1) as ReceivedMail
    },
    behave(how) {
      behaviour = how
    },
    connections: () => connected,
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}

function mailOf(raw: string, to: string[]): ReceivedMail {
  const [head = '', ...rest] = raw.split('\r\n\r\n')
  const unfolded = head.replace(/\r\n[ \t]+/g, ' ').split('\r\n')
  const headers = new Map(
    unfolded.map((line) => [line.split(':')[0]?.toLowerCase() ?? '', line.replace(/^[^:]*: ?/, '')]),
  )
  const boundary = /boundary="([^"]+)"/.exec(headers.get('content-type') ?? '')?.[1]
  const [, plain = ''] = boundary === undefined ? [] : rest.join('\r\n\r\n').split(`--${boundary}`).slice(0, 2)
  const [, encoding = ''] = /content-transfer-encoding: (\S+)/i.exec(head + plain) ?? []
  const body = plain.slice(plain.indexOf('\r\n\r\n') + 4) || rest.join('\r\n\r\n')
  const text = decoded(body, encoding.toLowerCase())
  return { to, raw, headers, text, link: /https?:\/\/\S+/.exec(text)?.[0] ?? '' }
}

function decoded(body: string, encoding: string): string {
  if (encoding === 'base64') return Buffer.from(body, 'base64').toString()
  if (encoding !== 'quoted-printable') return body.replaceAll('\r\n', '\n')
  const bytes = body
    .replace(/=\r\n/g, '')
    .replace(/=([\dA-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString().replaceAll('\r\n', '\n')
}
