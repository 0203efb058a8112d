import { payloadOf } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { graphql } from '../graphql.ts'
import { Secret } from '../operate/secret.tsx'
import { useSession } from '../session.tsx'
import { IconButton } from '../ui/button.tsx'
import { Form, SelectField } from '../ui/field.tsx'
import { Refused } from '../ui/notice.tsx'
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

/** The links with which people join a space by themselves. */
export function JoinLinks({ spaceId }: { spaceId: string }) {
  const { connection } = useSession()
  const { data } = useAsk(JOIN_LINKS, { spaceId })
  const create = useDo(async (values: FormData) => {
    const input = { spaceId, expiresInSeconds: Number(values.get('duration')) }
    payloadOf((await connection.ask(CREATE_JOIN_LINK, { input })).createJoinLink, 'CreateJoinLinkPayload')
  })
  const revoke = useDo(async (id: string) => {
    payloadOf((await connection.ask(REVOKE_JOIN_LINK, { id })).revokeJoinLink, 'RevokeJoinLinkPayload')
  })
  const links = data?.space?.joinLinks ?? []
  return (
    <section className="block">
      <h3>Join links</h3>
      <p className="hint">
        Anybody with an account on this server who gets the link can join and read all messages, including earlier ones.
        A link also ends when its creator leaves the space.
      </p>
      <ul className="member-list">
        {links.map(({ id, url, uses, expiresAt }) => (
          <li key={id}>
            <span className="grow">
              <Secret label="Join link" value={url} />
              <small>
                Used {uses} {uses === 1 ? 'time' : 'times'}; valid until <Moment at={expiresAt} />
              </small>
            </span>
            <IconButton label="Revoke this join link" icon="cross" onClick={() => revoke.start(id)} />
          </li>
        ))}
      </ul>
      <Refused error={revoke.error} />
      <Form
        label="Create a join link"
        submit="Create a join link"
        look="plain"
        isBusy={create.isBusy}
        error={create.error}
        onSubmit={create.start}
      >
        <SelectField label="Valid for" name="duration" options={DURATIONS} defaultValue={WEEK} />
      </Form>
    </section>
  )
}
