import { useState } from 'react'
import { useLocation } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import type { Routing } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Avatar } from '../ui/avatar.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { CheckField, Form, SelectField, TextField, textIn } from '../ui/field.tsx'
import { WHAT_IT_MEANS } from './confidence.tsx'
import { AGENT_CHOICES, CREATE_SPACE } from './operations.ts'
import { ROUTINGS } from './space-details.tsx'

interface NewSpaceProps {
  open: boolean
  onOpenChange(open: boolean): void
  /** Called after the new space was opened. */
  onMade(): void
}

export function NewSpace({ open, onOpenChange, onMade }: NewSpaceProps) {
  const { connection } = useSession()
  const [, go] = useLocation()
  const [search, setSearch] = useState('')
  const [chosen, setChosen] = useState<ReadonlyMap<string, string>>(new Map())
  const { data } = useAsk(AGENT_CHOICES, { search: search === '' ? null : search }, { enabled: open })
  const create = useDo(async (values: FormData) => {
    const memberIds = [...chosen.keys()]
    const routing = String(values.get('routing')) as Routing
    const input = {
      name: textIn(values, 'name') ?? '',
      description: textIn(values, 'description'),
      routing,
      memberIds,
      adminAgentId: routing === 'ADMIN' ? (memberIds[0] ?? null) : null,
      // If absent, the server's default for new spaces applies.
      ...(values.get('confidential') === 'on' ? { confidential: true } : {}),
    }
    const { space } = payloadOf((await connection.ask(CREATE_SPACE, { input })).createSpace, 'CreateSpacePayload')
    setChosen(new Map())
    onOpenChange(false)
    go(`/spaces/${space.id}`)
    onMade()
  })
  const toggle = (id: string, name: string) => {
    const next = new Map(chosen)
    if (!next.delete(id)) next.set(id, name)
    setChosen(next)
  }
  const found = (data?.agents.edges ?? []).map(({ node }) => node)
  return (
    <Dialog title="New space" open={open} onOpenChange={onOpenChange}>
      <Form label="New space" submit="Create" isBusy={create.isBusy} error={create.error} onSubmit={create.start}>
        <TextField label="Name" name="name" required maxLength={200} autoFocus placeholder="Kitchen" />
        <TextField label="Description" name="description" placeholder="Optional" />
        <SelectField label="Which agents wake" name="routing" options={ROUTINGS} />
        <CheckField
          label="Confidential"
          name="confidential"
          hint={`${WHAT_IT_MEANS} Only an admin can turn this off.`}
        />
        <fieldset className="choices">
          <legend>Agents</legend>
          {found.length > 8 || search !== '' ? (
            <TextField label="Search agents" value={search} onChange={(event) => setSearch(event.target.value)} />
          ) : null}
          {found.length === 0 && <p className="hint">There are no agents yet.</p>}
          {found.slice(0, 12).map((agent) => (
            <label key={agent.id} className="choice">
              <input type="checkbox" checked={chosen.has(agent.id)} onChange={() => toggle(agent.id, agent.name)} />
              <Avatar entity={agent} size={24} />
              <span className="grow">{agent.name}</span>
            </label>
          ))}
        </fieldset>
      </Form>
    </Dialog>
  )
}
