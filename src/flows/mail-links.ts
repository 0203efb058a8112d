import type { OpenSessionInput, SessionCookie, Sessions } from '../access/sessions.ts'
import type { Viewer } from '../access/viewer.ts'
import { conflictOf } from '../agents/humans.ts'
import type { MailInvitation } from '../generated/prisma/client.ts'
import { DUE_JOBS_CHANNEL, PUBLISH_CHANGE, SEND_LINK } from '../jobs/queues.ts'
import { checkEmail, emailKeyOf } from '../lib/email.ts'
import { ConflictError, DomainError, ForbiddenError, messageOf, RateLimitedError } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import { checkName } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import {
  LIMIT_WINDOW_MS,
  LINK_LASTS_MS,
  linkMailOf,
  MOST_CONFIRMATIONS_OF_HUMAN,
  MOST_LINKS_OF_ADDRESS,
  NO_MAIL,
  nameOfAddress,
  SIGN_IN_MAIL_WITHIN_MS,
} from '../rules/mail-links.ts'
import type { SpacePublisher } from '../spaces/space-publisher.ts'
import { noteDeed } from '../stores/audit-store.ts'
import { findHumanByEmail, insertHuman, updateHuman } from '../stores/human-store.ts'
import {
  countMailCodes,
  deleteMailCodes,
  findMailCode,
  insertMailCode,
  type MailCode,
  useMailCode,
} from '../stores/mail-code-store.ts'
import {
  deleteMailInvitation,
  deleteSignInInvitations,
  findInvitationOf,
  findMailInvitation,
} from '../stores/mail-invitation-store.ts'
import { countedAs, countMails, insertMail } from '../stores/mail-store.ts'
import { deleteInvitations } from '../stores/token-store.ts'
import type { DecideCall } from './decide-call.ts'
import { addableSpaces } from './invite.ts'
import { joinSpace } from './join-space.ts'

/** The input of a job that sends a link by email. */
export type LinkJob = ReturnType<typeof SEND_LINK.input.parse>

/** An email with a link, ready to be sent. */
export interface LinkMail {
  to: string
  subject: string
  text: string
  link: { path: string; label: string }
}

/** The information on the page of a link before the person presses the button. */
export interface DescribedLink {
  purpose: MailCode['purpose']
  email: string
  /** The name of the person who is signing in or confirming an address, or a suggested name for a new person. */
  name: string
  /** Whether accepting the invitation creates a new person, who may choose the name. */
  isNew: boolean
  /** The names of the spaces in an invitation. */
  spaces: string[]
  /**
   * The name of the human who sent the invitation. Null if the operator or an access token sent it, or if the link is
   * not an invitation.
   */
  inviter: string | null
}

/**
 * A space that the human has joined. `change`: the key of the job that publishes the membership if this process dies
 * before it can.
 */
interface Joined {
  spaceId: string
  change: string
}

/** The result of using a link. */
export type UsedLink =
  | { type: 'signed-in'; cookie: SessionCookie; spaceIds: string[] }
  | { type: 'confirmed'; email: string }

/** The human whom a link signs in. */
interface Signed {
  type: 'signed-in'
  humanId: string
  joined: Joined[]
}

type Redeemed = Signed | { type: 'confirmed'; email: string }

interface UseLinkInput {
  /** The name of a new person; null for a name from the address. */
  name: string | null
  /** The viewer of the request, if it has credentials. */
  viewer: Viewer | null
  browser: OpenSessionInput
}

/** Manages links that are sent by email. Each link works only once. */
export interface MailLinks {
  /** Whether email is set up. */
  isConfigured: boolean
  /**
   * Enqueues an email with a sign-in link, if the address belongs to a human or has an invitation. Does the same work
   * for every address; only a worker checks to whom the address belongs.
   * @throws BadInputError if the address is invalid
   */
  requestSignIn(email: string): Promise<void>
  /**
   * Enqueues an email in which a human confirms a new address, in the caller's transaction. The caller publishes
   * DUE_JOBS_CHANNEL after the commit.
   * @throws ForbiddenError if email is not set up; RateLimitedError above 5 in an hour
   */
  requestConfirmation(tx: Tx, humanId: string, email: string): Promise<void>
  /**
   * Creates a code and returns the email that contains it. Returns null if nobody should receive the email, or if the
   * address has reached its limit.
   */
  prepare(job: LinkJob): Promise<LinkMail | null>
  /** Describes a link without using it up. Returns null if the code is unknown, used or expired. */
  describe(code: string): Promise<DescribedLink | null>
  /**
   * Uses a link. A link that signs in opens a session in the same transaction. Returns null if the code is unknown,
   * used or expired.
   * @throws BadInputError; ForbiddenError if the viewer is not the human whose address is confirmed; ConflictError if
   * the address now belongs to somebody else
   */
  use(code: string, input: UseLinkInput): Promise<UsedLink | null>
}

interface MailLinksParts {
  publisher: Pick<SpacePublisher, 'joined'>
  /** Called after a human joins, because the human may now be able to decide on calls that wait in the space. */
  decideCall: Pick<DecideCall, 'recheck'>
  sessions: Pick<Sessions, 'insertForHuman' | 'publishEnded'>
}

const ANOTHER_VIEWER = 'Sign in as the person who wants to use this address, and open the link again.'

export function createMailLinks(platform: Platform, { publisher, decideCall, sessions }: MailLinksParts): MailLinks {
  const { db, clock, jobs, signals, mailer, logger } = platform
  const now = () => new Date(clock.now())

  async function enqueue(tx: Tx, input: LinkJob, key: string): Promise<void> {
    await jobs.enqueue(tx, SEND_LINK, [{ input, key }])
  }

  /** Returns the recipient and the purpose of an email; null if there is no recipient. */
  async function recipientOf(tx: Tx, job: LinkJob) {
    switch (job.purpose) {
      case 'SIGN_IN': {
        const human = await findHumanByEmail(tx, job.email)
        if (human !== null) return { purpose: 'SIGN_IN' as const, to: human.email, human, invitation: null }
        // The person may have lost the invitation email, so it is sent again.
        const invitation = await findInvitationOf(tx, job.email, now())
        return invitation && { purpose: 'INVITE' as const, to: invitation.email, human: null, invitation }
      }
      case 'INVITE': {
        const invitation = await findMailInvitation(tx, job.invitationId, now())
        return invitation && { purpose: 'INVITE' as const, to: invitation.email, human: null, invitation }
      }
      case 'CONFIRM': {
        const human = await tx.entity.findFirst({ where: { id: job.humanId, goneAt: null } })
        const owner = await findHumanByEmail(tx, job.email)
        const isOfAnother = owner !== null && owner.id !== job.humanId
        return human === null || isOfAnother
          ? null
          : { purpose: 'CONFIRM' as const, to: job.email, human, invitation: null }
      }
    }
  }

  /**
   * Uses an invitation: signs in the human with the invited address, creating the human if necessary, and adds the
   * human to the spaces.
   */
  async function accept(tx: Tx, code: MailCode, name: string | null) {
    const invitation = await findMailInvitation(tx, code.invitationId, now())
    if (invitation === null || !(await deleteMailInvitation(tx, invitation.id))) return null
    await deleteMailCodes(tx, { invitationId: invitation.id })
    const known = await findHumanByEmail(tx, invitation.email)
    const human = known ?? (await insertHuman(tx, { ...newPerson(invitation, name), createdAt: now() }))
    await deleteInvitations(tx, { humanId: human.id })
    await deleteSignInInvitations(tx, human.id)
    const joined = await joinAll(tx, invitation, human.id)
    const detail = {
      inviterId: invitation.inviterId,
      created: known === null,
      spaceIds: joined.map(({ spaceId }) => spaceId),
    }
    const deed = { actorId: human.id, serviceName: null, action: 'acceptInvitation', detail }
    await noteDeed(tx, { ...deed, targetId: human.id })
    return { type: 'signed-in' as const, humanId: human.id, joined }
  }

  /**
   * Adds the human to the spaces to which the inviter may currently add people. Skips spaces that are full, and
   * spaces that the human has already joined.
   */
  async function joinAll(tx: Tx, invitation: MailInvitation, humanId: string): Promise<Joined[]> {
    const joined: Joined[] = []
    for (const spaceId of await addableSpaces(tx, invitation, now())) {
      try {
        const { change } = await joinSpace(tx, spaceId, humanId, clock.now())
        joined.push({ spaceId, change })
      } catch (error) {
        if (!(error instanceof DomainError)) throw error
        logger.debug({ spaceId, error: messageOf(error) }, 'could not add an invited person to a space')
      }
    }
    return joined
  }

  async function redeem(
    tx: Tx,
    code: string,
    { name, viewer }: Pick<UseLinkInput, 'name' | 'viewer'>,
  ): Promise<Redeemed | null> {
    const found = await findMailCode(tx, code, now())
    if (found === null) return null
    const isOwn = viewer?.scope === 'HUMAN' && viewer.id === found.humanId && viewer.acting === undefined
    if (found.purpose === 'CONFIRM' && !isOwn) throw new ForbiddenError(ANOTHER_VIEWER)
    if (!(await useMailCode(tx, found))) return null
    if (found.purpose === 'INVITE') return accept(tx, found, name)
    return found.purpose === 'CONFIRM' ? confirm(tx, found) : signIn(tx, found)
  }

  async function confirm(tx: Tx, { humanId, email }: MailCode): Promise<Redeemed | null> {
    if (humanId === null || (await updateHuman(tx, humanId, { email })) === null) return null
    const deed = { actorId: humanId, serviceName: null, action: 'confirmEmail', detail: {} }
    await noteDeed(tx, { ...deed, targetId: humanId })
    return { type: 'confirmed', email }
  }

  /** Signs a human in. Returns null if the address now belongs to somebody else. */
  async function signIn(tx: Tx, { humanId, email }: MailCode): Promise<Redeemed | null> {
    const owner = await findHumanByEmail(tx, email)
    return owner !== null && owner.id === humanId ? { type: 'signed-in', humanId: owner.id, joined: [] } : null
  }

  return {
    isConfigured: mailer !== null,
    async requestSignIn(given) {
      const email = checkEmail(given, 'email')
      const until = new Date(clock.now() + SIGN_IN_MAIL_WITHIN_MS).toISOString()
      const job = { purpose: 'SIGN_IN' as const, id: newId('inv'), email, until }
      await db.transaction((tx) => enqueue(tx, job, `SIGN_IN:${emailKeyOf(email)}`))
      await signals.publish(DUE_JOBS_CHANNEL, {})
    },
    async requestConfirmation(tx, humanId, email) {
      if (mailer === null) throw new ForbiddenError(NO_MAIL)
      const id = newId('inv')
      const counted = countedAs('asked to confirm', humanId)
      const asked = await countMails(tx, counted, new Date(clock.now() - LIMIT_WINDOW_MS))
      if (asked >= MOST_CONFIRMATIONS_OF_HUMAN)
        throw new RateLimitedError(
          'You may confirm at most 5 addresses in an hour; wait and try again.',
          LIMIT_WINDOW_MS,
        )
      await insertMail(tx, `asked:${id}`, now(), counted)
      await enqueue(tx, { purpose: 'CONFIRM', id, humanId, email }, id)
    },
    async prepare(job) {
      return db.transaction(async (tx) => {
        const recipient = await recipientOf(tx, job)
        if (recipient === null) return null
        const { purpose, to, human, invitation } = recipient
        // Sign-in emails are counted separately, so that invitations do not use up the limit of sign-in emails.
        const counted = countedAs(purpose === 'SIGN_IN' ? 'sign in' : 'others', to)
        const others = await countMails(tx, counted, new Date(clock.now() - LIMIT_WINDOW_MS))
        const isRepeated = (await tx.mail.count({ where: { key: job.id } })) > 0
        const isOver = others >= MOST_LINKS_OF_ADDRESS
        // Beyond the limit, the email is still sent if the person has no valid link. Otherwise strangers could lock
        // the person out by requesting links.
        const lacksLink =
          isOver && purpose === 'SIGN_IN' && (await countMailCodes(tx, { purpose, email: to, now: now() })) === 0
        if (!isRepeated && isOver && !lacksLink) {
          logger.info({ purpose }, 'did not email a link: the address has received too many emails in the last hour')
          return null
        }
        await insertMail(tx, job.id, now(), counted)
        const lastsUntil = new Date(clock.now() + LINK_LASTS_MS[purpose])
        const expiresAt = invitation !== null && invitation.expiresAt < lastsUntil ? invitation.expiresAt : lastsUntil
        const owner = { humanId: human?.id ?? null, invitationId: invitation?.id ?? null }
        const code = await insertMailCode(tx, { purpose, email: to, ...owner, createdAt: now(), expiresAt })
        const inviter = invitation && (await tx.entity.findUnique({ where: { id: invitation.inviterId } }))
        const facts = { purpose, name: human?.name ?? null, inviter: inviter?.name ?? null }
        const { subject, text, label } = linkMailOf(facts)
        return { to, subject, text, link: { path: `/auth/mail/${code}`, label } }
      })
    },
    async describe(code) {
      const { prisma } = db
      const found = await findMailCode(prisma, code, now())
      if (found === null) return null
      const { purpose, email, humanId } = found
      if (purpose !== 'INVITE') {
        const human = await prisma.entity.findFirst({ where: { id: humanId ?? '', goneAt: null } })
        return human && { purpose, email, name: human.name, isNew: false, spaces: [], inviter: null }
      }
      const invitation = await findMailInvitation(prisma, found.invitationId, now())
      if (invitation === null) return null
      const human = await findHumanByEmail(prisma, email)
      const spaceIds = await addableSpaces(prisma, invitation, now())
      const spaces = await prisma.space.findMany({ where: { id: { in: spaceIds } }, select: { name: true } })
      const inviter = await prisma.entity.findUnique({ where: { id: invitation.inviterId } })
      return {
        purpose,
        email,
        isNew: human === null,
        spaces: spaces.map((space) => space.name),
        name: human?.name ?? nameOfAddress(email),
        inviter: inviter?.name ?? null,
      }
    },
    async use(code, { browser, ...given }) {
      const used = await db
        .transaction(async (tx) => {
          const redeemed = await redeem(tx, code, given)
          if (redeemed?.type !== 'signed-in') return redeemed
          const { humanId } = redeemed
          return { ...redeemed, ...(await sessions.insertForHuman(tx, { humanId, by: 'mail', ...browser })) }
        })
        .catch((error) => {
          const conflict = conflictOf(error)
          throw conflict instanceof ConflictError ? new ConflictError('Somebody else now has this address.') : conflict
        })
      if (used?.type !== 'signed-in') return used
      const { humanId, joined, cookie, endedIds } = used
      await sessions.publishEnded(endedIds)
      for (const { spaceId, change } of joined) {
        await publisher.joined(spaceId, humanId, change)
        jobs.withdraw(PUBLISH_CHANGE, change)
        await decideCall.recheck({ spaceId })
      }
      return { type: 'signed-in', cookie, spaceIds: joined.map(({ spaceId }) => spaceId) }
    },
  }
}

function newPerson({ email }: Pick<MailInvitation, 'email'>, name: string | null) {
  return { email, name: name === null ? nameOfAddress(email) : checkName(name, 'name') }
}
