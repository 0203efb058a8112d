import type { Registry } from 'prom-client'
import type { Config } from '../config.ts'
import { createExecutor } from '../engine/execute-run.ts'
import { createFigures } from '../engine/figures.ts'
import { createObserver } from '../engine/observation.ts'
import { startUpkeep } from '../engine/upkeep.ts'
import { createWorker } from '../engine/worker.ts'
import { createCycles } from '../minds/cycle.ts'
import { createSceneLoader } from '../minds/scene.ts'
import type { Models } from '../models/models.ts'
import type { Platform } from '../platform/platform.ts'
import { openTelemetry } from '../platform/telemetry.ts'
import { CLAIMABLE } from '../runs/claiming.ts'
import { createDue } from '../runs/due.ts'
import { createLeases } from '../runs/leases.ts'
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
  models: Models
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
  const leases = await createLeases(platform, core.lifecycle.stopSignals)
  const executor = createExecutor(platform, {
    ...core,
    leases,
    observer: createObserver({ telemetry, figures: createFigures(metrics), journal: core.journal }),
    waits: createToolWaits(platform),
    scenes: createSceneLoader(platform, core),
    toolbox,
    models,
  })
  const worker = await createWorker(platform, { executor, lifecycle: core.lifecycle, cycles: createCycles(platform) })
  const { lifecycle, planFiring, toolAnswers } = core
  const due = createDue(platform, [
    ...lifecycle.timed,
    toolAnswers.timed,
    { what: 'a plan', rows: planFiring.due, handle: () => planFiring.serve() },
    { what: 'a run to claim', rows: CLAIMABLE.runs, handle: async () => worker.ring() },
    { what: 'an inbox', rows: CLAIMABLE.inboxes, handle: async () => worker.ring() },
  ])
  const upkeep = startUpkeep(platform, { due, sweeps: [lifecycle.sweep, planFiring.sweep] })
  return {
    async close(graceMs) {
      await worker.drain(graceMs)
      await upkeep.close()
      await leases.close()
      await telemetry.close()
      await mcpTools.close()
      await http.close()
    },
  }
}
