import { BadInputError } from '../lib/errors.ts'
import { checkInteger, indexOfRepeat } from '../lib/validate.ts'
import type { Models } from '../models/models.ts'
import { checkModelSettings, type ModelSettings } from './model-settings.ts'
import { isBuiltInTool, MCP_NAME_SEPARATOR } from './tool-names.ts'

export type ToolChoice = 'AUTO' | 'REQUIRED' | 'NONE'

/** The tools that the model may or must use from step `fromStep` (counted from 0) until the next phase begins. */
export interface ToolPhase {
  fromStep: number
  /** The model in this phase; null for the agent's model. */
  model: string | null
  /** Settings that override the agent's settings. An absent setting keeps the agent's value. */
  modelSettings?: ModelSettings
  /** The tools that the model may use; null for all tools. */
  activeTools: string[] | null
  toolChoice: ToolChoice
}

export interface ToolPhaseInput {
  fromStep: number
  model?: string | null
  modelSettings?: unknown
  activeTools?: readonly string[] | null
  toolChoice: ToolChoice
}

const MOST_PHASES = 100
const LATEST_STEP = 1000
const MOST_ACTIVE_TOOLS = 1000

interface AgentToolNames {
  toolNames: readonly string[]
  mcpServerNames: readonly string[]
}

/**
 * Returns the phases in the order of their steps. @throws BadInputError for two phases with the same step, or for an
 * unknown tool
 */
export function checkPhases(
  phases: readonly ToolPhaseInput[],
  names: AgentToolNames,
  models: Pick<Models, 'check'>,
): ToolPhase[] {
  if (phases.length > MOST_PHASES)
    throw new BadInputError(`An agent can have at most ${MOST_PHASES} phases.`, 'input.phases')
  const checked = phases.map((phase, index): ToolPhase => {
    const field = `input.phases.${index}`
    const fromStep = checkInteger(phase.fromStep, 0, LATEST_STEP, `${field}.fromStep`)
    const model = phase.model ?? null
    const fault = model === null ? null : models.check(model)
    if (fault !== null) throw new BadInputError(fault, `${field}.model`)
    const activeTools = phase.activeTools == null ? null : [...new Set(phase.activeTools)]
    checkActiveTools(activeTools ?? [], names, `${field}.activeTools`)
    if (activeTools?.length === 0 && phase.toolChoice === 'REQUIRED') {
      throw new BadInputError('toolChoice REQUIRED needs at least one active tool.', `${field}.activeTools`)
    }
    const modelSettings = checkModelSettings(phase.modelSettings, `${field}.modelSettings`)
    const settings = modelSettings === null ? {} : { modelSettings }
    return { fromStep, model, ...settings, activeTools, toolChoice: phase.toolChoice }
  })
  const starts = checked.map(({ fromStep }) => fromStep)
  const twice = indexOfRepeat(starts)
  if (twice !== -1) throw new BadInputError('Another phase begins at the same step.', `input.phases.${twice}.fromStep`)
  return checked.sort((a, b) => a.fromStep - b.fromStep)
}

function checkActiveTools(
  active: readonly string[],
  { toolNames, mcpServerNames }: AgentToolNames,
  field: string,
): void {
  if (active.length > MOST_ACTIVE_TOOLS)
    throw new BadInputError(`A phase can have at most ${MOST_ACTIVE_TOOLS} active tools.`, field)
  const isTool = (name: string) =>
    isBuiltInTool(name) ||
    toolNames.includes(name) ||
    (!name.includes('\0') && mcpServerNames.some((server) => name.startsWith(server + MCP_NAME_SEPARATOR)))
  const unknown = active.find((name) => !isTool(name))
  if (unknown !== undefined) {
    throw new BadInputError(`"${unknown.slice(0, 64)}" is neither a built-in tool nor a tool of this agent.`, field)
  }
}
