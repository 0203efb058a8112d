import type { ConsoleViewerQuery } from '../generated/graphql.ts'
import { type Api, type Connection, createApi } from './api.ts'
import { byId, element, form, labelled, notify } from './dom.ts'
import { createNewSpace } from './new-space.ts'
import { WHO_AM_I } from './operations.ts'
import { createOperatorPanel } from './operator.ts'
import { wordsOf } from './refusal.ts'
import {
  canGoBack,
  currentToken,
  goBackToOperator,
  goOnAs,
  rememberedSpace,
  rememberSpace,
  signInWith,
  signOut,
} from './session.ts'
import { createSpaceList } from './space-list.ts'
import { createSpaceView, type SpaceView } from './space-view.ts'

type Viewer = ConsoleViewerQuery['viewer']

const CONNECTION_WORDS: Record<Connection, string> = {
  connecting: 'Connecting…',
  live: 'Live',
  lost: 'Connection lost: trying again…',
}

const FOR_A_SERVICE = "This is a service's token, for programs that wake agents: it has no spaces to show."

/** Ends what is shown now; replaced by whatever is shown next. */
let leave = () => {}

function showSignIn(reason = ''): void {
  leave()
  leave = () => {}
  byId('identity').replaceChildren()
  byId('connection').textContent = ''
  if (reason !== '') notify(reason)
  const token = element('input', { type: 'password', required: true, autocomplete: 'off', spellcheck: 'false' })
  async function onSubmit(): Promise<void> {
    signInWith(token.value.trim())
    byId('notices').replaceChildren()
    await enter()
  }
  const where =
    'The admin token is what “npm start” printed the first time; it lies in .parley/admin-token. It stays in this tab.'
  const made = form(
    { label: 'Sign in', onSubmit, onError: (error) => notify(wordsOf(error)) },
    element('h2', {}, 'Sign in'),
    labelled('Token', token),
    element('p', { class: 'about' }, where),
    element('button', { class: 'primary' }, 'Sign in'),
  )
  made.classList.add('sign-in')
  byId('main').replaceChildren(made)
  token.focus()
}

/** Shows the console to whom the token of this tab stands for. */
async function enter(): Promise<void> {
  leave()
  const token = currentToken()
  if (token === null) return showSignIn()
  const api = createApi(token, (connection) => {
    byId('connection').textContent = CONNECTION_WORDS[connection]
    byId('connection').dataset['connection'] = connection
  })
  leave = () => api.close()
  try {
    const { viewer } = await api.run(WHO_AM_I, {})
    showIdentity(viewer)
    if (viewer.scope === 'SERVICE') byId('main').replaceChildren(element('p', { class: 'stage' }, FOR_A_SERVICE))
    else showConsole(api, viewer)
  } catch (error) {
    if (isUnknownToken(error)) signOut()
    showSignIn(wordsOf(error))
  }
}

function showIdentity({ scope, human, serviceName }: Viewer): void {
  const name = human?.name ?? (scope === 'ADMIN' ? 'the operator' : `the service ${serviceName ?? ''}`)
  const buttons = [
    element('button', { type: 'button', onclick: () => leaveAs(signOut) }, 'Sign out'),
    ...(canGoBack()
      ? [element('button', { type: 'button', onclick: () => leaveAs(goBackToOperator) }, 'Back to operator')]
      : []),
  ]
  byId('identity').replaceChildren(element('span', {}, 'You are ', element('strong', {}, name)), ...buttons)
}

function leaveAs(change: () => void): void {
  change()
  void enter()
}

function showConsole(api: Api, viewer: Viewer): void {
  const isHuman = viewer.scope === 'HUMAN'
  const stage = element('div', { class: 'stage' })
  const welcome =
    viewer.scope === 'ADMIN'
      ? createOperatorPanel(api, (token, spaceId) => {
          goOnAs(token)
          rememberSpace(spaceId ?? null)
          return enter()
        })
      : element('p', { class: 'about' }, 'Open a space, or make one.')
  let open: { id: string; view: SpaceView } | null = null

  function show(spaceId: string | null): void {
    rememberSpace(spaceId)
    open?.view.close()
    open = spaceId === null ? null : { id: spaceId, view: createSpaceView({ api, spaceId, isHuman }) }
    stage.replaceChildren(open?.view.element ?? welcome)
    spaces.select(spaceId)
  }

  const spaces = createSpaceList(api, {
    onOpen: show,
    onGone: (spaceId) => open?.id === spaceId && show(null),
    onEnd(error) {
      if (!isUnknownToken(error)) return notify(wordsOf(error))
      signOut()
      showSignIn(wordsOf(error))
    },
  })
  const side = element('aside', {}, spaces.element, createNewSpace(api, show))
  if (!isHuman) side.append(element('button', { type: 'button', onclick: () => show(null) }, 'Overview'))
  byId('main').replaceChildren(side, stage)
  leave = () => {
    open?.view.close()
    spaces.close()
    api.close()
  }
  show(rememberedSpace())
}

/** Whether the token is no good (any more): a GraphQL error that says so, or the socket's close code. */
function isUnknownToken(error: unknown): boolean {
  if (Array.isArray(error)) return error.some(({ extensions }) => extensions?.code === 'UNAUTHENTICATED')
  return error instanceof CloseEvent && error.code === 4403
}

void enter()
