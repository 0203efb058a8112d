import { type ReactNode, useState } from 'react'
import { Link, useSearchParams } from 'wouter'
import type { ConsoleSearchQuery, ConsoleSearchQueryVariables, SearchOrder } from '../../generated/graphql.ts'
import { useAsk } from '../ask.ts'
import { useSpacesOfAgents, useWordsBelow } from '../operate/spaces-of-agents.ts'
import { useSession } from '../session.tsx'
import { PageHead } from '../shell/page-head.tsx'
import { AGENT_CHOICES, PEOPLE_CHOICES } from '../talk/operations.ts'
import { Avatar } from '../ui/avatar.tsx'
import { CheckField, SelectField, TextField } from '../ui/field.tsx'
import { Icon } from '../ui/icons.tsx'
import { Empty, Unanswered } from '../ui/notice.tsx'
import { More, type PageOfList, Pages } from '../ui/pages.tsx'
import { startOfDay } from '../ui/start-of-day.ts'
import { Moment } from '../ui/time.tsx'
import { SEARCH, SEARCHED_SPACE } from './operations.ts'
import { Snippet } from './snippet.tsx'
import { usePaused } from './use-paused.ts'

type Hit = ConsoleSearchQuery['search']['edges'][number]['node']
type Sought = Omit<ConsoleSearchQueryVariables, 'first' | 'after'>

const PAGE_SIZE = 20
const LONGEST_QUERY = 500
const ORDERS = [
  ['BEST', 'Best match first'],
  ['NEWEST', 'Newest first'],
] as const

/** Finds messages and files. The URL contains the query and the filters, so that a search can be bookmarked and shared. */
export function SearchPage() {
  const [params, setParams] = useSearchParams()
  const [text, setText] = useState(params.get('q') ?? '')
  const set = (name: string, value: string) =>
    setParams(
      (before) => {
        const next = new URLSearchParams(before)
        if (value === '') next.delete(name)
        else next.set(name, value)
        return next
      },
      { replace: true },
    )
  const sought = soughtIn(usePaused(params.toString()))
  return (
    <>
      <PageHead title="Search" note="Messages and files in your spaces" />
      <div className="page-scroll">
        <search className="block">
          <input
            type="search"
            className="search"
            aria-label="Words to find"
            placeholder="Words to find"
            // biome-ignore lint/a11y/noAutofocus: people open the page to enter a search
            autoFocus
            maxLength={LONGEST_QUERY}
            value={text}
            onChange={({ target }) => {
              setText(target.value)
              set('q', target.value)
            }}
          />
          <NarrowFold params={params}>
            <Filters params={params} onSet={set} />
          </NarrowFold>
        </search>
        {sought.query.trim() === '' ? (
          <Empty icon="search" title="Enter what you are looking for">
            <p>All words must occur, in any order. Words in quotation marks must follow each other.</p>
          </Empty>
        ) : (
          <section aria-label="Results" className="hits" key={JSON.stringify(sought)}>
            <Pages>{(page) => <Hits sought={sought} page={page} />}</Pages>
          </section>
        )}
      </div>
    </>
  )
}

function soughtIn(address: string): Sought {
  const params = new URLSearchParams(address)
  const files = params.get('files')
  return {
    query: params.get('q') ?? '',
    spaceId: params.get('space'),
    senderId: params.get('from'),
    hasFile: files === null ? null : files === 'yes',
    since: startOfDay(params.get('since'), 0),
    until: startOfDay(params.get('until'), 1),
    order: (params.get('order') === 'NEWEST' ? 'NEWEST' : 'BEST') satisfies SearchOrder,
  }
}

const FILTERS = ['space', 'from', 'since', 'until', 'order', 'files']
const NARROW = '(max-width: 600px)'

/** On a phone, the filters are closed at first, so that the first results are in view. */
function NarrowFold({ params, children }: { params: URLSearchParams; children: ReactNode }) {
  const [isNarrow] = useState(() => matchMedia(NARROW).matches)
  const count = FILTERS.filter((name) => params.has(name)).length
  if (!isNarrow) return children
  return (
    <details>
      <summary>Filters{count > 0 && ` (${count})`}</summary>
      {children}
    </details>
  )
}

interface FiltersProps {
  params: URLSearchParams
  onSet(name: string, value: string): void
}

function Filters({ params, onSet }: FiltersProps) {
  const { viewer } = useSession()
  const spaceId = params.get('space') ?? ''
  const senders = useSenders(spaceId, params.get('from') ?? '')
  const field = (name: string) => ({
    value: params.get(name) ?? '',
    onChange: ({ target }: { target: { value: string } }) => onSet(name, target.value),
  })
  return (
    <fieldset className="filters">
      <legend className="sr-only">Filters</legend>
      <SelectField
        label="Space"
        options={[['', 'All spaces'], ...viewer.spaces.map(({ id, name }) => [id, name] as const)]}
        {...field('space')}
      />
      <SelectField label="Sender" options={[['', 'Anybody'], ...senders]} {...field('from')} />
      <TextField label="From" type="date" {...field('since')} />
      <TextField label="To" type="date" {...field('until')} />
      <SelectField
        label="Order"
        options={ORDERS}
        value={params.get('order') ?? 'BEST'}
        onChange={({ target }) => onSet('order', target.value === 'BEST' ? '' : target.value)}
      />
      <CheckField
        label="With a file"
        checked={params.get('files') === 'yes'}
        onChange={({ target }) => onSet('files', target.checked ? 'yes' : '')}
      />
    </fieldset>
  )
}

/**
 * The members of the space, or else all people and the agents in spaces of the viewer; agents with equal names with their
 * spaces. The chosen sender is always included.
 */
function useSenders(spaceId: string, chosenId: string): (readonly [id: string, words: string])[] {
  const isEverywhere = spaceId === ''
  const space = useAsk(SEARCHED_SPACE, { id: spaceId }, { enabled: !isEverywhere })
  const people = useAsk(PEOPLE_CHOICES, { search: null }, { enabled: isEverywhere })
  const agents = useAsk(AGENT_CHOICES, { search: null }, { enabled: isEverywhere })
  const spacesOf = useSpacesOfAgents({ enabled: isEverywhere })
  const nearAgents = (agents.data?.agents.edges ?? []).filter(
    ({ node: { id } }) => id === chosenId || spacesOf === undefined || spacesOf.get(id).length > 0,
  )
  const everybody = [...(people.data?.humans.edges ?? []), ...nearAgents].map(({ node }) => node)
  const found: readonly { id: string; name: string; kind?: string }[] = isEverywhere
    ? everybody
    : (space.data?.space?.members ?? [])
  const placeOf = useWordsBelow(found.map(({ kind = 'HUMAN', name }) => ({ kind, name })))
  return found.map(({ id, name }) => {
    const place = placeOf({ id, name })
    return [id, place === '' ? name : `${name} · ${place}`]
  })
}

function Hits({ sought, page }: { sought: Sought; page: PageOfList }) {
  const { after } = page
  const ask = useAsk(SEARCH, { ...sought, first: PAGE_SIZE, after })
  if (ask.data === undefined) return <Unanswered what="what was found" ask={ask} />
  const { edges, pageInfo } = ask.data.search
  if (edges.length === 0 && after === null)
    return (
      <Empty icon="search" title="Nothing found">
        <p>Try fewer words, the beginning of a word, or other filters.</p>
      </Empty>
    )
  return (
    <>
      <ul className="rows">
        {edges.map(({ node }) => (
          <li key={`${node.message.id} ${node.file?.id}`}>
            <HitLine hit={node} />
          </li>
        ))}
      </ul>
      <More page={page} pageInfo={pageInfo}>
        More results
      </More>
    </>
  )
}

function HitLine({ hit: { snippet, matches, file, message } }: { hit: Hit }) {
  const { id, sender, space, createdAt } = message
  return (
    <Link href={`/spaces/${space.id}#${id}`} className="row-link hit">
      <Avatar entity={sender} size={32} />
      <span className="grow">
        <span className="hit-head">
          <b>{sender.name}</b>
          <span className="hit-place">
            in {space.name}, <Moment at={createdAt} />
          </span>
        </span>
        {file !== null && (
          <span className="hit-file">
            <Icon name="clip" size={14} /> {file.name}
          </span>
        )}
        <Snippet text={snippet} matches={matches} />
      </span>
    </Link>
  )
}
