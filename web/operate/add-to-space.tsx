import { useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import { useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { ADD_MEMBER } from '../talk/operations.ts'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Form, SelectField, textIn } from '../ui/field.tsx'

interface AddToSpaceProps {
  agent: { id: string; name: string }
  /** The viewer's spaces that the agent is not a member of. */
  spaces: readonly { id: string; name: string }[]
}

/** A button with a dialog that adds an agent to one of the viewer's spaces. */
export function AddToSpace({ agent, spaces }: AddToSpaceProps) {
  const { connection } = useSession()
  const [isOpen, setOpen] = useState(false)
  const add = useDo(async (values: FormData) => {
    const input = { spaceId: textIn(values, 'spaceId') ?? '', entityId: agent.id }
    payloadOf((await connection.ask(ADD_MEMBER, input)).addMember, 'AddMemberPayload')
  })
  return (
    <>
      <Button icon="plus" onClick={() => setOpen(true)}>
        Add to a space
      </Button>
      <Dialog title={`Add ${agent.name} to a space`} open={isOpen} onOpenChange={setOpen}>
        <Form
          label="Add to a space"
          submit="Add"
          isBusy={add.isBusy}
          error={add.error}
          onSubmit={(values) => add.start(values, () => setOpen(false))}
        >
          <SelectField
            label="Space"
            name="spaceId"
            options={spaces.map(({ id, name }) => [id, name] as const)}
            hint={`${agent.name} can read the space and answer in it. Its members can remove the agent in the details of the space.`}
          />
        </Form>
      </Dialog>
    </>
  )
}
