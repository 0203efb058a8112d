import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import type { Config } from '../config.ts'

/** An email to send. */
export interface OutgoingMail {
  /** The recipient's address. */
  to: string
  subject: string
  text: string
  html: string
  /** A key for the email's Message-ID, with which mail servers recognize duplicates. */
  key: string
}

/** Sends emails through the SMTP server of PARLEY_SMTP_URL. */
export interface Mailer {
  /**
   * Opens a connection and sends one email within one minute. Resolves when the server has accepted the email.
   * @throws MailError
   */
  send(mail: OutgoingMail, signal: AbortSignal): Promise<void>
}

/**
 * Thrown if an email was not sent, or if this is unknown. `refused`: the server has permanently refused the recipient
 * or the content, so a retry is useless. `unsent`: the server has not accepted the email, so a retry is safe.
 * `unknown`: the connection ended after the email was transmitted and before the server replied.
 */
export class MailError extends Error {
  readonly outcome: 'refused' | 'unsent' | 'unknown'
  constructor(outcome: MailError['outcome'], message: string) {
    super(message)
    this.name = 'MailError'
    this.outcome = outcome
  }
}

const CONNECT_MS = 10_000
const SILENCE_MS = 20_000
const LONGEST_MS = 60_000
const LONGEST_REPLY = 300

/** An error of nodemailer. */
interface SmtpFault extends Error {
  /** The code of the server's reply; absent if the server did not reply. */
  responseCode?: number
  response?: string
  /** The command to which the server replied. */
  command?: string
}

/** Creates the mailer. Returns null if email is not configured. */
export function createMailer({ mail: settings }: Pick<Config, 'mail'>): Mailer | null {
  if (settings === null) return null
  const { host, port, secure, requireTls, ignoreTls, verifiesCertificate, auth, from } = settings

  /** Returns the raw message to transmit. */
  async function composed({ to, subject, text, html, key }: OutgoingMail): Promise<Buffer> {
    const { default: MailComposer } = await import('nodemailer/lib/mail-composer')
    const domain = from.address.split('@')[1] ?? 'localhost'
    const message = new MailComposer({
      from,
      to: { name: '', address: to },
      subject,
      text,
      html,
      messageId: `<${key.replace(/[^\w-]/g, '.') || randomUUID()}@${domain}>`,
      // These headers prevent out-of-office replies and replies of ticket systems (RFC 3834).
      headers: { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'All' },
      disableFileAccess: true,
      disableUrlAccess: true,
    }).compile()
    return message.build()
  }

  return {
    async send(mail, signal) {
      const message = await composed(mail)
      const { default: SmtpConnection } = await import('nodemailer/lib/smtp-connection')
      const connection = new SmtpConnection({
        host,
        port,
        secure,
        requireTLS: requireTls,
        ignoreTLS: ignoreTls,
        tls: { rejectUnauthorized: verifiesCertificate },
        connectionTimeout: CONNECT_MS,
        greetingTimeout: CONNECT_MS,
        dnsTimeout: CONNECT_MS,
        socketTimeout: SILENCE_MS,
        maxResponseSize: 64 * 1024,
      })
      /** nodemailer reads the stream only after the server has accepted the sender and the recipient. */
      const content = Readable.from([message])
      let isTransmitted = false
      content.once('end', () => {
        isTransmitted = true
      })
      const timeout = AbortSignal.timeout(LONGEST_MS)
      try {
        await new Promise<void>((resolve, reject) => {
          const finish = (error?: Error | null) => (error ? reject(error) : resolve())
          const giveUp = () =>
            reject(new Error(timeout.aborted ? 'The mail server did not respond in time.' : 'Interrupted.'))
          for (const one of [signal, timeout]) {
            if (one.aborted) return giveUp()
            one.addEventListener('abort', giveUp, { once: true })
          }
          connection.once('error', finish)
          connection.once('end', () => finish(new Error('The mail server closed the connection.')))
          const send = () => connection.send({ from: from.address, to: [mail.to] }, content, finish)
          connection.connect((error) => {
            if (error) finish(error)
            else if (auth === null) send()
            else connection.login({ credentials: auth }, (refusal) => (refusal ? finish(refusal) : send()))
          })
        })
      } catch (error) {
        throw mailErrorOf(error as SmtpFault, isTransmitted)
      } finally {
        content.destroy()
        connection.close()
      }
    },
  }
}

/**
 * Classifies an error. The resulting message is one line without secrets: the server's reply to the login is omitted,
 * because it could quote the credentials.
 */
function mailErrorOf({ responseCode, response, command = '', message }: SmtpFault, isTransmitted: boolean): MailError {
  const about = command.startsWith('AUTH') ? 'The mail server rejected the user or password in PARLEY_SMTP_URL.' : ''
  const reply = (response ?? message).replace(/\s+/g, ' ').slice(0, LONGEST_REPLY)
  const text = about || `The mail server did not accept the email: ${reply}`
  if (responseCode === undefined) return new MailError(isTransmitted ? 'unknown' : 'unsent', text)
  const isFinal = responseCode >= 500 && responseCode !== 503 && ['RCPT TO', 'DATA'].includes(command)
  return new MailError(isFinal ? 'refused' : 'unsent', text)
}
