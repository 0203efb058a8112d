import { createCore } from '../src/app/core.ts'
import { UNMARKED } from '../src/confidentiality/marks.ts'
import { createCycles } from '../src/context/cycle.ts'
import { newId } from '../src/lib/ids.ts'
import { createJournal } from '../src/runs/journal.ts'
import { insertEvents } from '../src/stores/inbox-store.ts'
import { startApplication, type TestApplication } from '../test/support/application.ts'
import { thinkingOn } from '../test/support/thinking.ts'
import { type Benchmark, percentile } from './support/figures.ts'

const FEW = 10
const MANY = 10_000
const SAVES = 300
const WARM_UP = 50
const THOUGHT = { role: 'assistant' as const, content: 'I read what came in, and there is nothing to do. '.repeat(20) }

/** Creates an agent with that many cycles, each as long as the measured ones. */
async function agentAfter(parley: TestApplication, count: number): Promise<string> {
  const { id } = await thinkingOn(parley).bot(`After ${count}`)
  const messages = [{ role: 'user', content: 'INBOX (1 event, then):\n- [SERVICE bench] {}' }, THOUGHT]
  const rows = Array.from({ length: count }, (_, index) => ({
    agentId: id,
    index,
    runId: newId('run'),
    messages,
    summary: 'Nothing to do.',
    tokenEstimate: 260,
  }))
  for (let at = 0; at < count; at += 1000) {
    await parley.app.platform.db.prisma.cycle.createMany({ data: rows.slice(at, at + 1000) })
  }
  await parley.app.platform.db.prisma.agent.update({ where: { id }, data: { cycleCount: count } })
  return id
}

/** Returns a function that runs one cycle without a model, and returns how many ms its end took, including the save. */
function thinkerOf({ app }: TestApplication) {
  const { platform } = app
  const core = createCore(platform)
  const cycles = createCycles(platform)
  const journal = createJournal(platform)
  return async (agentId: string): Promise<number> => {
    const event = { agentId, type: 'SERVICE' as const, payload: { name: 'bench', payload: {} }, depth: 0, ...UNMARKED }
    const rootId = newId('trg')
    await platform.db.transaction((tx) => insertEvents(tx, [{ ...event, dedupKey: rootId, rootId }]))
    const claim = await cycles.claim(agentId)
    if (claim === null) throw new Error('the cycle could not be claimed')
    const usage = { inputTokens: 1, cachedInputTokens: 0, outputTokens: 1, estimated: false }
    const sent = {
      index: 0,
      model: 'none',
      failedModels: [],
      instructions: '',
      messagesKept: 0,
      followsResponse: true,
      messagesAdded: [],
      activeTools: [],
      usage,
    }
    const timing = { msToFirstChunk: 1, startedAt: new Date(), durationMs: 1, finishReason: 'stop', assistant: THOUGHT }
    await journal.generated(claim, { ...sent, ...timing }, [])
    const startedAt = performance.now()
    await core.lifecycle.end(claim, { status: 'COMPLETED', stopReason: 'FINISHED', summary: 'Nothing to do.' })
    return performance.now() - startedAt
  }
}

export const saving: Benchmark = {
  question: `What does it cost to end and save a think cycle at cycle ${FEW} and at cycle ${MANY.toLocaleString('en')}, on PostgreSQL and Redis?`,
  async run() {
    const parley = await startApplication({ stack: 'postgres', worker: false })
    const agents = { few: await agentAfter(parley, FEW), many: await agentAfter(parley, MANY) }
    await parley.app.platform.db.prisma.$executeRaw`ANALYZE "Cycle"`
    const think = thinkerOf(parley)
    const took = { few: [] as number[], many: [] as number[] }
    for (let n = 0; n < WARM_UP + SAVES; n++) {
      // The two agents take turns, so that other load affects both alike.
      const times = { few: await think(agents.few), many: await think(agents.many) }
      if (n < WARM_UP) continue
      took.few.push(times.few)
      took.many.push(times.many)
    }
    await parley.close()
    const [few, many] = [percentile(took.few, 0.5), percentile(took.many, 0.5)]
    return [
      { what: `median, from cycle ${FEW} on`, value: few, unit: 'ms' },
      {
        what: `median, from cycle ${MANY.toLocaleString('en')} on`,
        value: many,
        unit: 'ms',
        bound: { atMost: few * 1.2 },
      },
      { what: 'difference', value: (many / few - 1) * 100, unit: '%', bound: { atMost: 20 } },
    ]
  },
}
