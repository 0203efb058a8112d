import type { Cluster, Redis } from 'ioredis'
import { encodeCursor, newEpoch } from '../cursor.ts'
import {
  type AppendResult,
  KEPT_EMPTY_MS,
  KEPT_ENTRIES,
  KEPT_FINISHED_DRAFT_MS,
  KEPT_MS,
  KEPT_ONCE_KEYS,
  type LogEvent,
  LogUnavailableError,
  type TextDelta,
} from '../log.ts'

/**
 * The event log in Redis. Each script is one atomic step. The keys of a topic share a hash tag:
 * - entries, a stream: id `<n>-0`, fields `t` (time in ms), `e` (the event's JSON) and `b` (the batch that wrote it)
 * - meta, a hash: `e` epoch · `n` offset of the last entry · `b` batch of the last entry · `o` highest ordinal · `s` the
 *   server's run_id when the epoch was created · `x` when the expiry was last set, or `ended` · `w:<writer>` the last
 *   batch of each writer and its outcome
 * - once, a sorted set: the idempotency keys by offset
 * - sealed, one key per seal
 * - drafts: for each message a hash of part index -> UTF-16 length, with `x`; and for each part a key with the part's
 *   text. The text is JSON-escaped, so that a delta that ends within a surrogate pair is stored unchanged.
 *
 * The expiry is set at most every 10 minutes, so 10 minutes are added to the retention times.
 */

const EXPIRY_INTERVAL_MS = 10 * 60 * 1000
/** How long the outcome of a batch is kept at least, so that the same batch can be sent again. */
const WRITER_KEPT_MS = 10 * 60 * 1000
/**
 * A wake-up message contains its entries if they have at most this many bytes. A larger message contains only their
 * offsets.
 */
const MOST_WAKE_UP_BYTES = 16_384

/**
 * The script function `isRewound` returns whether Redis has lost confirmed writes. It detects two cases. In the
 * first case, Redis was restarted or a replica was promoted, so its run_id has changed since the epoch was created.
 * This is not detected if INFO is forbidden. In the second case, the last entry that the caller knows is missing,
 * or was replaced by an entry of another batch.
 */
const COMMON = `
local function lifeOfServer()
  local info = redis.pcall('INFO', 'server')
  local at = type(info) == 'string' and string.find(info, 'run_id:', 1, true)
  return at and string.sub(info, at + 7, at + 46) or ''
end
local function create(entries, meta, once, epoch, life)
  redis.call('DEL', entries, meta, once)
  redis.call('HSET', meta, 'e', epoch, 'n', '0', 's', life)
  redis.call('PEXPIRE', meta, ${KEPT_EMPTY_MS})
end
local function idOf(n) return string.format('%.0f-0', n) end
local function isRewound(entries, known, life, epoch, n, batch)
  if known.s ~= life then return true end
  if batch == '' or epoch ~= known.e then return false end
  if n >= known.n then return n > known.n or batch ~= known.b end
  local found = redis.call('XRANGE', entries, idOf(n), idOf(n))[1]
  return found and found[2][6] ~= batch
end
`

/**
 * Writes a batch of one writer to one topic, and wakes readers with the command `publish`. If the same writer and batch
 * number are sent again, returns the same result without writing.
 *
 * KEYS: entries, meta, once. Then for each operation the seal that it sets or checks and, for an operation on text, the
 * draft and the text of the part.
 *
 * ARGV: writer, batch, now, the epoch to create if there is none, the wake-up channel; epoch, offset and batch of the
 * last entry that the writer knows; `1` to begin a new epoch. Then the operations:
 * - `event`, `1` if it checks a seal, event, idempotency key or '', ordinal or '', `1` if a topic without an ordinal
 *   accepts any
 * - `forgetting`, with the arguments of `event`: drops all earlier entries; must be the first operation of a batch
 * - `delta`, `1` if it checks a seal, event, part, offset, length, text
 * - `whole`, with the arguments of `delta`: replaces the text of the part
 * - `signal`, channel, text: publishes the text unchanged
 * - `seal`: sets a seal
 * - `finish`: shortens the expiry of a draft and its texts
 * - `expire`, ms: marks the topic as ended
 *
 * Returns the epoch and the outcomes, joined by commas: `a<n>` appended · `d` duplicate · `m<n>` ordinals after n are
 * missing (`m` if the topic has no ordinal) · `s` sealed · `h<n>` the draft already contains the delta, as of entry n ·
 * `o` done · `x` the delta does not continue the draft, so this operation and the following ones were not executed.
 */
const WRITE = `${COMMON}
local entries, meta, once = KEYS[1], KEYS[2], KEYS[3]
local writer, batch, now, bell = 'w:' .. ARGV[1], ARGV[2], ARGV[3], ARGV[5]
local id, life = ARGV[1] .. '.' .. batch, lifeOfServer()
local known = redis.call('HMGET', meta, 'e', 'n', 'o', 'x', writer, 's', 'b')
local epoch = known[1]
if epoch and isRewound(entries, { e = epoch, n = tonumber(known[2]), b = known[7], s = known[6] }, life, ARGV[6], tonumber(ARGV[7]), ARGV[8]) then
  epoch = false
end
local remembered = epoch and known[5] and string.match(known[5], '^' .. batch .. ' %d+ (.+)$')
if remembered then return remembered end
if not epoch or ARGV[9] == '1' then
  epoch, known = ARGV[4], {}
  create(entries, meta, once, epoch, life)
end

local last, ordinal, expiry = tonumber(known[2] or 0), tonumber(known[3] or ""), known[4]
local first, outcomes, sizes, events, ends = last + 1, { epoch }, {}, {}, nil

local function grow(kind, draft, text, part, offset, length, added)
  local held = redis.call('HMGET', draft, part, 'x')
  local has = tonumber(held[1] or 0)
  if kind == 'whole' then
    redis.call('SET', text, added)
    offset = 0
  else
    if has > offset and has >= offset + length then return 'h' .. last end
    if has ~= offset then return 'x' end
    if redis.call('APPEND', text, added) == #added and offset > 0 then
      redis.call('DEL', text)
      return 'x'
    end
  end
  if has == 0 or kind == 'whole' or now - (held[2] or 0) > ${EXPIRY_INTERVAL_MS} then
    redis.call('HSET', draft, part, offset + length, 'x', now)
    redis.call('PEXPIRE', draft, ${KEPT_MS + EXPIRY_INTERVAL_MS})
    redis.call('PEXPIRE', text, ${KEPT_MS + EXPIRY_INTERVAL_MS})
  else
    redis.call('HSET', draft, part, offset + length)
  end
end

local function finish(draft)
  for _, part in ipairs(redis.call('HKEYS', draft)) do
    if part ~= 'x' then redis.call('PEXPIRE', draft .. ':' .. part, ${KEPT_FINISHED_DRAFT_MS}) end
  end
  redis.call('PEXPIRE', draft, ${KEPT_FINISHED_DRAFT_MS})
end

local function admit(key, number, isFirst)
  if number and number ~= (ordinal or 0) + 1 and (ordinal or not isFirst) then
    return ordinal and number <= ordinal and 'd' or 'm' .. (ordinal or '')
  end
  if key ~= '' then
    if redis.call('ZADD', once, 'NX', last + 1, key) == 0 then return 'd' end
    local count = redis.call('ZCARD', once)
    if count > ${KEPT_ONCE_KEYS} then redis.call('ZREMRANGEBYRANK', once, 0, count - ${KEPT_ONCE_KEYS} - 1) end
    if count == 1 then redis.call('PEXPIRE', once, redis.call('PTTL', meta)) end
  end
  ordinal = number or ordinal
end

local a, k = 10, 4
while ARGV[a] do
  local kind, event, outcome = ARGV[a], ARGV[a + 2], nil
  if kind == 'seal' then
    redis.call('SET', KEYS[k], '1', 'PX', ${KEPT_MS})
    outcome, a, k = 'o', a + 1, k + 1
  elseif kind == 'finish' then
    finish(KEYS[k])
    outcome, a, k = 'o', a + 1, k + 1
  elseif kind == 'signal' then
    redis.call('PUBLISH', ARGV[a + 1], ARGV[a + 2])
    outcome, a = 'o', a + 3
  elseif kind == 'expire' then
    outcome, ends, a = 'o', ARGV[a + 1], a + 2
  else
    if ARGV[a + 1] == '1' then
      if redis.call('EXISTS', KEYS[k]) == 1 then outcome = 's' end
      k = k + 1
    end
    if kind == 'event' or kind == 'forgetting' then
      outcome = outcome or admit(ARGV[a + 3], tonumber(ARGV[a + 4]), ARGV[a + 5] == '1')
      if kind == 'forgetting' and not outcome then redis.call('XTRIM', entries, 'MAXLEN', 0) end
      a = a + 6
    else
      outcome = outcome or grow(kind, KEYS[k], KEYS[k + 1], ARGV[a + 3], tonumber(ARGV[a + 4]), tonumber(ARGV[a + 5]), ARGV[a + 6])
      a, k = a + 7, k + 2
    end
  end
  if not outcome then
    last = last + 1
    redis.call('XADD', entries, 'MAXLEN', '~', ${KEPT_ENTRIES}, idOf(last), 't', now, 'e', event, 'b', id)
    events[#events + 1], sizes[#sizes + 1] = event, #event
    outcome = 'a' .. last
  end
  outcomes[#outcomes + 1] = outcome
  if outcome == 'x' then break end
end

local answer = table.concat(outcomes, ',')
redis.call('HSET', meta, 'n', last, 'o', ordinal or '', writer, batch .. ' ' .. now .. ' ' .. answer,
  'b', last >= first and id or known[7] or '')
if last >= first then
  if first == 1 or (expiry ~= 'ended' and now - (expiry or 0) > ${EXPIRY_INTERVAL_MS}) then
    if expiry ~= 'ended' then
      redis.call('HSET', meta, 'x', now)
      redis.call('PEXPIRE', meta, ${KEPT_MS + EXPIRY_INTERVAL_MS})
    end
    local left = redis.call('PTTL', meta)
    redis.call('PEXPIRE', entries, left)
    redis.call('PEXPIRE', once, left)
    local fields = redis.call('HGETALL', meta)
    for i = 1, #fields, 2 do
      local written = string.sub(fields[i], 1, 2) == 'w:' and string.match(fields[i + 1], '^%d+ (%d+)')
      if written and now - written > ${WRITER_KEPT_MS} then redis.call('HDEL', meta, fields[i]) end
    end
  end
end
if last >= first or ARGV[9] == '1' then
  local json = table.concat(events, ',')
  local message = '{"epoch":"' .. epoch .. '","first":' .. first .. ',"last":' .. last .. ',"at":' .. now
    .. ',"batch":"' .. id .. '","before":"' .. (known[7] or '') .. '"'
  if #json <= ${MOST_WAKE_UP_BYTES} then
    message = message .. ',"bytes":[' .. table.concat(sizes, ',') .. '],"events":[' .. json .. ']'
  end
  redis.call(publish, bell, message .. '}')
end
if ends then
  redis.call('HSET', meta, 'x', 'ended')
  for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], ends) end
end
return answer
`

/**
 * Reads the end of a topic and, if asked, the entries after an offset.
 *
 * KEYS: entries, meta, once. ARGV: the epoch to create if there is none. For a read of entries also the epoch, offset
 * and limit of the read, and the batch of the entry at that offset if the caller knows it.
 *
 * Returns the epoch, offset and batch of the last entry, and the entries after the given offset. If there is a gap, it
 * returns no list of entries.
 */
const READ = `${COMMON}
local function state()
  local known = redis.call('HMGET', KEYS[2], 'e', 'n', 'b', 's')
  return { e = known[1], n = tonumber(known[2] or 0), b = known[3] or '', s = known[4] }
end
local known, after, life = state(), tonumber(ARGV[3]), lifeOfServer()
if not known.e or isRewound(KEYS[1], known, life, ARGV[2], after, ARGV[5] or '') then
  create(KEYS[1], KEYS[2], KEYS[3], ARGV[1], life)
  known = state()
end
local answer = { known.e, tostring(known.n), known.b }
if ARGV[2] ~= known.e or after > known.n then return answer end
if after < known.n then
  local found = redis.call('XRANGE', KEYS[1], idOf(after + 1), '+', 'COUNT', ARGV[4])
  if #found == 0 or found[1][1] ~= idOf(after + 1) then return answer end
  answer[4] = found
else
  answer[4] = {}
end
return answer
`

type StreamEntry = [id: string, fields: string[]]
type Arguments = (string | number)[]

/** A command connection on which the scripts are defined. */
export type ScriptedRedis = Redis & {
  logWrite(keys: number, ...keysAndArguments: Arguments): Promise<string>
  logRead(
    ...keysAndArguments: Arguments
  ): Promise<[epoch: string, last: string, batch: string, entries?: StreamEntry[]]>
}

/** The command that publishes wake-up messages. */
export type PublishCommand = 'PUBLISH' | 'SPUBLISH'

export function defineScripts(redis: Redis | Cluster, publish: PublishCommand): ScriptedRedis {
  redis.defineCommand('logWrite', { lua: `local publish = '${publish}'\n${WRITE}` })
  redis.defineCommand('logRead', { lua: READ, numberOfKeys: 3 })
  return redis as unknown as ScriptedRedis
}

/**
 * Returns the key names under a prefix, as the scripts expect them. All keys of a topic are on one node of a
 * cluster.
 */
export function createKeys(prefix: string) {
  const draft = (topic: string, messageId: string) => `${prefix}draft:{${topic}}:${messageId}`
  return {
    topic: (topic: string): [entries: string, meta: string, once: string] => {
      const key = `${prefix}log:{${topic}}`
      return [key, `${key}:meta`, `${key}:once`]
    },
    draft,
    text: (topic: string, messageId: string, partIndex: number | string) => `${draft(topic, messageId)}:${partIndex}`,
    seal: (topic: string, seal: string) => `${prefix}sealed:{${topic}}:${seal}`,
  }
}

export type Keys = ReturnType<typeof createKeys>

/** A single write to a topic. */
export type Operation =
  | {
      type: 'event'
      json: string
      unlessSealed: string | undefined
      once: string | undefined
      ordinal: number | undefined
      /** See AppendOptions. */
      isFirst?: boolean
      forgets?: boolean
    }
  /**
   * Appends a delta to a draft. `replaces`: the delta is the whole text of the part. `event`: the event to append
   * instead of the delta.
   */
  | {
      type: 'text'
      delta: TextDelta
      whole: () => string
      unlessSealed: string | undefined
      replaces: boolean
      event?: LogEvent
    }
  | { type: 'seal'; seal: string }
  | { type: 'finish'; messageId: string }
  /** Publishes a signal on another channel, in the same batch. */
  | { type: 'signal'; channel: string; text: string }
  | { type: 'expire'; ms: number }

/**
 * The outcome of an operation. `misfit`: the delta does not continue the draft, so this operation and the rest of
 * its batch were not executed.
 */
export type OperationResult = AppendResult | { type: 'done' } | { type: 'misfit' }

/** Returns the size of an operation within a batch, in characters. */
export function sizeOf(operation: Operation): number {
  if (operation.type === 'event') return operation.json.length
  return operation.type === 'text' ? operation.delta.delta.length : 0
}

/** Returns the seal that the operation sets or checks. */
function sealOf(operation: Operation): string | undefined {
  if (operation.type === 'seal') return operation.seal
  return 'unlessSealed' in operation ? operation.unlessSealed : undefined
}

/** Adds the keys and arguments of an operation to those of its batch, in the order that the script expects. */
function encode(
  operation: Operation,
  topic: string,
  keys: Keys,
  into: { keys: string[]; args: (string | number)[] },
): void {
  const seal = sealOf(operation)
  if (seal !== undefined) into.keys.push(keys.seal(topic, seal))
  const mayBeSealed = seal === undefined ? '0' : '1'
  switch (operation.type) {
    case 'event':
      into.args.push(operation.forgets ? 'forgetting' : 'event', mayBeSealed, operation.json)
      into.args.push(operation.once ?? '', operation.ordinal ?? '', operation.isFirst ? '1' : '0')
      return
    case 'text': {
      const { messageId, partIndex, offset, delta } = operation.delta
      into.keys.push(keys.draft(topic, messageId), keys.text(topic, messageId, partIndex))
      const event = operation.event ?? { type: 'MessageTextDelta', messageId, partIndex, offset, delta }
      const escaped = JSON.stringify(delta).slice(1, -1)
      into.args.push(
        operation.replaces ? 'whole' : 'delta',
        mayBeSealed,
        JSON.stringify(event),
        partIndex,
        offset,
        delta.length,
        escaped,
      )
      return
    }
    case 'seal':
      into.args.push('seal')
      return
    case 'finish':
      into.keys.push(keys.draft(topic, operation.messageId))
      into.args.push('finish')
      return
    case 'signal':
      into.args.push('signal', operation.channel, operation.text)
      return
    case 'expire':
      into.args.push('expire', operation.ms)
  }
}

/** A batch for `logWrite`. `known`: the last publication that its writer knows; null if there is none. */
export interface EncodedBatch {
  topic: string
  writer: string
  number: number
  operations: readonly Operation[]
  wakeUpChannel: string
  known: { epoch: string; offset: number; batch: string } | null
  startsAnew: boolean
}

/** Returns the keys and arguments of `logWrite` for a batch. */
export function encodeBatch(batch: EncodedBatch, keys: Keys): { keys: string[]; args: (string | number)[] } {
  const { topic, writer, number, operations, wakeUpChannel, startsAnew } = batch
  const known = batch.known ?? { epoch: '', offset: 0, batch: '' }
  const into = { keys: [...keys.topic(topic)] as string[], args: [] as (string | number)[] }
  into.args.push(
    writer,
    number,
    Date.now(),
    newEpoch(),
    wakeUpChannel,
    known.epoch,
    known.offset,
    known.batch,
    startsAnew ? '1' : '0',
  )
  for (const operation of operations) encode(operation, topic, keys, into)
  return into
}

/** Replaces a delta with the whole text of its part. @throws if the text is not available */
export function withWholeText(operation: Operation): Operation {
  if (operation.type !== 'text') throw new LogUnavailableError('Redis refused a write for which no draft exists.')
  const delta = { ...operation.delta, offset: 0, delta: operation.whole() }
  return { ...operation, delta, replaces: true }
}

/** Parses the result of a batch. `last`: the offset of its last appended publication; null if it appended none. */
export function parseResults(answer: string): { epoch: string; last: number | null; results: OperationResult[] } {
  const [epoch, ...texts] = answer.split(',') as [string, ...string[]]
  const appended = texts.filter((text) => text[0] === 'a')
  const last = appended.length === 0 ? null : Number(appended.at(-1)!.slice(1))
  return { epoch, last, results: texts.map((text) => resultOf(epoch, text)) }
}

function resultOf(epoch: string, text: string): OperationResult {
  const offset = Number(text.slice(1))
  switch (text[0]) {
    case 'a':
    case 'h':
      return { type: 'appended', cursor: encodeCursor({ epoch, offset }) }
    case 'm':
      return { type: 'missing', after: text === 'm' ? null : offset }
    case 's':
      return { type: 'sealed' }
    case 'd':
      return { type: 'duplicate' }
    case 'o':
      return { type: 'done' }
    default:
      return { type: 'misfit' }
  }
}
