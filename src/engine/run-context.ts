import { marksTogether } from '../confidentiality/marks.ts'
import type { Claim } from '../runs/claiming.ts'
import type { Effects, RunContext, RunExecution } from '../tools/run-context.ts'

/** Returns the context of a run that has just been claimed. */
export function contextOf({ run, attempt, kind }: Claim): RunContext {
  const { activeSpaceId, enteredSeq } = run
  return {
    run,
    attempt,
    kind,
    agent: { id: run.agentId },
    activeSpace: activeSpaceId === null ? null : { id: activeSpaceId, seq: enteredSeq ?? 0 },
    ending: null,
  }
}

/** Returns the context after these effects. Marks are only added, never removed. */
export function applyEffects(context: RunContext, effects: Effects): RunContext {
  const { learned = {}, lineage, state, entered, ending } = effects
  const { places = [], label = [] } = learned
  const row = { ...context.run, ...lineage }
  return {
    ...context,
    run: {
      ...row,
      ...marksTogether([context.run, row, { places, label }]),
      state: state === undefined ? row.state : state,
      activeSpaceId: entered?.id ?? row.activeSpaceId,
      enteredSeq: entered?.seq ?? row.enteredSeq,
    },
    activeSpace: entered ?? context.activeSpace,
    ending: ending ?? context.ending,
  }
}

/** Creates the execution of a claimed run. Only `apply` changes its context. */
export function createRunExecution(
  claim: Claim,
  { signal, standAside }: Pick<RunExecution, 'signal' | 'standAside'>,
): RunExecution {
  let context = contextOf(claim)
  return {
    get context() {
      return context
    },
    signal,
    standAside,
    apply(effects) {
      context = applyEffects(context, effects)
    },
  }
}
