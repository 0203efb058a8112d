import { normalEmail } from '../lib/email.ts'
import { isLoopback } from '../lib/loopback.ts'
import { percentDecoded } from '../lib/percent-encoding.ts'

/** How emails are sent. */
export interface MailSettings {
  host: string
  port: number
  /** Whether TLS starts with the first byte. If false, STARTTLS is used if the server offers it. */
  secure: boolean
  /** Whether to refuse a server without STARTTLS. */
  requireTls: boolean
  /** Whether to never use STARTTLS. */
  ignoreTls: boolean
  /** Whether to refuse a certificate that cannot be verified. */
  verifiesCertificate: boolean
  auth: { user: string; pass: string } | null
  from: { name: string; address: string }
}

type Environment = Record<string, string | undefined>

const SMTP_PARAMETERS = ['requireTLS', 'ignoreTLS', 'tls.rejectUnauthorized']
/** The submission ports: the first for STARTTLS, the second for TLS from the first byte. */
const [SUBMISSION, SUBMISSIONS] = [587, 465]
const DEFAULT_NAME = 'Parley'

/** Reads PARLEY_SMTP_URL and PARLEY_MAIL_FROM. `mail` is null if email is not configured or a setting is invalid. */
export function readMailSettings(set: Environment): { mail: MailSettings | null; faults: string[] } {
  const { PARLEY_SMTP_URL: url, PARLEY_MAIL_FROM: from } = set
  if (url === undefined)
    return { mail: null, faults: from === undefined ? [] : ['PARLEY_MAIL_FROM: needs PARLEY_SMTP_URL'] }
  const server = serverOf(url)
  if (typeof server === 'string') return { mail: null, faults: [`PARLEY_SMTP_URL: ${server}`] }
  const sender = senderOf(from, server)
  const faults = [
    ...(typeof sender === 'string' ? [`PARLEY_MAIL_FROM: ${sender}`] : []),
    ...(isLinkable(set)
      ? []
      : [
          'PARLEY_PUBLIC_URL: required with PARLEY_SMTP_URL, for the links in mails, unless HOST is a loopback address and PARLEY_ROLE is not worker',
        ]),
  ]
  return { mail: typeof sender === 'string' || faults.length > 0 ? null : { ...server, from: sender }, faults }
}

/** Whether links in emails can point to this server (see `PublicUrl.forReader`). */
function isLinkable({ PARLEY_PUBLIC_URL, HOST = '127.0.0.1', PARLEY_ROLE }: Environment): boolean {
  return PARLEY_PUBLIC_URL !== undefined || (isLoopback(HOST) && PARLEY_ROLE !== 'worker')
}

/** Returns the server, or the error in the URL. The error never quotes the URL, because it contains a password. */
function serverOf(value: string): Omit<MailSettings, 'from'> | string {
  const url = URL.parse(value)
  if (url === null || !['smtp:', 'smtps:'].includes(url.protocol) || url.hostname === '')
    return 'must be a URL like smtp://user:password@smtp.example.com:587 or smtps://…:465'
  const query = url.searchParams
  const unknown = [...query.keys()].filter((key) => !SMTP_PARAMETERS.includes(key))
  const isBad = [...query.values()].some((one) => one !== 'true' && one !== 'false')
  if (unknown.length > 0 || isBad)
    return `may have only the parameters ${SMTP_PARAMETERS.join(', ')}, each true or false`
  const secure = url.protocol === 'smtps:'
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const [user, pass] = [percentDecoded(url.username), percentDecoded(url.password)]
  if (user === null || pass === null) return 'has invalid percent-encoding in the user or the password'
  const ignoreTls = query.get('ignoreTLS') === 'true'
  return {
    host,
    port: url.port === '' ? (secure ? SUBMISSIONS : SUBMISSION) : Number(url.port),
    secure,
    // A password must not be sent unencrypted over a network.
    requireTls: query.get('requireTLS') === 'true' || (user !== '' && !isLoopback(host) && !ignoreTls),
    ignoreTls,
    verifiesCertificate: query.get('tls.rejectUnauthorized') !== 'false',
    auth: user === '' ? null : { user, pass },
  }
}

/**
 * Returns the sender, or an error. By default, the sender is the user name for the mail server, if that is an address.
 */
function senderOf(from: string | undefined, { host, auth }: Pick<MailSettings, 'host' | 'auth'>) {
  if (from === undefined) {
    const address = normalEmail(auth?.user ?? '') ?? (isLoopback(host) ? 'parley@localhost' : null)
    return address === null
      ? 'required with PARLEY_SMTP_URL, for example: Parley <parley@example.com>'
      : { name: DEFAULT_NAME, address }
  }
  const [, quoted = '', bracketed] = /^\s*(?:(.*?)\s*<([^<>]*)>)\s*$/.exec(from) ?? []
  const address = normalEmail(bracketed ?? from)
  const name = quoted.replace(/^"(.*)"$/, '$1')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are refused
  if (address === null || /[\x00-\x1f\x7f"\\<>]/.test(name))
    return 'must be an address, such as parley@example.com or Parley <parley@example.com>'
  return { name: name === '' ? DEFAULT_NAME : name, address }
}
