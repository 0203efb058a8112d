import { Fragment } from 'react'
import { Link, useSearchParams } from 'wouter'
import { useAsk } from '../ask.ts'
import { MailStatus } from '../operate/mail-status.tsx'
import { HUMANS } from '../operate/operations.ts'
import { PageHead } from '../shell/page-head.tsx'
import { Avatar } from '../ui/avatar.tsx'
import { Boundary } from '../ui/boundary.tsx'
import { Button } from '../ui/button.tsx'
import { Field, SelectField, TextField } from '../ui/field.tsx'
import { Icon } from '../ui/icons.tsx'
import { Json } from '../ui/json.tsx'
import { Empty, Unanswered } from '../ui/notice.tsx'
import { More, type PageOfList, Pages } from '../ui/pages.tsx'
import { startOfDay } from '../ui/start-of-day.ts'
import { Status } from '../ui/status.tsx'
import { DayAndTime } from '../ui/time.tsx'
import {
  ACTIONS,
  type AuditEntry,
  addressOf,
  detailsOf,
  groupOfAction,
  hasName,
  idsIn,
  isId,
  isNoise,
  labelOf,
  type Named,
  nameOf,
  sentenceOf,
  withoutRepeats,
  wordsBefore,
  wordsOfAction,
  wordsOfValue,
} from './deeds.ts'
import { FailedJobs } from './failed-jobs.tsx'
import { AUDIT_LOG, NAMES } from './operations.ts'

const EVERY_MS = 5000

interface Filter {
  action: string | null
  actorId: string | null
  targetId: string | null
  /** The first moment, in ISO 8601. */
  from: string | null
  /** The moment after the last one, in ISO 8601. */
  to: string | null
}

function filterIn(sought: URLSearchParams): Filter {
  return {
    action: sought.get('action'),
    actorId: sought.get('actor'),
    targetId: sought.get('target'),
    from: startOfDay(sought.get('since'), 0),
    to: startOfDay(sought.get('until'), 1),
  }
}

/** The audit log, newest first. The filter is part of the page's URL. */
export function AuditPage() {
  const [sought, setSought] = useSearchParams()
  const filter = filterIn(sought)
  const set = (name: string, value: string) =>
    setSought((before) => {
      const next = new URLSearchParams(before)
      if (value === '') next.delete(name)
      else next.set(name, value)
      return next
    })
  const field = (name: string) => ({
    value: sought.get(name) ?? '',
    onChange: ({ target }: { target: { value: string } }) => set(name, target.value),
  })
  return (
    <>
      <PageHead
        title="Audit log"
        note="Who changed what, and what was refused, newest first. The content of messages and settings, and secrets such as API keys, are not recorded."
      />
      <div className="page-scroll">
        <MailStatus onlyTrouble />
        <FailedJobs />
        <div className="filters">
          <ActionField action={filter.action} onAction={(action) => set('action', action)} />
          <PersonField actorId={filter.actorId} onActor={(id) => set('actor', id)} />
          <TextField label="From" type="date" {...field('since')} />
          <TextField label="To" type="date" {...field('until')} />
          {filter.targetId !== null && (
            <Button icon="cross" onClick={() => set('target', '')}>
              Any target
            </Button>
          )}
        </div>
        <Pages key={JSON.stringify(filter)}>{(page) => <Entries filter={filter} page={page} />}</Pages>
      </div>
    </>
  )
}

function PersonField({ actorId, onActor }: { actorId: string | null; onActor(id: string): void }) {
  const people = useAsk(HUMANS, { search: null, after: null }).data?.humans.edges.map(({ node }) => node) ?? []
  const isListed = actorId === null || people.some(({ id }) => id === actorId)
  // An agent, or a person who is not among the first.
  const unlistedIds = isListed ? [] : [actorId]
  const [actor] = useAsk(NAMES, { ids: unlistedIds }, { enabled: !isListed }).data?.nodes ?? []
  const actorName = actor && 'name' in actor ? actor.name : 'the chosen actor'
  return (
    <SelectField
      label="Person"
      value={actorId ?? ''}
      onChange={({ target }) => onActor(target.value)}
      options={[
        ['', 'Anybody'],
        ...unlistedIds.map((id) => [id, actorName] as const),
        ...people.map(({ id, name }) => [id, name] as const),
      ]}
    />
  )
}

function ActionField({ action, onAction }: { action: string | null; onAction(action: string): void }) {
  const options = [...new Set([...ACTIONS, ...(action === null ? [] : [action])])]
    .map((name) => ({ name, words: wordsOfAction(name), group: groupOfAction(name) }))
    .sort((one, other) => one.words.localeCompare(other.words))
  const groups = [...Map.groupBy(options, ({ group }) => group)].sort(([one], [other]) => one.localeCompare(other))
  return (
    <Field label="Action">
      {(given) => (
        <select {...given} value={action ?? ''} onChange={(event) => onAction(event.target.value)}>
          <option value="">Any action</option>
          {groups.map(([group, members]) => (
            <optgroup key={group} label={group}>
              {members.map(({ name, words }) => (
                <option key={name} value={name}>
                  {words}
                </option>
              ))}
            </optgroup>
          ))}
        </select>
      )}
    </Field>
  )
}

function Entries({ filter, page }: { filter: Filter; page: PageOfList }) {
  const { after } = page
  const ask = useAsk(AUDIT_LOG, { ...filter, after }, after === null ? { everyMs: EVERY_MS } : {})
  const log = ask.data?.auditLog
  const entries = withoutRepeats((log?.edges ?? []).flatMap(({ node }) => (isNoise(node.action) ? [] : [node])))
  const ids = idsIn(entries)
  const names = useAsk(NAMES, { ids }, { enabled: ids.length > 0 })
  if (!log) return <Unanswered what="the log" ask={ask} />
  if (entries.length === 0 && after === null) {
    return (
      <Empty icon="record" title="No audit entries">
        <p>Every change by a person, a service or an agent is recorded here. Choose “Any action” to see all entries.</p>
      </Empty>
    )
  }
  const named = new Map((names.data?.nodes ?? []).flatMap((node) => (node === null ? [] : [[node.id, node] as const])))
  return (
    <>
      <ul className="rows">
        {entries.map((entry) => (
          <Boundary key={entry.id} what="entry" version={entry} text={() => entry.action}>
            <EntryRow entry={entry} named={named} />
          </Boundary>
        ))}
      </ul>
      <More page={page} pageInfo={log.pageInfo}>
        Older entries
      </More>
    </>
  )
}

type Names = ReadonlyMap<string, Named>

function EntryRow({ entry, named }: { entry: AuditEntry; named: Names }) {
  const { at, actor, serviceName, refused } = entry
  const { parts, usedPaths } = sentenceOf(entry)
  const who = actor ?? { id: 'operator', name: serviceName ?? 'operator', kind: 'HUMAN' }
  return (
    <li className={`deed ${refused ? 'refused-deed' : ''}`}>
      {serviceName === null ? (
        <Avatar entity={who} size={30} />
      ) : (
        <span className="deed-mark">
          <Icon name="wrench" />
        </span>
      )}
      <div className="grow">
        <p>
          {actor === null ? (
            <b>{serviceName ?? 'The operator'}</b>
          ) : (
            <Link href={`/audit?actor=${actor.id}`}>{actor.name}</Link>
          )}{' '}
          {parts.map((part, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a sentence do not change
            <Fragment key={at}>
              {typeof part === 'string' ? part : <Mentioned {...part} named={named.get(part.id)} />}
            </Fragment>
          ))}
        </p>
        <Details entry={entry} usedPaths={usedPaths} named={named} />
      </div>
      {refused && <Status of="REFUSED" />}
      <DayAndTime at={at} />
    </li>
  )
}

/** An object in a sentence: “the space Garden” with a link to its page; “a space” if it no longer exists. */
function Mentioned({ id, words, named }: { id: string; words: string; named: Named | undefined }) {
  if (named === undefined || !hasName(named)) return <span title={id}>{words}</span>
  const address = addressOf(id, named)
  const name = nameOf(id, named)
  return (
    <>
      {wordsBefore(id, named)}
      {address === null ? <b title={id}>{name}</b> : <Link href={address}>{name}</Link>}
    </>
  )
}

/** The name of an object, with a link to its page if there is one. */
function Target({ id, named }: { id: string; named: Names }) {
  const known = named.get(id)
  const address = addressOf(id, known)
  const words =
    known === undefined || !hasName(known) ? <code>{`${id.slice(0, 4)}…${id.slice(-6)}`}</code> : nameOf(id, known)
  return address === null ? <b title={id}>{words}</b> : <Link href={address}>{words}</Link>
}

/** The details that the sentence leaves out. Text values are not recorded; the names of their fields are in the folded part. */
function Details({ entry, usedPaths, named }: { entry: AuditEntry; usedPaths: readonly string[]; named: Names }) {
  const { action, targetId, detail } = entry
  const rest = detailsOf(entry).filter(({ path }) => !usedPaths.includes(path))
  return (
    <div className="deed-details">
      {rest.map(({ path, values }) => (
        <span key={path}>
          {labelOf(path)}{' '}
          {values.map((value, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the values of an entry do not change
            <Fragment key={at}>
              {at > 0 && ', '}
              {isId(value) ? <Target id={value} named={named} /> : wordsOfValue(path, value)}
            </Fragment>
          ))}
        </span>
      ))}
      <Json label="Details" value={{ action, targetId, detail }} isFolded />
    </div>
  )
}
