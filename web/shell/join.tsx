import { Link, useLocation } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import { useDo } from '../ask.ts'
import { graphql } from '../graphql.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { Refused } from '../ui/notice.tsx'
import { PageHead } from './page-head.tsx'

const JOIN = graphql(`
  mutation ConsoleJoinSpace($code: String!) {
    joinSpace(input: { code: $code }) {
      __typename
      ... on JoinSpacePayload { space { id } }
      ... on Error { message code }
    }
  }
`)

/** Joins a space only after a click, so that programs that preview the link do not. */
export function JoinPage({ code }: { code: string }) {
  const { connection, isHuman } = useSession()
  const [, go] = useLocation()
  const join = useDo(async (_: null) => {
    const { space } = payloadOf((await connection.ask(JOIN, { code })).joinSpace, 'JoinSpacePayload')
    go(`/spaces/${space.id}`, { replace: true })
  })
  return (
    <>
      <PageHead title="Join a space" />
      <div className="page-scroll narrow-page">
        <section className="block card">
          <h2>You were given a link to a space</h2>
          {isHuman ? (
            <>
              <p>If you join:</p>
              <ul className="next">
                <li>
                  You can read all messages of the space, including earlier ones, and write to its people and agents.
                </li>
                <li>The other members see your name.</li>
                <li>You can leave at any time.</li>
              </ul>
              <p className="hint">The space opens as soon as you have joined.</p>
              {join.error?.code === 'CONFLICT' ? (
                <p role="alert">You are already a member of this space. Find it in the list of your spaces.</p>
              ) : (
                <Refused error={join.error} />
              )}
              <div className="form-end">
                <Link className="button" href="/">
                  Not now
                </Link>
                <Button look="primary" isBusy={join.isBusy} onClick={() => join.start(null)}>
                  Join
                </Button>
              </div>
            </>
          ) : (
            <p>Only people can join a space. Sign out, sign in as a person, and open the link again.</p>
          )}
        </section>
      </div>
    </>
  )
}
