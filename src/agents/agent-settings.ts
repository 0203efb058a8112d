import type { Config } from '../config.ts'
import type { AddableBy, PlainText } from '../generated/prisma/client.ts'
import { type BudgetLimits, changedBudget } from '../lib/budget.ts'
import { BadInputError } from '../lib/errors.ts'
import { checkInteger, checkName, checkNameCharacters, checkText, LONGEST_INSTRUCTIONS } from '../lib/validate.ts'
import type { Models } from '../models/models.ts'
import type { CreateAgentInput, UpdateAgentInput } from './agent-input.ts'
import { type CheckedTool, checkTools } from './custom-tools.ts'
import { type CycleSettings, changedCycle, newCycle } from './cycle-settings.ts'
import { type CheckedMcpServer, checkMcpServers } from './mcp-servers.ts'
import { checkModelSettings, type ModelSettings } from './model-settings.ts'
import { checkUrl } from './outgoing-request.ts'
import { checkForeignUse, checkRemote, type RemoteSettings } from './remote-agent.ts'
import { isBuiltInTool } from './tool-names.ts'
import { checkPhases, type ToolPhase } from './tool-phases.ts'

/** The methods of models that agents use. */
export type AgentModels = Pick<Models, 'check' | 'lookFor' | 'defaultModel' | 'isLocal'>

/** The validated settings of an agent. */
export interface AgentSettings {
  name: string
  description: string | null
  instructions: string
  model: string
  /** The fallback models in order of preference, without `model`. */
  fallbackModels: string[]
  modelSettings: ModelSettings | null
  maxSteps: number
  /** The maximum number of tool calls; null for five times `maxSteps`. */
  maxToolCalls: number | null
  tokenBudget: number | null
  budget: BudgetLimits | null
  maxConcurrentRuns: number
  phases: ToolPhase[]
  cycle: CycleSettings | null
  tools: CheckedTool[]
  mcpServers: CheckedMcpServer[]
  paused: boolean
  /** The URL for notifications. Undefined keeps the setting, and null clears it. */
  notifyUrl: string | null | undefined
  addableBy: AddableBy
  plainText: PlainText
  /** The connection to a remote agent. Undefined keeps the settings, and null clears them. */
  remote: RemoteSettings | null | undefined
}

const DEFAULT_MAX_STEPS = 20
const DEFAULT_CYCLE_TOKEN_BUDGET = 50_000
const DEFAULT_MAX_CONCURRENT_RUNS = 5
const MOST_CONCURRENT_RUNS = 100
const MOST_STEPS = 1000
const MOST_TOOL_CALLS = 5000
const LARGEST_TOKEN_BUDGET = 2_000_000_000
const LONGEST_DESCRIPTION = 4000
const LONGEST_MODEL = 200
const MOST_FALLBACKS = 10

/** Returns the names of models in an input. */
export function modelsIn({
  model,
  fallbackModels,
  phases,
}: Pick<UpdateAgentInput, 'model' | 'fallbackModels' | 'phases'>): string[] {
  const ofPhases = (phases ?? []).map((phase) => phase.model)
  return [model, ...(fallbackModels ?? []), ...ofPhases].filter((name) => name != null)
}

/** Returns the settings of a new agent with defaults filled in. @throws BadInputError with the invalid field */
export function checkNewAgent(
  input: CreateAgentInput & { model: string },
  config: Config,
  models: AgentModels,
): AgentSettings {
  const isPersistent = input.mind === 'PERSISTENT'
  if (!isPersistent && input.cycle != null) throw noCycle()
  const model = checkModel(input.model, 'input.model', models)
  const tools = checkTools(input.tools ?? [], config.limits)
  const mcpServers = checkMcpServers(input.mcpServers ?? [], config.limits)
  const names = { toolNames: tools.map(({ name }) => name), mcpServerNames: mcpServers.map(({ name }) => name) }
  const absentBudget = isPersistent ? DEFAULT_CYCLE_TOKEN_BUDGET : null
  const fallbackModels = checkFallbacks(input.fallbackModels ?? [], model, models)
  const phases = checkPhases(input.phases ?? [], names, models)
  const { mcpServerNames } = names
  const remote = checkRemote(input.remote, config.limits)
  const maxSteps = checkMaxSteps(input.maxSteps ?? DEFAULT_MAX_STEPS)
  const maxToolCalls = input.maxToolCalls == null ? null : checkMaxToolCalls(input.maxToolCalls)
  checkForeignUse({
    model,
    fallbackModels,
    phases,
    isPersistent,
    mcpServerNames,
    hasRemote: remote != null,
    maxSteps,
    maxToolCalls: maxToolCallsOf({ maxSteps, maxToolCalls }),
  })
  return {
    name: checkName(input.name, 'input.name'),
    description: checkDescription(input.description ?? null),
    instructions: checkText(input.instructions, LONGEST_INSTRUCTIONS, 'input.instructions'),
    model,
    fallbackModels,
    modelSettings: checkModelSettings(input.modelSettings, 'input.modelSettings'),
    maxSteps,
    maxToolCalls,
    tokenBudget: checkTokenBudget(input.tokenBudget === undefined ? absentBudget : input.tokenBudget),
    budget: changedBudget(null, input.budget ?? null),
    maxConcurrentRuns: checkMaxConcurrentRuns(input.maxConcurrentRuns ?? DEFAULT_MAX_CONCURRENT_RUNS),
    phases,
    cycle: isPersistent ? newCycle(input.cycle ?? {}) : null,
    tools,
    mcpServers,
    paused: false,
    notifyUrl: checkNotifyUrl(input.notifyUrl ?? null),
    addableBy: input.addableBy ?? 'EVERYONE',
    plainText: input.plainText ?? (models.isLocal(model) ? 'SPOKEN_IF_SILENT' : 'INTERNAL'),
    remote,
  }
}

/** The current values with which the values of an update are compared. */
export interface AgentBefore {
  model: string
  fallbackModels: string[]
  phases: ToolPhase[]
  budget: BudgetLimits | null
  cycle: CycleSettings | null
  toolNames: string[]
  mcpServerNames: string[]
  maxSteps: number
  /** The maximum number of calls per run. */
  maxToolCalls: number
}

/**
 * Returns the settings that an update changes. Absent settings stay unchanged.
 * @throws BadInputError with the invalid field
 */
export function checkChangedAgent(
  input: UpdateAgentInput,
  before: AgentBefore,
  config: Config,
  models: AgentModels,
): Partial<AgentSettings> {
  const { limits } = config
  // An agent may keep a tool that it had before a built-in tool with the same name was introduced.
  const isTaken = (name: string) => isBuiltInTool(name) && !before.toolNames.includes(name)
  const tools = given(input.tools, 'tools', (value) => checkTools(value, limits, isTaken))
  const mcpServers = given(input.mcpServers, 'mcpServers', (value) => checkMcpServers(value, limits))
  const names = {
    toolNames: tools?.map(({ name }) => name) ?? before.toolNames,
    mcpServerNames: mcpServers?.map(({ name }) => name) ?? before.mcpServerNames,
  }
  const model = given(input.model, 'model', (value) => checkModel(value, 'input.model', models))
  const changes = {
    name: given(input.name, 'name', (value) => checkName(value, 'input.name')),
    description: input.description === undefined ? undefined : checkDescription(input.description),
    instructions: given(input.instructions, 'instructions', (value) =>
      checkText(value, LONGEST_INSTRUCTIONS, 'input.instructions'),
    ),
    model,
    fallbackModels: fallbacksAfter(input.fallbackModels, model, before, models),
    modelSettings:
      input.modelSettings === undefined ? undefined : checkModelSettings(input.modelSettings, 'input.modelSettings'),
    maxSteps: given(input.maxSteps, 'maxSteps', checkMaxSteps),
    maxToolCalls: given(input.maxToolCalls, 'maxToolCalls', checkMaxToolCalls),
    tokenBudget: input.tokenBudget === undefined ? undefined : checkTokenBudget(input.tokenBudget),
    budget: input.budget === undefined ? undefined : changedBudget(before.budget, input.budget),
    maxConcurrentRuns: given(input.maxConcurrentRuns, 'maxConcurrentRuns', checkMaxConcurrentRuns),
    phases: given(input.phases, 'phases', (value) => checkPhases(value, names, models)),
    cycle: cycleAfter(input.cycle, before.cycle),
    tools,
    mcpServers,
    addableBy: given(input.addableBy, 'addableBy', (value) => value),
    plainText: given(input.plainText, 'plainText', (value) => value),
    paused: given(input.paused, 'paused', (value) => value),
    notifyUrl: checkNotifyUrl(input.notifyUrl),
    remote: checkRemote(input.remote, limits),
  }
  checkForeignUse({
    model: model ?? before.model,
    fallbackModels: changes.fallbackModels ?? before.fallbackModels,
    phases: changes.phases ?? before.phases,
    isPersistent: before.cycle !== null,
    mcpServerNames: names.mcpServerNames,
    hasRemote: input.remote != null,
    maxSteps: changes.maxSteps ?? before.maxSteps,
    maxToolCalls: changes.maxToolCalls ?? before.maxToolCalls,
  })
  return Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined))
}

/** Checks a setting that may be omitted but must not be null. */
function given<T, R>(value: T | null | undefined, field: string, check: (value: T) => R): R | undefined {
  if (value === null)
    throw new BadInputError('Must not be null; omit the field to keep its current value.', `input.${field}`)
  return value === undefined ? undefined : check(value)
}

function cycleAfter(input: UpdateAgentInput['cycle'], before: CycleSettings | null): CycleSettings | undefined {
  if (before === null) {
    if (input != null) throw noCycle()
    return undefined
  }
  return given(input, 'cycle', (value) => changedCycle(before, value))
}

function noCycle(): BadInputError {
  return new BadInputError('Only an agent with a PERSISTENT mind has think cycles.', 'input.cycle')
}

function checkDescription(description: string | null): string | null {
  return description === null ? null : checkText(description, LONGEST_DESCRIPTION, 'input.description')
}

function checkNotifyUrl<T extends string | null | undefined>(url: T): T {
  if (url != null) checkUrl(url, 'input.notifyUrl')
  return url
}

function checkModel(name: string, field: string, models: AgentModels): string {
  checkNameCharacters(name, field)
  checkText(name, LONGEST_MODEL, field)
  const fault = models.check(name)
  if (fault !== null) throw new BadInputError(fault, field)
  return name
}

function checkFallbacks(names: readonly string[], model: string, models: AgentModels): string[] {
  const field = 'input.fallbackModels'
  if (names.length > MOST_FALLBACKS)
    throw new BadInputError(`An agent can have at most ${MOST_FALLBACKS} fallback models.`, field)
  return names.map((name, index) => {
    if (name === model)
      throw new BadInputError('A fallback model must differ from the model of the agent.', `${field}.${index}`)
    if (names.indexOf(name) !== index)
      throw new BadInputError(`Duplicate fallback model: ${name}.`, `${field}.${index}`)
    return checkModel(name, `${field}.${index}`, models)
  })
}

/**
 * Returns the fallback models after an update. Fallbacks never change implicitly, so an update that makes a fallback
 * the main model must contain both fields.
 */
function fallbacksAfter(
  names: UpdateAgentInput['fallbackModels'],
  model: string | undefined,
  before: AgentBefore,
  models: AgentModels,
): string[] | undefined {
  if (names === undefined && model !== undefined && before.fallbackModels.includes(model)) {
    throw new BadInputError(
      'The model is also one of the fallbackModels: set both, or choose another model.',
      'input.model',
    )
  }
  return given(names, 'fallbackModels', (value) => checkFallbacks(value, model ?? before.model, models))
}

function checkMaxSteps(value: number): number {
  return checkInteger(value, 1, MOST_STEPS, 'input.maxSteps')
}

function checkMaxToolCalls(value: number): number {
  return checkInteger(value, 1, MOST_TOOL_CALLS, 'input.maxToolCalls')
}

function checkTokenBudget(value: number | null): number | null {
  return value === null ? null : checkInteger(value, 1, LARGEST_TOKEN_BUDGET, 'input.tokenBudget')
}

function checkMaxConcurrentRuns(value: number): number {
  return checkInteger(value, 1, MOST_CONCURRENT_RUNS, 'input.maxConcurrentRuns')
}

const CALLS_A_STEP = 5

/** Returns the maximum number of tool calls of a run. Further calls are not executed. */
export function maxToolCallsOf({ maxToolCalls, maxSteps }: Pick<AgentSettings, 'maxToolCalls' | 'maxSteps'>): number {
  return maxToolCalls ?? CALLS_A_STEP * maxSteps
}
