import { useState } from 'react'
import { payloadOf } from '../../client/index.ts'
import type { ConsoleAgentPlansQuery } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Button, IconButton } from '../ui/button.tsx'
import { Confided } from '../ui/confided.tsx'
import { AskFirst } from '../ui/confirm.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { AreaField, Form, TextField, textIn } from '../ui/field.tsx'
import { Empty, Refused, Unanswered } from '../ui/notice.tsx'
import { FiringLine, Firings } from './firings.tsx'
import { AGENT_PLANS, CREATE_PLAN, DELETE_PLAN, RUN_PLAN_NOW, UPDATE_PLAN } from './mind-operations.ts'
import {
  type ChosenSchedule,
  formatIn,
  ScheduleFields,
  sentence,
  TimeList,
  useOwnTimeZone,
} from './schedule-fields.tsx'
import { cronOf, DEFAULT_PARTS, wordsOfCron } from './schedule-words.ts'

type Plan = NonNullable<NonNullable<ConsoleAgentPlansQuery['agent']>['internals']>['plans'][number]

const EVERY_MS = 3000

/** An agent's plans, with their last firings. */
export function Plans({ agentId }: { agentId: string }) {
  const own = useOwnTimeZone()
  const ask = useAsk(AGENT_PLANS, { id: agentId }, { everyMs: EVERY_MS })
  const plans = ask.data?.agent?.internals?.plans
  if (plans === undefined) return <Unanswered what="its plans" ask={ask} />
  return (
    <>
      {plans.length === 0 && (
        <Empty icon="clock" title="No plans yet">
          <p>
            A plan wakes the agent once or on a schedule, with an instruction. Create one below, or ask the agent in a
            space to remind you: agents create plans themselves.
          </p>
        </Empty>
      )}
      {plans.length > 0 && (
        <p className="hint">
          Plans wake the agent without a message. Their next times are shown in your time zone, {own}.
        </p>
      )}
      <ul className="rows">
        {plans.map((plan) => (
          <PlanRow key={plan.id} plan={plan} />
        ))}
      </ul>
      <NewPlan agentId={agentId} />
    </>
  )
}

function PlanRow({ plan }: { plan: Plan }) {
  const { id, name, instruction, enabled, confidentialTo } = plan
  const verbs = usePlanVerbs(id)
  const [isEditing, setEditing] = useState(false)
  const last = plan.firings.edges[0]?.node
  return (
    <li className="plan" aria-label={`Plan ${name}`}>
      <div className="plain-row">
        <div className="grow">
          <b>{name}</b> {!enabled && <span className="kind">off</span>} <Confided to={confidentialTo} />
          <Schedule plan={plan} />
          <p dir="auto">{instruction}</p>
        </div>
        <div className="plan-verbs">
          <Button icon="clock" isBusy={verbs.runNow.isBusy} onClick={() => verbs.runNow.start(null)}>
            Run now
          </Button>
          <Button onClick={() => setEditing(true)} aria-label={`Change the plan ${name}`}>
            Change
          </Button>
          <Button isBusy={verbs.enable.isBusy} onClick={() => verbs.enable.start(!enabled)}>
            {enabled ? 'Turn off' : 'Turn on'}
          </Button>
          <AskFirst
            title={`Delete the plan ${name}?`}
            submit="Delete"
            isBusy={verbs.remove.isBusy}
            error={verbs.remove.error}
            onConfirm={(close) => verbs.remove.start(null, close)}
            button={(ask) => <IconButton label={`Remove the plan ${name}`} icon="cross" onClick={ask} />}
          >
            <p>
              The plan never fires again. The runs that it started stay. To pause the plan, turn it off instead. This
              cannot be undone.
            </p>
          </AskFirst>
        </div>
      </div>
      <Refused error={verbs.runNow.error ?? verbs.enable.error} />
      <Dialog title={`Change ${name}`} open={isEditing} onOpenChange={setEditing}>
        <ChangePlan plan={plan} onDone={() => setEditing(false)} />
      </Dialog>
      <div className="plan-past">
        {last === undefined ? (
          <p className="hint">Not fired yet.</p>
        ) : (
          <ul className="firings" aria-label="Last firing">
            <FiringLine firing={last} />
          </ul>
        )}
        {last !== undefined && <Firings planId={id} />}
      </div>
    </li>
  )
}

/** Describes when the plan fires: in words, and with its next five times. */
function Schedule({ plan: { cron, timeZone, nextRuns, scheduledAt } }: { plan: Plan }) {
  const own = useOwnTimeZone()
  const [next, ...later] = nextRuns
  return (
    <div className="note">
      {cron === null ? 'Once' : <span title={cron}>{sentence(wordsOfCron(cron) ?? cron)}</span>}
      {cron !== null && `, ${timeZone}`}
      {cron === null && scheduledAt === null && ', already fired'}
      {next !== undefined && (
        <>
          {cron === null ? ', on ' : ' · next '}
          <Slot at={next} timeZone={own} />
          {(cron === null || own !== timeZone) && ` in your time zone, ${own}`}
        </>
      )}
      {cron === null && next === undefined && scheduledAt !== null && (
        <>
          {', on '}
          <Slot at={scheduledAt} timeZone={own} />
          {` in your time zone, ${own}, if the plan is turned on again`}
        </>
      )}
      {later.length > 0 && (
        <details>
          <summary>
            Next {nextRuns.length} times{own === timeZone ? '' : ', in your time zone'}
          </summary>
          <TimeList times={nextRuns} timeZone={own} />
        </details>
      )}
    </div>
  )
}

function Slot({ at, timeZone }: { at: string; timeZone: string }) {
  return (
    <time dateTime={at} title={timeZone}>
      {formatIn(timeZone).format(new Date(at))}
    </time>
  )
}

function usePlanVerbs(id: string) {
  const { connection } = useSession()
  const runNow = useDo(async (_: null) =>
    payloadOf((await connection.ask(RUN_PLAN_NOW, { id })).runPlanNow, 'RunPlanNowPayload'),
  )
  const enable = useDo(async (enabled: boolean) =>
    payloadOf((await connection.ask(UPDATE_PLAN, { input: { id, enabled } })).updatePlan, 'UpdatePlanPayload'),
  )
  const remove = useDo(async (_: null) =>
    payloadOf((await connection.ask(DELETE_PLAN, { id })).deletePlan, 'DeletePlanPayload'),
  )
  return { runNow, enable, remove }
}

function ChangePlan({ plan, onDone }: { plan: Plan; onDone(): void }) {
  const { id, cron, timeZone, instruction, scheduledAt } = plan
  const { connection } = useSession()
  const [changesSchedule, setChangesSchedule] = useState(false)
  const [chosen, setChosen] = useState<ChosenSchedule | null>(null)
  const change = useDo(async (values: FormData) => {
    const input = { id, instruction: textIn(values, 'instruction'), ...chosen }
    payloadOf((await connection.ask(UPDATE_PLAN, { input })).updatePlan, 'UpdatePlanPayload')
    onDone()
  })
  return (
    <Form label="Change the plan" submit="Save" isBusy={change.isBusy} error={change.error} onSubmit={change.start}>
      <AreaField label="Instruction" name="instruction" rows={3} required defaultValue={instruction} />
      {changesSchedule ? (
        <ScheduleFields
          cron={cron}
          once={cron === null ? (scheduledAt ?? '') : null}
          timeZone={timeZone}
          onChange={setChosen}
        />
      ) : (
        <Schedule plan={plan} />
      )}
      <div>
        <Button
          look="quiet"
          onClick={() => {
            setChosen(null)
            setChangesSchedule(!changesSchedule)
          }}
        >
          {changesSchedule ? 'Keep the schedule' : 'Change the schedule'}
        </Button>
      </div>
    </Form>
  )
}

function NewPlan({ agentId }: { agentId: string }) {
  const { connection } = useSession()
  const own = useOwnTimeZone()
  const [made, setMade] = useState(0)
  const [chosen, setChosen] = useState<ChosenSchedule | null>(null)
  const make = useDo(async (values: FormData) => {
    const usual = { schedule: { cron: cronOf(DEFAULT_PARTS) ?? '' }, timeZone: own }
    const name = textIn(values, 'name') ?? ''
    const input = { agentId, name, instruction: textIn(values, 'instruction') ?? '', ...(chosen ?? usual) }
    payloadOf((await connection.ask(CREATE_PLAN, { input })).createPlan, 'CreatePlanPayload')
    setChosen(null)
    setMade(made + 1)
  })
  return (
    <section className="block card end-of-form">
      <h2>New plan</h2>
      <p className="hint">
        Wakes the agent at the times that you choose. Each firing, with its run, appears below the plan.
      </p>
      <Form key={made} label="New plan" submit="Create" isBusy={make.isBusy} error={make.error} onSubmit={make.start}>
        <TextField
          label="Name"
          name="name"
          required
          maxLength={200}
          placeholder="Morning report"
          hint="For you and the audit log. It cannot be changed later."
        />
        <AreaField
          label="Instruction"
          name="instruction"
          rows={2}
          required
          placeholder="Write in Garden whether there was frost."
          hint="The agent follows this text each time. Name the space in which it posts, because a plan belongs to no space."
        />
        <ScheduleFields onChange={setChosen} />
      </Form>
    </section>
  )
}
