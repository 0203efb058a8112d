import { useId, useState } from 'react'
import { useLocation } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import type { Routing } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { useMayInvite } from '../operate/invite-by-mail.tsx'
import { useWordsBelow } from '../operate/spaces-of-agents.ts'
import { useSession } from '../session.tsx'
import { Avatar } from '../ui/avatar.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { CheckField, Form, SelectField, TextField, textIn } from '../ui/field.tsx'
import { WHAT_IT_MEANS } from './confidence.tsx'
import { useByName } from './equal-names.ts'
import { AGENT_CHOICES, CREATE_SPACE, PEOPLE_CHOICES } from './operations.ts'
import { ROUTINGS } from './space-details.tsx'

interface NewSpaceProps {
  open: boolean
  onOpenChange(open: boolean): void
  /** The person who is chosen at first, with whom the viewer does not share a space for two yet. */
  person?: { id: string; name: string } | null
  /** Called after the new space has been opened. */
  onMade(): void
}

export function NewSpace({ open, onOpenChange, ...props }: NewSpaceProps) {
  return (
    <Dialog title="New space" open={open} onOpenChange={onOpenChange}>
      <NewSpaceForm {...props} onDone={() => onOpenChange(false)} />
    </Dialog>
  )
}

interface FormProps extends Pick<NewSpaceProps, 'person' | 'onMade'> {
  onDone(): void
}

function NewSpaceForm({ person = null, onDone, onMade }: FormProps) {
  const { connection, viewer, humanId } = useSession()
  const [, go] = useLocation()
  const mayInvite = useMayInvite()
  const [search, setSearch] = useState({ agents: '', people: '' })
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set(person === null ? [] : [person.id]))
  const agents = useAsk(AGENT_CHOICES, { search: search.agents || null })
  const people = useAsk(PEOPLE_CHOICES, { search: search.people || null })
  const create = useDo(async (values: FormData) => {
    const memberIds = [...chosen]
    const routing = String(values.get('routing')) as Routing
    const input = {
      name: textIn(values, 'name') ?? '',
      description: textIn(values, 'description'),
      routing,
      memberIds,
      adminAgentId: routing === 'ADMIN' ? (memberIds.find((id) => id.startsWith('agt_')) ?? null) : null,
      // If the field is absent, the server's default for new spaces applies.
      ...(values.get('confidential') === 'on' ? { confidential: true } : {}),
    }
    const { space } = payloadOf((await connection.ask(CREATE_SPACE, { input })).createSpace, 'CreateSpacePayload')
    onDone()
    go(`/spaces/${space.id}`)
    onMade()
  })
  const toggle = (id: string) => {
    const next = new Set(chosen)
    if (!next.delete(id)) next.add(id)
    setChosen(next)
  }
  const listed = (people.data?.humans.edges ?? []).map(({ node }) => node)
  // The chosen person comes first, even if the list is longer than the page shows.
  const found =
    person === null || search.people !== ''
      ? listed
      : [{ ...person, kind: 'HUMAN' as const, erasedAt: null }, ...listed.filter(({ id }) => id !== person.id)]
  const agentChoices = (
    <Choices
      title="Agents"
      found={(agents.data?.agents.edges ?? []).map(({ node }) => node)}
      chosen={chosen}
      search={search.agents}
      onSearch={(next) => setSearch({ ...search, agents: next })}
      onToggle={toggle}
      none="There are no agents yet. Admins create them under Agents."
    />
  )
  const peopleChoices = (
    <Choices
      title="People"
      found={found.filter(({ id, erasedAt }) => id !== humanId && erasedAt === null)}
      chosen={chosen}
      search={search.people}
      onSearch={(next) => setSearch({ ...search, people: next })}
      onToggle={toggle}
      none={
        mayInvite
          ? 'There is nobody to choose yet. Create the space, then invite people by email from its details.'
          : 'There is nobody to choose yet. Create the space, then send a join link from its details to people who already have an account.'
      }
    />
  )
  return (
    <Form label="New space" submit="Create" isBusy={create.isBusy} error={create.error} onSubmit={create.start}>
      <TextField
        label="Name"
        name="name"
        required
        maxLength={200}
        autoFocus
        placeholder="Kitchen"
        defaultValue={person === null ? '' : `${viewer.viewer?.human?.name ?? ''} and ${person.name}`.slice(0, 200)}
      />
      <TextField label="Description" name="description" placeholder="Optional" />
      <SelectField label="Which agents wake" name="routing" options={ROUTINGS} />
      {person === null && agentChoices}
      {peopleChoices}
      {person !== null && agentChoices}
      <CheckField label="Confidential" name="confidential" hint={`${WHAT_IT_MEANS} Only an admin can turn this off.`} />
    </Form>
  )
}

const MOST_SHOWN = 12
/** A longer list of choices has a search field. */
const MOST_UNSEARCHED = 8

interface ChoicesProps {
  title: 'Agents' | 'People'
  found: readonly { id: string; name: string; kind: string; description?: string | null }[]
  chosen: ReadonlySet<string>
  search: string
  onSearch(search: string): void
  onToggle(id: string): void
  /** The next step to take, shown if there are no people. */
  none: string
}

function Choices({ title, found, chosen, search, onSearch, onToggle, none }: ChoicesProps) {
  const wordsBelow = useWordsBelow(found)
  const groups = useByName(found)
  const [openName, setOpenName] = useState<string | null>(null)
  const listId = useId()
  return (
    <fieldset className="choices">
      <legend>{title}</legend>
      {(found.length > MOST_UNSEARCHED || search !== '') && (
        <TextField
          label={`Search ${title.toLowerCase()}`}
          value={search}
          onChange={(event) => onSearch(event.target.value)}
        />
      )}
      {found.length === 0 && <p className="hint">{search === '' ? none : 'No matches: try a part of the name.'}</p>}
      {groups.slice(0, MOST_SHOWN).map(({ first, others }) => (
        <div key={first.id}>
          {[first, ...others]
            .filter(({ id, name }) => id === first.id || name === openName || chosen.has(id))
            .map((entity) => (
              <label key={entity.id} className="choice">
                <input
                  type="checkbox"
                  checked={chosen.has(entity.id)}
                  onChange={() => onToggle(entity.id)}
                  aria-label={entity.name}
                  aria-describedby={wordsBelow(entity) === '' ? undefined : `${listId}-${entity.id}`}
                />
                <Avatar entity={entity} size={24} />
                <span className="grow">
                  {entity.name}
                  {wordsBelow(entity) !== '' && (
                    <small dir="auto" id={`${listId}-${entity.id}`}>
                      {wordsBelow(entity)}
                    </small>
                  )}
                </span>
              </label>
            ))}
          {others.length > 0 && openName !== first.name && (
            <Button look="quiet" onClick={() => setOpenName(first.name)}>
              {others.length} more with this name
            </Button>
          )}
        </div>
      ))}
      {groups.length > MOST_SHOWN && (
        <p className="hint">{groups.length - MOST_SHOWN} more: write a part of the name above.</p>
      )}
    </fieldset>
  )
}
