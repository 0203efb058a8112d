/** A link that Parley emails: to sign in, to accept an invitation, or to confirm an address. */
export type LinkPurpose = 'SIGN_IN' | 'INVITE' | 'CONFIRM'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

/** How long a link works after its email was sent. An invitation link stops working earlier if its row is deleted. */
export const LINK_LASTS_MS: Record<LinkPurpose, number> = {
  SIGN_IN: 15 * MINUTE_MS,
  INVITE: 7 * DAY_MS,
  CONFIRM: HOUR_MS,
}

export const INVITATION_LASTS_MS = 7 * DAY_MS
/** The time after which a sign-in email is no longer useful. */
export const SIGN_IN_MAIL_WITHIN_MS = HOUR_MS

export const LIMIT_WINDOW_MS = HOUR_MS
/**
 * The maximum number of sign-in emails to an address per hour while one of the links still works, and of other emails
 * with links to an address per hour.
 */
export const MOST_LINKS_OF_ADDRESS = 5
/** The maximum number of invitations that one viewer sends per hour. */
export const MOST_INVITATIONS_OF_VIEWER = 50
/** The maximum number of address confirmations that one human requests per hour. */
export const MOST_CONFIRMATIONS_OF_HUMAN = 5

/** The error of every operation that needs a mail server. */
export const NO_MAIL =
  'This server cannot send email: its operator must set PARLEY_SMTP_URL and PARLEY_MAIL_FROM. Join links work without email.'
/** The facts from which the text of an email is written. */
export interface LinkFacts {
  purpose: LinkPurpose
  /** The name of the human, for SIGN_IN and CONFIRM. */
  name: string | null
  /** The name of the human who sends the invitation; null for an admin without a name. */
  inviter: string | null
}

/** Returns the text of an email with a link. Names are the only text in it that people have written. */
export function linkMailOf({ purpose, name, inviter }: LinkFacts): { subject: string; text: string; label: string } {
  switch (purpose) {
    case 'SIGN_IN':
      return {
        subject: 'Sign in to Parley',
        text: `Hello ${name ?? ''},\n\nSomebody, probably you, asked to sign in to Parley with this address. The link works once and expires in 15 minutes.\n\nIf you did not ask for it, ignore this email: nobody can sign in without the link. Do not forward it.`,
        label: 'Sign in',
      }
    case 'INVITE':
      return {
        subject: inviter === null ? 'You are invited to Parley' : `${inviter} invites you to Parley`,
        text: `Hello,\n\n${inviter ?? 'An admin'} invites you to Parley, where people and AI agents share conversations. The link works once and expires in 7 days.\n\nIf you do not know who invited you, ignore this email.`,
        label: 'Accept the invitation',
      }
    case 'CONFIRM':
      return {
        subject: 'Confirm your address for Parley',
        text: `Hello,\n\n${name ?? 'Somebody'} wants to use this address in Parley, to sign in and to receive notifications. Open the link in the browser where you are signed in. The link works once and expires in an hour.\n\nIf this was not you, ignore this email.`,
        label: 'Confirm the address',
      }
  }
}

/** Derives a human's name from an email address: `Ada Lovelace` from `ada.lovelace@example.com`. */
export function nameOfAddress(email: string): string {
  const [localPart = ''] = email.split('@')
  const words = localPart
    .replace(/\+.*$/, '')
    .split(/[._-]+/)
    .filter(Boolean)
  const name = words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join(' ')
  return name === '' ? localPart : name
}
