import type { Registry } from 'prom-client'
import type { Config } from '../config.ts'
import { createCycles } from '../engine/cycle.ts'
import { createExecutor } from '../engine/execute-run.ts'
import { createFigures } from '../engine/figures.ts'
import { createObserver } from '../engine/observation.ts'
import { createSceneLoader } from '../engine/scene.ts'
import { createWorker, type Worker } from '../engine/worker.ts'
import type { ModelRegistry } from '../models/registry.ts'
import type { Platform } from '../platform/platform.ts'
import { openTelemetry } from '../platform/telemetry.ts'
import { createToolWaits } from '../runs/tool-waits.ts'
import { createGuardedHttp } from '../tools/custom/guarded-http.ts'
import { createMcpTools } from '../tools/mcp/mcp-tools.ts'
import { createMcpToolset } from '../tools/mcp/mcp-toolset.ts'
import { createToolbox } from '../tools/toolbox.ts'
import type { Api } from './api.ts'
import type { Core } from './core.ts'

export interface EngineParts {
  config: Config
  core: Core
  api: Api
  models: ModelRegistry
  metrics: Registry
}

/** What executes runs in this process. */
export interface Engine {
  /** Gives running work `graceMs`, hands the rest back to the queue. */
  close(graceMs: number): Promise<void>
}

/** Builds what executes runs, and begins. */
export async function startEngine(
  platform: Platform,
  { config, core, api, models, metrics }: EngineParts,
): Promise<Engine> {
  const http = createGuardedHttp({ allowPrivate: config.allowPrivateTools })
  const mcpTools = createMcpTools({ http, clock: platform.clock })
  const toolbox = createToolbox({
    ...core,
    ...api,
    historyLimit: config.limits.historyLimit,
    http,
    mcp: createMcpToolset(platform, mcpTools),
    clock: platform.clock,
    secretBox: platform.secretBox,
  })
  const telemetry = await openTelemetry(config.telemetry)
  const executor = createExecutor(platform, {
    ...core,
    observer: createObserver({ telemetry, figures: createFigures(metrics), journal: core.journal }),
    waits: createToolWaits(platform),
    scenes: createSceneLoader(platform, core),
    toolbox,
    models,
  })
  const worker: Worker = await createWorker(platform, {
    executor,
    lifecycle: core.lifecycle,
    cycles: createCycles(platform, core),
    handlers: {
      'tool-deadline': ({ toolCallId }) => core.toolCalls.expire(toolCallId),
      'run-deadline': ({ runId }) => core.lifecycle.expire(runId),
      plan: ({ planId }) => core.planFiring.fire(planId),
    },
    sweeps: [core.lifecycle.sweep, core.planFiring.sweep],
  })
  return {
    async close(graceMs) {
      await worker.drain(graceMs)
      await telemetry.close()
      await mcpTools.close()
      await http.close()
    },
  }
}
