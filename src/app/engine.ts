import type { PushKeyPair } from '../access/push-keys.ts'
import type { Config } from '../config.ts'
import { createCycles } from '../context/cycle.ts'
import { createSceneLoader } from '../context/scene.ts'
import { executeApprovedCalls } from '../engine/approved-calls.ts'
import { cancelRemoteTasks } from '../engine/cancel-remote-tasks.ts'
import { createConnectedCalls } from '../engine/connected-calls.ts'
import { createExecutor } from '../engine/execute-run.ts'
import { createGenerationMetrics } from '../engine/generation-metrics.ts'
import { createMailing } from '../engine/mailing.ts'
import { adoptFormerNotices, createNotifying } from '../engine/notifying.ts'
import { createObserver } from '../engine/observation.ts'
import { createPictures } from '../engine/pictures.ts'
import { createPushingTasks, type PushingTasks } from '../engine/pushing-tasks.ts'
import { createSendingPush } from '../engine/sending-push.ts'
import { startUpkeep, type Upkeep } from '../engine/upkeep.ts'
import { createWorker, type Worker } from '../engine/worker.ts'
import { createAwaitAnswer } from '../flows/await-answer.ts'
import { createTextEmbedding, endTextEmbedding } from '../flows/embed-texts.ts'
import { createCopyIndexing } from '../flows/fork-space.ts'
import { createKeepFiles } from '../flows/keep-files.ts'
import { createMailNotices } from '../flows/mail-notices.ts'
import { createNotify } from '../flows/notify.ts'
import { createChangePublishing } from '../flows/publish-change.ts'
import { createUseGrant } from '../flows/use-grant.ts'
import { type BoundJob, bindJob } from '../jobs/job.ts'
import { DELETE_OLD_ROWS, FINISH_DELETIONS, FIRE_PLAN, RESTORE_JOBS, SWEEP_FILES } from '../jobs/queues.ts'
import { startJobWorker } from '../jobs/worker.ts'
import type { Embedder } from '../lib/embedder.ts'
import type { Models } from '../models/models.ts'
import { createFileSweep } from '../operation/file-sweep.ts'
import { createRetention } from '../operation/retention.ts'
import type { Platform } from '../platform/platform.ts'
import { openTelemetry } from '../platform/telemetry.ts'
import { CLAIMABLE } from '../runs/claiming.ts'
import { createDue } from '../runs/due.ts'
import { createLeases } from '../runs/leases.ts'
import { adoptApprovedCalls } from '../stores/call-store.ts'
import { createRemoteAgents } from '../tools/a2a/remote-agents.ts'
import type { AddressGuardOptions } from '../tools/custom/guarded-connector.ts'
import { createGuardedHttp } from '../tools/custom/guarded-http.ts'
import { createMcpTools } from '../tools/mcp/mcp-tools.ts'
import { createMcpToolset } from '../tools/mcp/mcp-toolset.ts'
import { createMcpOAuth, type McpOAuth } from '../tools/mcp/oauth.ts'
import { createToolbox } from '../tools/toolbox.ts'
import type { Core } from './core.ts'
import type { OwnDomain } from './domain.ts'
import type { AppOptions } from './outside.ts'

/** The maximum size of a response from a push service, or another receiver of notifications. */
const LARGEST_PUSH_ANSWER_BYTES = 65_536

export interface EngineParts {
  config: Config
  core: Core
  domain: OwnDomain
  models: Models
  pushKeys: PushKeyPair | null
  /** The embedder, which computes the vectors of texts; null if texts are not searched by meaning. */
  embedder: Embedder | null
  /** The rules for connections to push services. */
  push: AddressGuardOptions
  /** Replaces the clients with which agents' tools reach other servers. */
  tools?: AppOptions['tools']
}

/** Executes runs in this process. */
export interface Engine {
  /** Gives active runs `graceMs` to finish, and then releases them to other processes. */
  close(graceMs: number): Promise<void>
}

/** Builds and starts the engine. */
export async function startEngine(
  platform: Platform,
  { config, core, domain, models, pushKeys, embedder, push, tools }: EngineParts,
): Promise<Engine> {
  const http = tools?.http ?? createGuardedHttp({ allowPrivate: config.allowPrivateTools })
  // Users supply the endpoints, so requests to private addresses are refused.
  const pushHttp = createGuardedHttp({ ...push, maxBytes: LARGEST_PUSH_ANSWER_BYTES })
  const mcpTools = tools?.mcp ?? createMcpTools({ http, clock: platform.clock })
  const { limits } = config
  const oauth = createMcpOAuth(platform, { http })
  const mcp = createMcpToolset(platform, mcpTools, oauth)
  const remotes = createRemoteAgents(platform, { http })
  const parts = {
    ...createKeepFiles(platform, core),
    http,
    mcp,
    remotes,
    secretBox: platform.secretBox,
    limits,
    discretion: core.discretion,
  }
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
    ...createAwaitAnswer(platform),
    ...createUseGrant(platform),
    keepFiles: parts.keepFiles,
    scenes: createSceneLoader(platform, { ...core, files: domain.files }),
    pictures: createPictures(domain.files),
    toolbox,
    remotes,
    models,
  })
  const worker = await createWorker(platform, {
    executor,
    lifecycle: core.lifecycle,
    cycles: createCycles(platform),
  })
  const upkeep = keepUp(platform, core, { worker, oauth })
  const { settleCall, lifecycle } = core
  if (embedder === null) await endTextEmbedding(platform)
  const pushingTasks = createPushingTasks(platform, { ...domain, http: pushHttp })
  const jobs = await startJobWorker(platform, [
    createNotifying(platform, parts),
    ...createMailing(platform, domain),
    createNotify(platform),
    createMailNotices(platform),
    cancelRemoteTasks(platform, remotes),
    createSendingPush(platform, { http: pushHttp, pushKeys, tokens: domain.tokens }),
    executeApprovedCalls(platform, { ...parts, settleCall, stopSignals: lifecycle.stopSignals }),
    pushingTasks.job,
    ...bindJobs(platform, { core, domain, pushingTasks }),
    ...(embedder === null ? [] : [createTextEmbedding(platform, embedder)]),
  ])

  return {
    async close(graceMs) {
      await worker.drain(graceMs)
      await Promise.all([upkeep.close(), jobs.close()])
      await leases.close()
      await telemetry.close()
      await mcpTools.close()
      await Promise.all([http.close(), pushHttp.close()])
    },
  }
}

/** Binds the jobs of plans, retention, deletions and restored backups to their handlers. */
function bindJobs(
  platform: Platform,
  { core, domain: { deletion }, pushingTasks }: { core: Core; domain: OwnDomain; pushingTasks: PushingTasks },
): BoundJob[] {
  const { planFiring } = core
  const isAnythingDeleted = Object.values(platform.config.retention).some((days) => days !== null)
  const retention = createRetention(platform)
  const files = createFileSweep(platform, { resumable: core.resumableUploads, sharedStorage: core.sharedStorage })
  return [
    ...(isAnythingDeleted ? [bindJob(DELETE_OLD_ROWS, (_, { signal }) => retention.sweep(signal))] : []),
    // A replay fires plans at the recorded times, so their jobs are not performed.
    ...(platform.conductor === undefined
      ? [bindJob(FIRE_PLAN, ({ planId }, job) => planFiring.fire(planId, job))]
      : []),
    createCopyIndexing(platform),
    createChangePublishing(platform, core),
    core.messageDeletions.copyDeletion,
    bindJob(FINISH_DELETIONS, (_, { signal }) => deletion.sweep(signal)),
    bindJob(SWEEP_FILES, (_, { signal }) => files.sweep(signal)),
    bindJob(RESTORE_JOBS, async () => {
      await planFiring.restore()
      await adoptApprovedCalls(platform.db.prisma)
      await adoptFormerNotices(platform)
      await pushingTasks.restore()
    }),
  ]
}

/**
 * Starts the timers and sweeps of runs, calls and inboxes. They handle rows that are due and the unfinished work of
 * dead processes.
 */
function keepUp(platform: Platform, core: Core, { worker, oauth }: { worker: Worker; oauth: McpOAuth }): Upkeep {
  const { lifecycle, leaving, inboxRetrying, decideCall } = core
  const due = createDue(platform, [
    ...lifecycle.timed,
    core.usage.timed,
    core.inbox.timed,
    { what: 'an inbox event to retry', rows: inboxRetrying.due, handle: inboxRetrying.comeBack },
    ...decideCall.timed,
    { what: 'a run to claim', rows: CLAIMABLE.runs, handle: async () => worker.ring() },
    { what: 'an inbox', rows: CLAIMABLE.inboxes, handle: async () => worker.ring() },
  ])
  const connectedCalls = createConnectedCalls(platform, { oauth, decideCall })
  const sweeps = [lifecycle.sweep, leaving.sweep, decideCall.recheck, connectedCalls.sweep]
  return startUpkeep(platform, { due, sweeps })
}
