import type { Draft } from '../log.ts'
import type { RedisConnection } from './connection.ts'
import type { Keys, ScriptedRedis } from './scripts.ts'

/** Reads drafts. @throws LogUnavailableError */
export async function readDrafts(
  { connection, redis, keys }: { connection: RedisConnection; redis: ScriptedRedis; keys: Keys },
  topic: string,
  messageIds: readonly string[],
): Promise<Map<string, Draft>> {
  async function readOne(messageId: string): Promise<Draft> {
    const parts = (await redis.hkeys(keys.draft(topic, messageId))).filter((part) => part !== 'x')
    const texts = parts.length > 0 ? await redis.mget(parts.map((part) => keys.text(topic, messageId, part))) : []
    const draft: Draft = new Map()
    for (const [index, text] of texts.entries())
      if (text !== null) draft.set(Number(parts[index]), JSON.parse(`"${text}"`))
    return draft
  }

  const ids = [...new Set(messageIds)]
  const drafts = await connection.call(() => Promise.all(ids.map(readOne)))
  return new Map(ids.map((id, index) => [id, drafts[index]!] as const).filter(([, draft]) => draft.size > 0))
}
