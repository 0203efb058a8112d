import type { Draft } from './event-log.ts'
import type { RedisConnection } from './redis.ts'
import type { Keys, ScriptedRedis } from './redis-scripts.ts'

/** Reads and ends the drafts that appending has grown. */
export interface RedisDrafts {
  read(messageIds: readonly string[]): Promise<Map<string, Draft>>
  finish(messageId: string): Promise<void>
}

export function createRedisDrafts(connection: RedisConnection, redis: ScriptedRedis, keys: Keys): RedisDrafts {
  async function readOne(messageId: string): Promise<Draft> {
    const parts = (await redis.hkeys(keys.draft(messageId))).filter((part) => part !== 'x')
    const texts = parts.length > 0 ? await redis.mget(parts.map((part) => keys.text(messageId, part))) : []
    const draft: Draft = new Map()
    for (const [index, text] of texts.entries())
      if (text !== null) draft.set(Number(parts[index]), JSON.parse(`"${text}"`))
    return draft
  }

  return {
    async read(messageIds) {
      const ids = [...new Set(messageIds)]
      const drafts = await connection.call(() => Promise.all(ids.map(readOne)))
      return new Map(ids.map((id, index) => [id, drafts[index]!] as const).filter(([, draft]) => draft.size > 0))
    },
    async finish(messageId) {
      await connection.call(() => redis.logFinishDraft(keys.draft(messageId)))
    },
  }
}
