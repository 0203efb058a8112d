import { useState } from 'react'
import { useLocation } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import { useDo } from '../ask.ts'
import { ModelField } from '../operate/model-field.tsx'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { AreaField, Form, SelectField, textIn } from '../ui/field.tsx'
import { RERUN_STEP } from './operations.ts'

/** For admins: continues an ended run from one of its steps, in a copy of the space, and opens the new run. */
export function RerunStep({ runId, stepCount }: { runId: string; stepCount: number }) {
  const { connection } = useSession()
  const [isOpen, setOpen] = useState(false)
  const [, go] = useLocation()
  const rerun = useDo(async (values: FormData) => {
    const input = {
      runId,
      step: Number(values.get('step')),
      instructions: textIn(values, 'instructions'),
      model: textIn(values, 'model'),
    }
    return payloadOf((await connection.ask(RERUN_STEP, { input })).rerunStep, 'RerunStepPayload').run.id
  })
  const choices = Array.from({ length: stepCount }, (_, index) => [String(index), `Step ${index + 1}`] as const)
  return (
    <>
      <Button icon="branch" onClick={() => setOpen(true)}>
        Try again
      </Button>
      <Dialog title="Try again in a copy" open={isOpen} onOpenChange={setOpen}>
        <p className="hint">
          The run continues from the step in a copy of the space. The original stays unchanged, and tools with external
          effects require approval in the copy.
        </p>
        <Form
          label="Try again"
          submit="Start"
          isBusy={rerun.isBusy}
          error={rerun.error}
          onSubmit={(values) => rerun.start(values, (id) => go(`/runs/${id}`))}
        >
          <SelectField label="From" name="step" options={choices} />
          <AreaField label="Instructions" name="instructions" hint="Empty: the agent’s own." rows={4} />
          <ModelField label="Model" name="model" hint="Empty: the agent’s own." />
        </Form>
      </Dialog>
    </>
  )
}
