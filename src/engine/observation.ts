import type { Attributes } from '@opentelemetry/api'
import { type CycleState, cycleStateOf } from '../context/cycle-state.ts'
import type { Mind, StepPlan } from '../context/mind.ts'
import type { SceneAgent } from '../context/scene.ts'
import { messageOf } from '../lib/errors.ts'
import type { Json } from '../lib/json.ts'
import type { Telemetry, TelemetrySpan } from '../platform/telemetry.ts'
import type { Claim } from '../runs/claiming.ts'
import type { Generation, Journal } from '../runs/journal.ts'
import type { RunExecution } from '../tools/run-context.ts'
import { answeredAttributes, sentAttributes } from './captured-content.ts'
import type { GenerationMetrics } from './generation-metrics.ts'
import type { ToolRunner } from './tool-runner.ts'

/** Traces and metrics of the runs that this process executes. */
export interface Observer {
  /** Starts the trace of one attempt of a run. */
  begin(run: RunExecution, agent: Pick<SceneAgent, 'id' | 'name' | 'model'>): RunObservation
  /** Records that a cycle ended with `skip` and was rolled back. */
  erased(run: RunExecution): void
}

/** Instruments a run by wrapping the objects that perform it. */
export interface RunObservation {
  journal: Journal
  watch(runner: ToolRunner): ToolRunner
  /** Wraps the run's memory mode to capture the input that each step sends to the model. */
  watchMind(mind: Mind): Mind
  end(end: ObservedEnd): void
  failed(error: unknown): void
}

/** The outcome of an attempt as the trace shows it. */
interface ObservedEnd {
  type: string
  error?: string
  ending?: { type: string }
}

interface ObserverParts {
  telemetry: Telemetry
  generationMetrics: GenerationMetrics
  journal: Journal
}

/**
 * Makes one trace per attempt of a run. The trace has a span for the run or cycle, a child span for each step, and
 * below that a span for each tool call. Names and attributes come from OpenTelemetry's semantic conventions for
 * generative AI or, if these define none, from the AI SDK. All others begin with `parley.`.
 */
export function createObserver({ telemetry, generationMetrics, journal }: ObserverParts): Observer {
  /** The usage of cycles that called `skip`. */
  const skipped = new WeakMap<RunExecution, Spent>()
  return {
    erased(run) {
      generationMetrics.skipped(skipped.get(run) ?? nothing())
    },
    begin(run, agent) {
      const span = telemetry.trace(`invoke_agent ${agent.name}`, runAttributes(run.context, agent))
      const spent = nothing()
      let steps = run.context.run.stepCount
      let step: TelemetrySpan = span
      let sent: Attributes = {}

      /** @param at when the next step began; absent after the last step */
      function closeStep(at?: Date): void {
        if (step !== span) step.end(at)
      }

      function count(model: string, usage: Generation['usage']): void {
        generationMetrics.generated(model, usage)
        spent.inputTokens += usage.inputTokens
        spent.cachedInputTokens += usage.cachedInputTokens
        spent.outputTokens += usage.outputTokens
      }

      function close(): void {
        closeStep()
        span.set({ 'parley.run.steps': steps, ...usageAttributes(spent), ...cycleAttributes(run.context) })
        span.end()
      }

      return {
        journal: {
          ...journal,
          async generated(held, generation, ...rest) {
            closeStep(generation.startedAt)
            steps = generation.index + 1
            step = span.child(`chat ${generation.model}`, stepAttributes(generation), generation.startedAt)
            if (telemetry.capturesContent) step.set({ ...sent, ...answeredAttributes(generation) })
            count(generation.model, generation.usage)
            if (generation.msToFirstChunk !== null)
              generationMetrics.answered(generation.model, generation.msToFirstChunk)
            return journal.generated(held, generation, ...rest)
          },
          async abandoned(held, usage, model) {
            count(model, usage)
            await journal.abandoned(held, usage, model)
          },
        },
        watchMind: (mind) =>
          telemetry.capturesContent
            ? seeing(mind, (plan) => {
                sent = sentAttributes(plan)
              })
            : mind,
        watch: (runner) => watchTools(runner, telemetry, () => step),
        end(end) {
          const how = end.ending?.type ?? end.type
          if (how === 'skip') skipped.set(run, spent)
          span.set({ 'parley.run.end': how })
          if (end.error !== undefined) span.fail(end.error)
          close()
        },
        failed(error) {
          span.fail(messageOf(error))
          close()
        },
      }
    },
  }
}

type Spent = Omit<Generation['usage'], 'estimated'>

const nothing = (): Spent => ({ inputTokens: 0, cachedInputTokens: 0, outputTokens: 0 })

function seeing(mind: Mind, see: (plan: StepPlan) => void): Mind {
  return {
    ...mind,
    async plan(steps) {
      const plan = await mind.plan(steps)
      see(plan)
      return plan
    },
  }
}

function watchTools(runner: ToolRunner, { capturesContent }: Telemetry, step: () => TelemetrySpan): ToolRunner {
  return {
    async runTool(tool, call) {
      const attributes = {
        'gen_ai.operation.name': 'execute_tool',
        'gen_ai.tool.name': tool.name,
        'gen_ai.tool.call.id': call.id,
      }
      const content = capturesContent ? { 'gen_ai.tool.call.arguments': JSON.stringify(call.input) } : {}
      const span = step().child(`execute_tool ${tool.name}`, { ...attributes, ...content })
      try {
        const end = await runner.runTool(tool, call)
        if (end.type === 'settled') {
          const { status, output } = end.settlement
          if (status !== 'DONE' || isFailure(output)) span.fail('The tool failed.')
          if (capturesContent) span.set({ 'gen_ai.tool.call.result': JSON.stringify(output) })
        }
        return end
      } catch (error) {
        span.fail(messageOf(error))
        throw error
      } finally {
        span.end()
      }
    },
  }
}

function isFailure(output: Json): boolean {
  return typeof output === 'object' && output !== null && 'error' in output
}

function runAttributes(
  { run, attempt }: Claim,
  { id, name, model }: Pick<SceneAgent, 'id' | 'name' | 'model'>,
): Attributes {
  const isCycle = run.triggerType === 'INBOX'
  return {
    'gen_ai.operation.name': 'invoke_agent',
    'gen_ai.agent.id': id,
    'gen_ai.agent.name': name,
    'gen_ai.request.model': model,
    'ai.telemetry.functionId': isCycle ? `agent-${id}-cycle-${cycleStateOf(run).cycle}` : `agent-${id}-run`,
    'ai.telemetry.metadata.agentId': id,
    'parley.run.id': run.id,
    'parley.run.attempt': attempt,
    'parley.run.trigger': run.triggerType,
    'parley.root.id': run.rootId,
  }
}

/** Returns the span attributes of a think cycle. */
function cycleAttributes({ run }: Claim): Attributes {
  if (run.triggerType !== 'INBOX') return {}
  const { cycle, inboxSize, consciousnessTokens }: CycleState = cycleStateOf(run)
  return {
    'ai.telemetry.metadata.cycleCount': String(cycle),
    'ai.telemetry.metadata.inboxSize': String(inboxSize),
    'ai.telemetry.metadata.consciousnessTokens': String(consciousnessTokens),
  }
}

function stepAttributes({ index, model, usage, finishReason, msToFirstChunk, durationMs }: Generation): Attributes {
  const seconds = Math.max(durationMs, 1) / 1000
  return {
    'gen_ai.operation.name': 'chat',
    'gen_ai.request.model': model,
    'gen_ai.response.finish_reasons': [finishReason],
    'parley.step.index': index,
    'parley.step.usage_estimated': usage.estimated,
    'ai.response.msToFinish': durationMs,
    'ai.response.avgCompletionTokensPerSecond': Math.round((usage.outputTokens / seconds) * 10) / 10,
    ...(msToFirstChunk === null ? {} : { 'ai.response.msToFirstChunk': msToFirstChunk }),
    ...usageAttributes(usage),
  }
}

function usageAttributes(usage: Spent): Attributes {
  return {
    'gen_ai.usage.input_tokens': usage.inputTokens,
    'gen_ai.usage.cache_read.input_tokens': usage.cachedInputTokens,
    'gen_ai.usage.output_tokens': usage.outputTokens,
  }
}
