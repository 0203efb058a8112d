import { payloadOf } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { graphql } from '../graphql.ts'
import { Secret } from '../operate/secret.tsx'
import { useSession } from '../session.tsx'
import { Button, IconButton } from '../ui/button.tsx'
import { Refused } from '../ui/notice.tsx'
import { Moment } from '../ui/time.tsx'

const JOIN_LINKS = graphql(`
  query ConsoleJoinLinks($spaceId: ID!) {
    space(id: $spaceId) { id joinLinks { id url uses maxUses expiresAt } }
  }
`)

const CREATE_JOIN_LINK = graphql(`
  mutation ConsoleCreateJoinLink($spaceId: ID!) {
    createJoinLink(input: { spaceId: $spaceId }) {
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

/** The links with which people join a space by themselves. */
export function JoinLinks({ spaceId }: { spaceId: string }) {
  const { connection } = useSession()
  const { data } = useAsk(JOIN_LINKS, { spaceId })
  const create = useDo(async (_: null) => {
    payloadOf((await connection.ask(CREATE_JOIN_LINK, { spaceId })).createJoinLink, 'CreateJoinLinkPayload')
  })
  const revoke = useDo(async (id: string) => {
    payloadOf((await connection.ask(REVOKE_JOIN_LINK, { id })).revokeJoinLink, 'RevokeJoinLinkPayload')
  })
  const links = data?.space?.joinLinks ?? []
  return (
    <section className="block">
      <h3>Join links</h3>
      {links.length === 0 && <p className="hint">People who open a join link and sign in can become members.</p>}
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
      <Button icon="plus" isBusy={create.isBusy} onClick={() => create.start(null)}>
        Create a join link
      </Button>
      <Refused error={create.error ?? revoke.error} />
    </section>
  )
}
