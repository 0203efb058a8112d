import { Link, useLocation } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { graphql } from '../graphql.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { Empty, Refused, Unanswered } from '../ui/notice.tsx'
import { PageHead } from './page-head.tsx'

const JOINABLE_SPACE = graphql(`
  query ConsoleJoinableSpace($code: String!) {
    joinableSpace(code: $code) { name inviterName memberCount spaceId }
  }
`)

const JOIN = graphql(`
  mutation ConsoleJoinSpace($code: String!) {
    joinSpace(input: { code: $code }) {
      __typename
      ... on JoinSpacePayload { space { id } }
      ... on Error { message code }
    }
  }
`)

/** Describes the space of a join link. Joins only after a click, so that programs that preview the link do not join. */
export function JoinPage({ code }: { code: string }) {
  const { isHuman } = useSession()
  return (
    <>
      <PageHead title="Join a space" />
      <div className="page-scroll narrow-page">
        {isHuman ? (
          <Joining code={code} />
        ) : (
          <Empty icon="link" title="Only people can join a space">
            <p>Sign out, sign in as a person, and open the link again.</p>
          </Empty>
        )}
      </div>
    </>
  )
}

function Joining({ code }: { code: string }) {
  const { connection } = useSession()
  const [, go] = useLocation()
  const ask = useAsk(JOINABLE_SPACE, { code })
  const join = useDo(async (_: null) => {
    const { space } = payloadOf((await connection.ask(JOIN, { code })).joinSpace, 'JoinSpacePayload')
    go(`/spaces/${space.id}`, { replace: true })
  })
  if (ask.data === undefined) return <Unanswered what="the link" ask={ask} />
  const space = ask.data.joinableSpace
  if (space === null)
    return (
      <Empty icon="link" title="This link does not work">
        <p>The link has expired, was revoked, or is incomplete. Ask the person who sent it for a new one.</p>
        <Link className="button" href="/">
          Go to your spaces
        </Link>
      </Empty>
    )
  const { name, inviterName, memberCount, spaceId } = space
  if (spaceId !== null)
    return (
      <section className="block card">
        <h2 dir="auto">{name}</h2>
        <p>You are already a member of this space.</p>
        <div className="form-end">
          <Link className="button primary" href={`/spaces/${spaceId}`} replace>
            Open the space
          </Link>
        </div>
      </section>
    )
  return (
    <section className="block card">
      <h2 dir="auto">Join {name}?</h2>
      <p>
        <b dir="auto">{inviterName ?? 'An admin'}</b> created this link.{' '}
        {memberCount === 1 ? 'The space has 1 member.' : `The space has ${memberCount} members.`} If you join:
      </p>
      <ul className="next">
        <li>You can read all messages of the space, including earlier ones, and write to its people and agents.</li>
        <li>The other members see your name.</li>
        <li>You can leave at any time.</li>
      </ul>
      <Refused error={join.error} />
      <div className="form-end">
        <Link className="button" href="/">
          Not now
        </Link>
        <Button look="primary" isBusy={join.isBusy} onClick={() => join.start(null)}>
          Join
        </Button>
      </div>
    </section>
  )
}
