import type { Config } from '../config.ts'
import { createCarryOut } from '../engine/carry-out.ts'
import { createExecutor } from '../engine/execute-run.ts'
import { createGenerationMetrics } from '../engine/generation-metrics.ts'
import { createNotifying } from '../engine/notifying.ts'
import { createObserver } from '../engine/observation.ts'
import { startUpkeep, type Upkeep } from '../engine/upkeep.ts'
import { createWorker, type Worker } from '../engine/worker.ts'
import { createCycles } from '../minds/cycle.ts'
import { createSceneLoader } from '../minds/scene.ts'
import type { Models } from '../models/models.ts'
import { createRetention } from '../operation/retention.ts'
import type { Platform } from '../platform/platform.ts'
import { openTelemetry } from '../platform/telemetry.ts'
import { createCarrying } from '../runs/carrying.ts'
import { CLAIMABLE } from '../runs/claiming.ts'
import { createDue } from '../runs/due.ts'
import { createLeases } from '../runs/leases.ts'
import { createToolWaits } from '../runs/tool-waits.ts'
import { createGuardedHttp } from '../tools/custom/guarded-http.ts'
import { createMcpTools } from '../tools/mcp/mcp-tools.ts'
import { createMcpToolset } from '../tools/mcp/mcp-toolset.ts'
import { createToolbox } from '../tools/toolbox.ts'
import type { Core } from './core.ts'
import type { OwnDomain } from './domain.ts'

export interface EngineParts {
  config: Config
  core: Core
  domain: OwnDomain
  models: Models
}

/** Executes runs in this process. */
export interface Engine {
  /** Gives running work `graceMs` to finish, then releases it to other processes. */
  close(graceMs: number): Promise<void>
}

/** Builds and starts the engine. */
export async function startEngine(platform: Platform, { config, core, domain, models }: EngineParts): Promise<Engine> {
  const http = createGuardedHttp({ allowPrivate: config.allowPrivateTools })
  const mcpTools = createMcpTools({ http, clock: platform.clock })
  const { limits } = config
  const mcp = createMcpToolset(platform, mcpTools)
  const parts = { http, mcp, secretBox: platform.secretBox, limits, discretion: core.discretion }
  const toolbox = createToolbox({
    ...core,
    ...domain,
    ...parts,
    historyLimit: limits.historyLimit,
  })
  const telemetry = await openTelemetry(config.telemetry)
  const leases = await createLeases(platform, core.lifecycle.stopSignals)
  const executor = createExecutor(platform, {
    ...core,
    leases,
    observer: createObserver({
      telemetry,
      generationMetrics: createGenerationMetrics(platform),
      journal: core.journal,
    }),
    waits: createToolWaits(platform),
    scenes: createSceneLoader(platform, core),
    toolbox,
    models,
  })
  const worker = await createWorker(platform, {
    executor,
    lifecycle: core.lifecycle,
    cycles: createCycles(platform, core),
  })
  const calls = await startCallWork(platform, core, parts)
  const ended = [rarely(domain.deletion.sweep), createRetention(platform).sweep]
  const upkeep = keepUp(platform, core, { worker, calls, ended })

  return {
    async close(graceMs) {
      await worker.drain(graceMs)
      await upkeep.close()
      await calls.close()
      await leases.close()
      await telemetry.close()
      await mcpTools.close()
      await http.close()
    },
  }
}

const RARELY = 6

/** Runs a sweep only every sixth time, once a minute, because dead processes seldom leave this kind of work behind. */
function rarely(sweep: () => Promise<void>): () => Promise<void> {
  let times = 0
  return async () => {
    times += 1
    if (times % RARELY === 0) await sweep()
  }
}

/** Starts the work on calls that wait for people, or that people have approved. */
async function startCallWork(
  platform: Platform,
  { toolAnswers, approvals, settling }: Core,
  parts: Parameters<typeof createCarryOut>[1],
) {
  const carrying = await createCarrying(platform, { settling, carryOut: createCarryOut(platform, parts) })
  const notifying = createNotifying(platform, parts)
  return {
    timed: [toolAnswers.timed, approvals.timed, carrying.timed, notifying.timed],
    /** For work that a dead process left unfinished. */
    sweep: () => approvals.recheck(),
    async close() {
      await carrying.close()
      await notifying.close()
    },
  }
}

/** Starts the timers and sweeps: for everything with a due time, and for what dead processes left behind. */
function keepUp(
  platform: Platform,
  core: Core,
  { worker, calls, ended }: { worker: Worker; calls: CallWork; ended: (() => Promise<void>)[] },
): Upkeep {
  const { lifecycle, leaving, planFiring, inboxRetrying } = core
  const due = createDue(platform, [
    ...lifecycle.timed,
    core.usage.timed,
    core.inbox.timed,
    { what: 'an inbox event to be tried again', rows: inboxRetrying.due, handle: inboxRetrying.comeBack },
    ...calls.timed,
    { what: 'a plan', rows: planFiring.due, handle: () => planFiring.serve() },
    { what: 'a run to claim', rows: CLAIMABLE.runs, handle: async () => worker.ring() },
    { what: 'an inbox', rows: CLAIMABLE.inboxes, handle: async () => worker.ring() },
  ])
  const sweeps = [lifecycle.sweep, leaving.sweep, planFiring.sweep, calls.sweep, ...ended]
  return startUpkeep(platform, { due, sweeps })
}

type CallWork = Awaited<ReturnType<typeof startCallWork>>
