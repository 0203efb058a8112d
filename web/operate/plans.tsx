import { payloadOf } from '../../client/index.ts'
import type { ConsoleAgentPlansQuery } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { PROFILE } from '../profile/operations.ts'
import { useSession } from '../session.tsx'
import { Button, IconButton } from '../ui/button.tsx'
import { Confided } from '../ui/confided.tsx'
import { AreaField, Form, TextField, textIn } from '../ui/field.tsx'
import { Empty, Refused, Unanswered } from '../ui/notice.tsx'
import { Moment } from '../ui/time.tsx'
import { FiringLine, Firings } from './firings.tsx'
import { AGENT_PLANS, CREATE_PLAN, DELETE_PLAN, RUN_PLAN_NOW, UPDATE_PLAN } from './mind-operations.ts'

type Plan = NonNullable<NonNullable<ConsoleAgentPlansQuery['agent']>['internals']>['plans'][number]

const EVERY_MS = 3000

/** An agent's plans, with their last firings. */
export function Plans({ agentId }: { agentId: string }) {
  const ask = useAsk(AGENT_PLANS, { id: agentId }, { everyMs: EVERY_MS })
  const plans = ask.data?.agent?.internals?.plans
  if (plans === undefined) return <Unanswered what="its plans" ask={ask} />
  return (
    <>
      {plans.length === 0 && (
        <Empty icon="clock" title="No plans yet">
          <p>A plan wakes the agent once or on a schedule. Agents can also create plans themselves.</p>
        </Empty>
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

/** In the viewer's time zone, if they have set one. */
function PlanTime({ at }: { at: string }) {
  const zone = useAsk(PROFILE, {}).data?.viewer.human?.timeZone ?? null
  if (zone === null) return <Moment at={at} />
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short', timeZone: zone })
  return (
    <time dateTime={at} title={zone}>
      {format.format(new Date(at))}
    </time>
  )
}

function PlanRow({ plan }: { plan: Plan }) {
  const { id, name, instruction, cron, timeZone, nextRunAt, enabled, confidentialTo } = plan
  const verbs = usePlanVerbs(id)
  const last = plan.firings.edges[0]?.node
  return (
    <li className="plan" aria-label={`Plan ${name}`}>
      <div className="plain-row">
        <div className="grow">
          <b>{name}</b> {cron !== null && <code>{cron}</code>} {cron !== null && timeZone}{' '}
          {!enabled && <span className="kind">off</span>} <Confided to={confidentialTo} />
          {nextRunAt !== null && (
            <span className="note">
              {' '}
              next <PlanTime at={nextRunAt} />
            </span>
          )}
          <p dir="auto">{instruction}</p>
        </div>
        <div className="plan-verbs">
          <Button icon="clock" isBusy={verbs.runNow.isBusy} onClick={() => verbs.runNow.start(null)}>
            Run now
          </Button>
          <Button isBusy={verbs.enable.isBusy} onClick={() => verbs.enable.start(!enabled)}>
            {enabled ? 'Turn off' : 'Turn on'}
          </Button>
          <IconButton label={`Remove the plan ${name}`} icon="cross" onClick={() => verbs.remove.start(null)} />
        </div>
      </div>
      <Refused error={verbs.runNow.error ?? verbs.enable.error ?? verbs.remove.error} />
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

function NewPlan({ agentId }: { agentId: string }) {
  const { connection } = useSession()
  const make = useDo(async (values: FormData) => {
    const cron = textIn(values, 'cron')
    const schedule = cron === null ? { afterSeconds: Number(values.get('afterSeconds') ?? 60) } : { cron }
    const input = {
      agentId,
      name: textIn(values, 'name') ?? '',
      instruction: textIn(values, 'instruction') ?? '',
      schedule,
    }
    payloadOf((await connection.ask(CREATE_PLAN, { input })).createPlan, 'CreatePlanPayload')
  })
  return (
    <section className="block card end-of-form">
      <h2>New plan</h2>
      <Form label="New plan" submit="Create" isBusy={make.isBusy} error={make.error} onSubmit={make.start}>
        <TextField label="Name" name="name" required />
        <AreaField label="Instruction" name="instruction" rows={2} required />
        <div className="columns">
          <TextField label="Schedule (cron)" name="cron" placeholder="0 8 * * 1-5" hint="Five fields, UTC" />
          <TextField label="Or once, after seconds" name="afterSeconds" type="number" min={1} defaultValue={60} />
        </div>
      </Form>
    </section>
  )
}
