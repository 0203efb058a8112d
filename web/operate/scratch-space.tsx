import { QueryClient, QueryClientProvider, useQueryClient } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { Link } from 'wouter'
import { useSpace } from '../../client/react.ts'
import { useAsk, useDo } from '../ask.ts'
import { SessionProvider, useSession } from '../session.tsx'
import { ActivityBar } from '../talk/activity-bar.tsx'
import { Announcer } from '../talk/announcer.tsx'
import { Composer } from '../talk/composer.tsx'
import { Timeline } from '../talk/timeline.tsx'
import { Boundary } from '../ui/boundary.tsx'
import { Button } from '../ui/button.tsx'
import { Form, SelectField, TextField, textIn } from '../ui/field.tsx'
import { Empty, Loading, Refused, Unanswered } from '../ui/notice.tsx'
import { HUMANS } from './operations.ts'
import { forgetToken, openScratch, type Scratch, startOver } from './scratch.ts'

interface Agent {
  id: string
  name: string
}

/** The name of the person as whom an operator tries agents. */
const OWN_NAME = 'Tester'
const NOBODY_YET = ''

/** A chat next to an agent's settings in which a person can try the agent. */
export function ScratchSpace({ agent }: { agent: Agent }) {
  const [scratch, setScratch] = useState<Scratch | null>(null)
  const around = useQueryClient()
  const queries = useMemo(() => new QueryClient({ defaultOptions: around.getDefaultOptions() }), [around])
  const again = useDo(async (old: Scratch) => setScratch(await startOver(old, agent)))
  const leave = () => {
    if (scratch !== null) forgetToken(scratch.token)
    setScratch(null)
  }
  return (
    <section className="scratch" aria-label="Try it">
      <header className="block-head">
        <h2>Try it</h2>
        {scratch !== null && (
          <Button look="quiet" icon="retry" isBusy={again.isBusy} onClick={() => again.start(scratch)}>
            Start over
          </Button>
        )}
      </header>
      <Refused error={again.error} />
      {scratch === null ? (
        <Begin agent={agent} onBegin={setScratch} />
      ) : (
        // Queries below this element belong to another viewer, so they must not share a cache with the page.
        <QueryClientProvider client={queries}>
          <SessionProvider key={scratch.token} token={scratch.token} onToken={leave} onRefused={leave}>
            <Talk key={scratch.spaceId} spaceId={scratch.spaceId} />
          </SessionProvider>
        </QueryClientProvider>
      )}
    </section>
  )
}

/** Asks as whom to post, because operators are not members of spaces. */
function Begin({ agent, onBegin }: { agent: Agent; onBegin(scratch: Scratch): void }) {
  const { connection, humanId: viewerId } = useSession()
  const ask = useAsk(HUMANS, { search: null, after: null })
  const people = (ask.data?.humans.edges ?? []).flatMap(({ node }) => (node.erasedAt === null ? [node] : []))
  const [chosen, setChosen] = useState<string | null>(null)
  const own = people.find(({ id }) => id === viewerId) ?? people.find(({ name }) => name === OWN_NAME)
  const humanId = chosen ?? own?.id ?? NOBODY_YET
  const begin = useDo(async (values: FormData) => {
    const name = textIn(values, 'name') ?? OWN_NAME
    onBegin(await openScratch(connection, agent, { humanId: humanId === NOBODY_YET ? null : humanId, name }))
  })
  if (ask.data === undefined) return <Unanswered what="people" ask={ask} />
  return (
    <Form
      label="Try it"
      submit={`Talk to ${agent.name}`}
      isBusy={begin.isBusy}
      error={begin.error}
      onSubmit={begin.start}
    >
      <p className="hint">
        A separate space with one person and {agent.name}. Saved settings apply from the next answer.
      </p>
      <SelectField
        label="Speak as"
        value={humanId}
        onChange={(event) => setChosen(event.target.value)}
        options={[...people.map(({ id, name }) => [id, name] as const), [NOBODY_YET, 'a new person']]}
      />
      {humanId === NOBODY_YET && (
        <TextField label="Name" name="name" required maxLength={200} defaultValue={OWN_NAME} />
      )}
    </Form>
  )
}

function Talk({ spaceId }: { spaceId: string }) {
  const { connection, humanId } = useSession()
  const state = useSpace(connection, spaceId)
  const { space, status, error, messages, activity } = state
  if (status === 'ended') {
    return (
      <Empty icon="space" title="The conversation has ended">
        <p>{error?.message}</p>
      </Empty>
    )
  }
  if (space === null) return <Loading what="the conversation" />
  return (
    <div className="scratch-talk">
      {messages.length === 0 ? (
        <Empty icon="space" title="Write a message">
          <p>The agent answers with its saved settings.</p>
        </Empty>
      ) : (
        <Boundary what="conversation">
          <Timeline
            state={state}
            loadEarlier={state.loadEarlier}
            loadUntil={state.loadUntil}
            keepNewest={state.keepNewest}
            target={null}
            onSeen={() => {}}
          />
        </Boundary>
      )}
      <Announcer messages={messages} ownId={humanId} />
      <ActivityBar activity={activity} />
      <Composer space={space} send={state.send} />
      <p className="hint scratch-foot">
        <Link href={`/spaces/${spaceId}`}>Open the space</Link>
      </p>
    </div>
  )
}
