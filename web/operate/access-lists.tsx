import { useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import type { ConsoleTokensQuery } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { Confirm } from '../ui/confirm.tsx'
import { Unanswered } from '../ui/notice.tsx'
import { More, type PageOfList, Pages } from '../ui/pages.tsx'
import { Moment } from '../ui/time.tsx'
import { DELETE_WEBHOOK, REVOKE_TOKEN, TOKENS, WEBHOOKS } from './operations.ts'

/** Lists tokens and webhooks, and revokes or deletes them. */
export function AccessLists() {
  return (
    <>
      <section className="block card">
        <h2>Tokens</h2>
        <p className="hint">
          Programs sign in with tokens, and so do people who were given one. A token works until you revoke it, or until
          it expires. Browsers that signed in with a link have no token: end their sessions in the settings of the
          person.
        </p>
        <Pages>{(page) => <Tokens page={page} humanId={null} />}</Pages>
      </section>
      <section className="block card">
        <h2>Webhooks</h2>
        <Pages>{(page) => <Webhooks page={page} />}</Pages>
      </section>
    </>
  )
}

/** Lists the tokens of a person, and revokes them. */
export function TokensOf({ human: { id, name } }: { human: { id: string; name: string } }) {
  return (
    <section className="block card" aria-label={`Tokens of ${name}`}>
      <h2>Tokens of {name}</h2>
      <Pages>{(page) => <Tokens page={page} humanId={id} />}</Pages>
    </section>
  )
}

function Tokens({ page, humanId }: { page: PageOfList; humanId: string | null }) {
  const { connection } = useSession()
  const ask = useAsk(TOKENS, { humanId, after: page.after })
  const [revokedId, setRevokedId] = useState<string | null>(null)
  const revoke = useDo(async (id: string) => {
    payloadOf((await connection.ask(REVOKE_TOKEN, { id })).revokeAccessToken, 'RevokeAccessTokenPayload')
    setRevokedId(null)
  })
  if (ask.data === undefined) return <Unanswered what="tokens" ask={ask} />
  const { accessTokens } = ask.data
  const tokens = (accessTokens?.edges ?? []).map(({ node }) => node).filter(({ revokedAt }) => revokedAt === null)
  const revoked = tokens.find(({ id }) => id === revokedId)
  return (
    <>
      {tokens.length === 0 && page.after === null && page.isLast && (
        <p className="hint">{humanId === null ? 'No valid tokens except the operator’s own.' : 'No valid tokens.'}</p>
      )}
      <ul className="rows">
        {tokens.map(({ id, scope, serviceName, human, createdAt, lastUsedAt, expiresAt }) => {
          const whose = ownerOf({ human, serviceName })
          return (
            <li key={id} className="plain-row">
              <span className="kind">{KINDS[scope]}</span>
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
                  {expiresAt !== null && (
                    <>
                      , expires <Moment at={expiresAt} />
                    </>
                  )}
                </span>
              </span>
              <Button look="danger" onClick={() => setRevokedId(id)} aria-label={`Revoke a token of ${whose}`}>
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
      <Confirm
        title={`Revoke the token of ${revoked === undefined ? '' : ownerOf(revoked)}?`}
        submit="Revoke"
        open={revoked !== undefined}
        onOpenChange={(open) => !open && setRevokedId(null)}
        isBusy={revoke.isBusy}
        error={revoke.error}
        onConfirm={() => revoked !== undefined && revoke.start(revoked.id)}
      >
        <p>{revoked !== undefined && wordsOfRevoking(revoked)} This cannot be undone.</p>
      </Confirm>
    </>
  )
}

const KINDS = { ADMIN: 'admin', HUMAN: 'person', SERVICE: 'service' }

type Owned = Pick<NonNullable<ConsoleTokensQuery['accessTokens']>['edges'][number]['node'], 'human' | 'serviceName'>

const ownerOf = ({ human, serviceName }: Owned) => human?.name ?? serviceName ?? 'an operator'

/** Returns who loses access when a token is revoked. */
function wordsOfRevoking({ human, serviceName }: Owned): string {
  if (human !== null) return `${human.name} is signed out wherever this token signed in.`
  if (serviceName !== null) return `The service ${serviceName} loses its access.`
  return 'The operator who uses this token is signed out. If you signed in with it, that is you.'
}

function Webhooks({ page }: { page: PageOfList }) {
  const { connection } = useSession()
  const ask = useAsk(WEBHOOKS, { after: page.after })
  const [deletedId, setDeletedId] = useState<string | null>(null)
  const remove = useDo(async (id: string) => {
    payloadOf((await connection.ask(DELETE_WEBHOOK, { id })).deleteWebhook, 'DeleteWebhookPayload')
    setDeletedId(null)
  })
  if (ask.data === undefined) return <Unanswered what="webhooks" ask={ask} />
  const { webhooks } = ask.data
  const hooks = (webhooks?.edges ?? []).map(({ node }) => node)
  const deleted = hooks.find(({ id }) => id === deletedId)
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
            <Button look="danger" onClick={() => setDeletedId(id)} aria-label={`Delete the webhook of ${serviceName}`}>
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
      <Confirm
        title={`Delete the webhook of ${deleted?.serviceName ?? ''}?`}
        submit="Delete"
        open={deleted !== undefined}
        onOpenChange={(open) => !open && setDeletedId(null)}
        isBusy={remove.isBusy}
        error={remove.error}
        onConfirm={() => deleted !== undefined && remove.start(deleted.id)}
      >
        <p>
          {deleted?.serviceName} can no longer wake {deleted?.agent.name} with this address. This cannot be undone.
        </p>
      </Confirm>
    </>
  )
}
