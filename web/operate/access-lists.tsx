import { payloadOf } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { Refused, Unanswered } from '../ui/notice.tsx'
import { More, type PageOfList, Pages } from '../ui/pages.tsx'
import { Moment } from '../ui/time.tsx'
import { DELETE_WEBHOOK, REVOKE_TOKEN, TOKENS, WEBHOOKS } from './operations.ts'

/** Lists tokens and webhooks, and revokes or deletes them. */
export function AccessLists() {
  return (
    <>
      <section className="block card">
        <h2>Tokens</h2>
        <Pages>{(page) => <Tokens page={page} />}</Pages>
      </section>
      <section className="block card">
        <h2>Webhooks</h2>
        <Pages>{(page) => <Webhooks page={page} />}</Pages>
      </section>
    </>
  )
}

function Tokens({ page }: { page: PageOfList }) {
  const { connection } = useSession()
  const ask = useAsk(TOKENS, { after: page.after })
  const revoke = useDo(async (id: string) =>
    payloadOf((await connection.ask(REVOKE_TOKEN, { id })).revokeAccessToken, 'RevokeAccessTokenPayload'),
  )
  if (ask.data === undefined) return <Unanswered what="tokens" ask={ask} />
  const { accessTokens } = ask.data
  const tokens = (accessTokens?.edges ?? []).map(({ node }) => node).filter(({ revokedAt }) => revokedAt === null)
  return (
    <>
      {tokens.length === 0 && page.after === null && page.isLast && (
        <p className="hint">No valid tokens except the operator’s own.</p>
      )}
      <ul className="rows">
        {tokens.map(({ id, scope, serviceName, human, createdAt, lastUsedAt }) => {
          const whose = human?.name ?? serviceName ?? 'an operator'
          return (
            <li key={id} className="plain-row">
              <span className="kind">{scope.toLowerCase()}</span>
              <span className="grow">
                <b>{whose}</b>{' '}
                <span className="note">
                  created <Moment at={createdAt} />,{' '}
                  {lastUsedAt === null ? (
                    'never used'
                  ) : (
                    <>
                      used <Moment at={lastUsedAt} />
                    </>
                  )}
                </span>
              </span>
              <Button look="danger" onClick={() => revoke.start(id)} aria-label={`Revoke a token of ${whose}`}>
                Revoke
              </Button>
            </li>
          )
        })}
      </ul>
      {accessTokens && (
        <More page={page} pageInfo={accessTokens.pageInfo}>
          More tokens
        </More>
      )}
      <Refused error={revoke.error} />
    </>
  )
}

function Webhooks({ page }: { page: PageOfList }) {
  const { connection } = useSession()
  const ask = useAsk(WEBHOOKS, { after: page.after })
  const remove = useDo(async (id: string) =>
    payloadOf((await connection.ask(DELETE_WEBHOOK, { id })).deleteWebhook, 'DeleteWebhookPayload'),
  )
  if (ask.data === undefined) return <Unanswered what="webhooks" ask={ask} />
  const { webhooks } = ask.data
  const hooks = (webhooks?.edges ?? []).map(({ node }) => node)
  return (
    <>
      {hooks.length === 0 && <p className="hint">None yet. Create one on an agent’s page.</p>}
      <ul className="rows">
        {hooks.map(({ id, url, serviceName, agent, lastUsedAt }) => (
          <li key={id} className="plain-row">
            <span className="grow">
              <b>{serviceName}</b> wakes {agent.name}
              <span className="note">
                {' '}
                {lastUsedAt === null ? (
                  'never used'
                ) : (
                  <>
                    used <Moment at={lastUsedAt} />
                  </>
                )}
              </span>
              <code className="note"> {url}</code>
            </span>
            <Button look="danger" onClick={() => remove.start(id)} aria-label={`Delete the webhook of ${serviceName}`}>
              Delete
            </Button>
          </li>
        ))}
      </ul>
      {webhooks && (
        <More page={page} pageInfo={webhooks.pageInfo}>
          More webhooks
        </More>
      )}
      <Refused error={remove.error} />
    </>
  )
}
