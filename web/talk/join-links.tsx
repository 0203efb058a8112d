import { useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { graphql } from '../graphql.ts'
import { Secret } from '../operate/secret.tsx'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { Confirm } from '../ui/confirm.tsx'
import { Form, numberIn, SelectField } from '../ui/field.tsx'
import { Folded } from '../ui/folded.tsx'
import { QrCode } from '../ui/qr-code.tsx'
import { Moment } from '../ui/time.tsx'

const JOIN_LINKS = graphql(`
  query ConsoleJoinLinks($spaceId: ID!) {
    space(id: $spaceId) { id joinLinks { id url uses maxUses expiresAt } }
  }
`)

const CREATE_JOIN_LINK = graphql(`
  mutation ConsoleCreateJoinLink($input: CreateJoinLinkInput!) {
    createJoinLink(input: $input) {
      __typename
      ... on CreateJoinLinkPayload { joinLink { id } }
      ... on Error { message code }
    }
  }
`)

const REVOKE_JOIN_LINK = graphql(`
  mutation ConsoleRevokeJoinLink($id: ID!) {
    revokeJoinLink(input: { id: $id }) {
      __typename
      ... on RevokeJoinLinkPayload { revokedId }
      ... on Error { message code }
    }
  }
`)

const DAY_SECONDS = 86_400
/** The server allows at most 30 days. */
const DURATIONS = [
  [String(DAY_SECONDS / 24), '1 hour'],
  [String(DAY_SECONDS), '1 day'],
  [String(7 * DAY_SECONDS), '7 days'],
  [String(30 * DAY_SECONDS), '30 days'],
] as const
const WEEK = DURATIONS[2][0]
const USES = [
  ['', 'any number'],
  ['1', '1'],
  ['10', '10'],
  ['50', '50'],
] as const

/** The links with which people can join a space without being added. */
export function JoinLinks({ spaceId }: { spaceId: string }) {
  const { connection } = useSession()
  const { data } = useAsk(JOIN_LINKS, { spaceId })
  const [revokedId, setRevokedId] = useState<string | null>(null)
  const create = useDo(async (values: FormData) => {
    const maxUses = numberIn(values, 'maxUses')
    const input = { spaceId, expiresInSeconds: Number(values.get('duration')), maxUses }
    payloadOf((await connection.ask(CREATE_JOIN_LINK, { input })).createJoinLink, 'CreateJoinLinkPayload')
  })
  const revoke = useDo(async (id: string) => {
    const { revokeJoinLink } = await connection.ask(REVOKE_JOIN_LINK, { id })
    // The link may have expired or been revoked in the meantime.
    if (revokeJoinLink.__typename !== 'NotFoundError') payloadOf(revokeJoinLink, 'RevokeJoinLinkPayload')
    setRevokedId(null)
  })
  const links = data?.space?.joinLinks ?? []
  return (
    <section className="block">
      <h3>Join links</h3>
      <p className="hint">
        Everybody with an account on this server who has the link can join, and can then read all messages, including
        earlier ones.
      </p>
      {links.length === 0 && data !== undefined && <p className="hint">There is no valid link now.</p>}
      <ul className="member-list">
        {links.map(({ id, url, uses, maxUses, expiresAt }) => (
          <li key={id}>
            <span className="grow">
              <Secret label="Join link" value={url} />
              <span className="link-foot">
                <small className="grow">
                  Used {uses}
                  {maxUses !== null && ` of ${maxUses}`} {(maxUses ?? uses) === 1 ? 'time' : 'times'}; valid until{' '}
                  <Moment at={expiresAt} />
                </small>
                <Button look="danger" onClick={() => setRevokedId(id)} aria-label="Revoke this join link">
                  Revoke
                </Button>
              </span>
              <details>
                <summary>QR code</summary>
                <QrCode label="QR code of the join link" text={url} />
              </details>
            </span>
          </li>
        ))}
      </ul>
      <Confirm
        title="Revoke this join link?"
        submit="Revoke"
        open={revokedId !== null}
        onOpenChange={(open) => !open && setRevokedId(null)}
        isBusy={revoke.isBusy}
        error={revoke.error}
        onConfirm={() => revokedId !== null && revoke.start(revokedId)}
      >
        <p>Nobody can join with it any longer. People who have joined stay members.</p>
      </Confirm>
      <Folded title="Create a join link">
        <Form
          label="Create a join link"
          submit="Create a join link"
          look="plain"
          isBusy={create.isBusy}
          error={create.error}
          onSubmit={create.start}
        >
          <div className="columns">
            <SelectField label="Valid for" name="duration" options={DURATIONS} defaultValue={WEEK} />
            <SelectField label="People who can join" name="maxUses" options={USES} />
          </div>
          <p className="hint">
            A link also stops working when its creator leaves the space. If anybody is removed from the space, all of
            its links stop working.
          </p>
        </Form>
      </Folded>
    </section>
  )
}
