import { useLocation } from 'wouter'
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
      <div className="page-scroll">
        <p>
          {isHuman
            ? 'You become a member, and the other members see your name. You can leave at any time.'
            : 'Only people can join a space. Sign in as a person, and open the link again.'}
        </p>
        <Refused error={join.error} />
        <Button look="primary" disabled={!isHuman} isBusy={join.isBusy} onClick={() => join.start(null)}>
          Join
        </Button>
      </div>
    </>
  )
}
