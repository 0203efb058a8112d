import { lazy, type ReactNode, Suspense, useCallback, useEffect, useState } from 'react'
import { Redirect, Route, Switch, useLocation } from 'wouter'
import { useLive } from '../client/react.ts'
import { useNotifications } from './decide/notifications.ts'
import { addressOf } from './location.ts'
import { Notices } from './notify/notices.tsx'
import { SessionProvider, signInWith, useCredential, useSession } from './session.tsx'
import { signInLinkPath, startLinkPath } from './shell/link-paths.ts'
import { PageHead, SideBarContext } from './shell/page-head.tsx'
import { takeReturnPath } from './shell/return-path.ts'
import { SideBar } from './shell/side-bar.tsx'
import { SpacePage } from './talk/space-page.tsx'
import { OutboxProvider } from './talk/unsent-list.tsx'
import { Boundary } from './ui/boundary.tsx'
import { Button } from './ui/button.tsx'
import { Empty, Loading } from './ui/notice.tsx'
import { Time } from './ui/time.tsx'

// The first load does not include these pages, because few people open them, and nobody opens them first.
const WaitingPage = lazy(() => import('./decide/waiting-page.tsx').then(({ WaitingPage: page }) => ({ default: page })))
const AuditPage = lazy(() => import('./inspect/audit-page.tsx').then(({ AuditPage: page }) => ({ default: page })))
const RunPage = lazy(() => import('./inspect/run-page.tsx').then(({ RunPage: page }) => ({ default: page })))
const RunsPage = lazy(() => import('./inspect/runs-page.tsx').then(({ RunsPage: page }) => ({ default: page })))
const WhyPage = lazy(() => import('./inspect/why-page.tsx').then(({ WhyPage: page }) => ({ default: page })))
const UsagePage = lazy(() => import('./inspect/usage-page.tsx').then(({ UsagePage: page }) => ({ default: page })))
const AgentsPage = lazy(() => import('./operate/agents-page.tsx').then(({ AgentsPage: page }) => ({ default: page })))
const PeoplePage = lazy(() => import('./operate/people-page.tsx').then(({ PeoplePage: page }) => ({ default: page })))
const PersonPage = lazy(() => import('./operate/person-page.tsx').then(({ PersonPage: page }) => ({ default: page })))
const StartPage = lazy(() => import('./operate/start-page.tsx').then(({ StartPage: page }) => ({ default: page })))
const AgentPage = lazy(() => import('./operate/agent-page.tsx').then(({ AgentPage: page }) => ({ default: page })))
const NoPage = lazy(() => import('./shell/no-page.tsx').then(({ NoPage: page }) => ({ default: page })))
const NotificationsPage = lazy(() =>
  import('./notify/notifications-page.tsx').then(({ NotificationsPage: page }) => ({ default: page })),
)
const JoinPage = lazy(() => import('./shell/join.tsx').then(({ JoinPage: page }) => ({ default: page })))
const SignIn = lazy(() => import('./shell/sign-in.tsx').then(({ SignIn: page }) => ({ default: page })))
const SignInLink = lazy(() => import('./shell/sign-in-link.tsx').then(({ SignInLink: page }) => ({ default: page })))
const StartLink = lazy(() => import('./shell/start-link.tsx').then(({ StartLink: page }) => ({ default: page })))
const ModelsPage = lazy(() => import('./operate/models-page.tsx').then(({ ModelsPage: page }) => ({ default: page })))
const Palette = lazy(() => import('./shell/palette.tsx').then(({ Palette: dialog }) => ({ default: dialog })))
const NewSpace = lazy(() => import('./talk/new-space.tsx').then(({ NewSpace: dialog }) => ({ default: dialog })))
const SearchPage = lazy(() => import('./search/search-page.tsx').then(({ SearchPage: page }) => ({ default: page })))
const ProfilePage = lazy(() =>
  import('./profile/profile-page.tsx').then(({ ProfilePage: page }) => ({ default: page })),
)

export function App() {
  const [credential, setCredential] = useCredential()
  const [refused, setRefused] = useState<'token' | 'session' | null>(null)
  const [, go] = useLocation()
  const onToken = useCallback(
    (next: string | null) => {
      setRefused(null)
      setCredential(next === null ? null : { token: next })
      if (next === null) go('/')
    },
    [go, setCredential],
  )
  const signIn = (token: string) => {
    setRefused(null)
    void signInWith(token).then(setCredential)
  }
  const onRefused = useCallback(() => {
    setRefused(credential === 'cookie' ? 'session' : 'token')
    setCredential(null)
  }, [credential, setCredential])
  const startPath = startLinkPath()
  if (startPath !== null) {
    return (
      <Suspense>
        <StartLink
          path={startPath}
          onToken={(next) => {
            go('/', { replace: true })
            signIn(next)
          }}
        />
      </Suspense>
    )
  }
  const linkPath = signInLinkPath()
  if (linkPath !== null)
    return (
      <Suspense>
        <SignInLink
          path={linkPath}
          onSignedIn={([spaceId]) => {
            setRefused(null)
            go(spaceId === undefined ? takeReturnPath() : `/spaces/${spaceId}`, { replace: true })
            setCredential('cookie')
          }}
        />
      </Suspense>
    )
  if (credential === 'unknown')
    return (
      <main>
        <Loading what="your spaces" />
      </main>
    )
  if (credential === null)
    return (
      <Suspense>
        <SignIn onToken={signIn} refused={refused} />
      </Suspense>
    )
  const token = credential === 'cookie' ? null : credential.token
  return (
    <SessionProvider key={token} token={token} onToken={onToken} onRefused={onRefused}>
      <OutboxProvider>
        <Shell />
      </OutboxProvider>
    </SessionProvider>
  )
}

/** The sidebar and the current page. On a narrow screen the sidebar opens on request. */
function Shell() {
  const { viewer } = useSession()
  const [isSideOpen, setSideOpen] = useState(false)
  const [isSearching, setSearching] = useState(false)
  const [isMaking, setMaking] = useState(false)
  /** The person to choose at first in the form for a new space; null for none. */
  const [person, setPerson] = useState<{ id: string; name: string } | null>(null)
  const makeSpace = (chosen: typeof person) => {
    setPerson(chosen)
    setMaking(true)
  }
  const [address] = useLocation()
  useNotifications(viewer)
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key === 'Escape') setSideOpen(false)
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey)) return
      event.preventDefault()
      setSearching(true)
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [])
  if (viewer.viewer === null) {
    return (
      <main>
        <LostConnection />
        <Loading what="your spaces" />
      </main>
    )
  }
  return (
    <SideBarContext value={{ open: () => setSideOpen(true) }}>
      <div className={`shell ${isSideOpen ? 'side-open' : ''}`}>
        <a className="skip" href="#page">
          Skip to the page
        </a>
        <Boundary what="side bar" version={viewer}>
          <SideBar
            onSearch={() => setSearching(true)}
            onNewSpace={() => makeSpace(null)}
            onGo={() => setSideOpen(false)}
          />
        </Boundary>
        {isSideOpen && (
          <button
            type="button"
            className="side-shade"
            aria-label="Close the sidebar"
            onClick={() => setSideOpen(false)}
          />
        )}
        <main id="page" className="page">
          <LostConnection />
          <ActingAs />
          <Boundary what="page" version={address}>
            <Suspense fallback={<Loading what="the page" />}>
              <Pages onNewSpace={() => makeSpace(null)} />
            </Suspense>
          </Boundary>
        </main>
        <Notices />
        <Opened isOpen={isSearching}>
          <Palette open={isSearching} onOpenChange={setSearching} onNewSpace={makeSpace} />
        </Opened>
        <Opened isOpen={isMaking}>
          <NewSpace open={isMaking} onOpenChange={setMaking} person={person} onMade={() => setSideOpen(false)} />
        </Opened>
      </div>
    </SideBarContext>
  )
}

/** Loads a dialog when it is opened for the first time. Afterwards the dialog stays, so that it can close gradually. */
function Opened({ isOpen, children }: { isOpen: boolean; children: ReactNode }) {
  const [wasOpen, setWasOpen] = useState(isOpen)
  if (isOpen && !wasOpen) setWasOpen(true)
  if (!isOpen && !wasOpen) return null
  return (
    <Boundary what="dialog" version={isOpen}>
      <Suspense>{children}</Suspense>
    </Boundary>
  )
}

/** Shown on every page while the connection is lost, because live data may be out of date. */
function LostConnection() {
  const { connection } = useSession()
  const isLost = useLive(connection) === 'lost'
  return (
    <div role="status">
      {isLost && (
        <p className="lost">
          <span className="pulse" aria-hidden="true" /> Connection lost. This page may be out of date. Reconnecting…
        </p>
      )}
    </div>
  )
}

/** Shown while an admin acts as somebody, until the token ends. */
function ActingAs() {
  const { viewer, actingUntil, isActedByOperator, goBack } = useSession()
  useEffect(() => {
    if (actingUntil === null) return
    const timer = setTimeout(goBack, Math.max(0, Date.parse(actingUntil) - Date.now()))
    return () => clearTimeout(timer)
  }, [actingUntil, goBack])
  if (actingUntil === null) return null
  const { name } = viewer.viewer?.human ?? {}
  return (
    <p className="lost acting" role="status">
      <span className="grow">
        <b>
          You act as {name} until <Time at={actingUntil} />.
        </b>{' '}
        <span className="acting-more">
          {isActedByOperator
            ? `Your messages look like ${name}’s own, but the audit log records them, and ${name} sees this session under Profile.`
            : `Your messages show your name next to ${name}’s, and ${name} sees this session under Profile.`}
        </span>
      </span>
      <Button look="quiet" onClick={goBack}>
        Stop
      </Button>
    </p>
  )
}

function Pages({ onNewSpace }: { onNewSpace(): void }) {
  const { isAdmin } = useSession()
  return (
    <Switch>
      <Route path="/spaces/:id">{({ id }) => <SpacePage key={id} spaceId={id} />}</Route>
      <Route path="/join/:code">{({ code }) => <JoinPage code={code} />}</Route>
      <Route path="/search">
        <SearchPage />
      </Route>
      <Route path="/waiting">
        <WaitingPage />
      </Route>
      <Route path="/notifications">
        <NotificationsPage />
      </Route>
      <Route path="/profile">
        <ProfilePage />
      </Route>
      <Route path="/agents">
        <AgentsPage />
      </Route>
      <Route path="/agents/:id/:tab?">{({ id, tab }) => <AgentPage key={id} agentId={id} tab={tab} />}</Route>
      <Route path="/runs">
        <RunsPage />
      </Route>
      <Route path="/runs/:id">{({ id }) => <RunPage key={id} runId={id} />}</Route>
      <Route path="/why/:id">{({ id }) => <WhyPage key={id} id={id} />}</Route>
      {isAdmin && (
        <Route path="/people">
          <PeoplePage />
        </Route>
      )}
      {isAdmin && <Route path="/people/:id">{({ id }) => <PersonPage key={id} id={id} />}</Route>}
      {isAdmin && (
        <Route path="/models">
          <ModelsPage />
        </Route>
      )}
      {isAdmin && (
        <Route path="/usage">
          <UsagePage />
        </Route>
      )}
      {isAdmin && (
        <Route path="/audit">
          <AuditPage />
        </Route>
      )}
      {isAdmin && (
        <Route path="/start">
          <StartPage />
        </Route>
      )}
      <Route path="/">
        <Home onNewSpace={onNewSpace} />
      </Route>
      <Route>
        <NoPage />
      </Route>
    </Switch>
  )
}

/** Redirects to the space with the latest activity; on an empty server, the operator gets the start page. */
function Home({ onNewSpace }: { onNewSpace(): void }) {
  const { viewer, isAdmin } = useSession()
  const [first] = viewer.spaces
  if (viewer.viewer?.scope === 'SERVICE') {
    return (
      <>
        <PageHead title={`Signed in as the service ${viewer.viewer.serviceName}`} />
        <Empty icon="wrench" title="Services have no spaces">
          <p>
            Services trigger agents and submit tool results through the API: see{' '}
            <a href={addressOf('/graphql')}>GraphiQL</a>.
          </p>
        </Empty>
      </>
    )
  }
  if (first !== undefined) return <Redirect to={`/spaces/${first.id}`} replace />
  if (!viewer.hasAllSpaces) return <Loading what="your spaces" />
  if (isAdmin) return <Redirect to="/start" replace />
  return (
    <>
      <PageHead title="Welcome" />
      <Empty icon="space" title="You are not a member of any space yet">
        <p>
          A space is a conversation between people and agents. Create one and choose its members, or ask someone for a
          join link to their space.
        </p>
        <Button look="primary" icon="plus" onClick={onNewSpace}>
          Create a space
        </Button>
      </Empty>
    </>
  )
}
