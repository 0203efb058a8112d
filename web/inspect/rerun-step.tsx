import { useState } from 'react'
import { useLocation } from 'wouter'
import { payloadOf } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { ModelField } from '../operate/model-field.tsx'
import { AGENT } from '../operate/operations.ts'
import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { AreaField, Form, SelectField, textIn } from '../ui/field.tsx'
import { Unanswered } from '../ui/notice.tsx'
import { RERUN_STEP } from './operations.ts'

/** For admins: continues an ended run from one of its steps, in a copy of the space, and opens the new run. */
export function RerunStep({ runId, agentId, stepCount }: { runId: string; agentId: string; stepCount: number }) {
  const { connection } = useSession()
  const [isOpen, setOpen] = useState(false)
  const [, go] = useLocation()
  const ask = useAsk(AGENT, { id: agentId }, { enabled: isOpen })
  const agent = ask.data?.agent
  const rerun = useDo(async (values: FormData) => {
    const [instructions, model] = [textIn(values, 'instructions'), textIn(values, 'model')]
    const input = {
      runId,
      step: Number(values.get('step')),
      ...(instructions === agent?.internals?.instructions ? {} : { instructions }),
      ...(model === agent?.model ? {} : { model }),
    }
    const { run } = payloadOf((await connection.ask(RERUN_STEP, { input })).rerunStep, 'RerunStepPayload')
    return `/runs/${run.id}?of=${runId}&step=${input.step + 1}`
  })
  const choices = Array.from({ length: stepCount }, (_, index) => [String(index), `Step ${index + 1}`] as const)
  return (
    <>
      <Button icon="retry" onClick={() => setOpen(true)}>
        Rerun in a copy
      </Button>
      <Dialog title="Rerun in a copy" open={isOpen} onOpenChange={setOpen}>
        {ask.data === undefined ? (
          <Unanswered what="the agent’s settings" ask={ask} />
        ) : (
          <Form
            label="Rerun in a copy"
            submit="Rerun"
            isBusy={rerun.isBusy}
            error={rerun.error}
            onSubmit={(values) => rerun.start(values, (address) => go(address))}
          >
            <p className="hint">
              The run continues from the step that you choose, in a copy of the space. The original does not change, and
              tools with external effects require approval.
            </p>
            <SelectField label="From" name="step" options={choices} />
            <AreaField
              label="Instructions"
              name="instructions"
              defaultValue={agent?.internals?.instructions}
              hint="The agent’s own instructions. Change them for this rerun only."
              rows={6}
            />
            <ModelField
              label="Model"
              name="model"
              defaultValue={agent?.model}
              hint="The agent’s own model. Change it for this rerun only."
            />
          </Form>
        )}
      </Dialog>
    </>
  )
}
