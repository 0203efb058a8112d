import type { Redis } from 'ioredis'
import { KEPT_EMPTY_MS, KEPT_ENTRIES, KEPT_FINISHED_DRAFT_MS, KEPT_MS, KEPT_ONCE_KEYS } from './event-log.ts'

/**
 * The log in Redis. Each script is one atomic step. Keys of a topic:
 * - entries, a stream: id `<n>-0`, fields `t` (time in ms) and `e` (the event's JSON)
 * - meta, a hash: `e` epoch · `n` number of the last entry · `o` highest ordinal · `s` which life of the server made the
 *   epoch · `x` when the expiry was last set, or `ended` · `w:<writer>` the last batch of each writer and its outcome
 * - once keys, a sorted set by entry number
 * and of a message: draft, a hash of part index -> UTF-16 length, with `x`; and per part its text, JSON-escaped, so that a
 * delta that ends within a surrogate pair is kept whole.
 *
 * Expiry is set anew at most every 10 minutes, which is added to how long things are kept.
 */

const EXPIRY_INTERVAL_MS = 10 * 60 * 1000
const WRITER_KEPT_MS = 60_000
/** A doorbell carries its entries up to this size in bytes; of larger ones it only tells the number. */
const LARGEST_BELL = 16_384

/** `lifeOfServer` changes whenever Redis starts: it may then have lost what it had confirmed. Empty where INFO is forbidden. */
const COMMON = `
local function lifeOfServer()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
end
local function create(entries, meta, once, epoch)
  redis.call('DEL', entries, meta, once)
  redis.call('HSET', meta, 'e', epoch, 'n', '0', 's', lifeOfServer())
  redis.call('PEXPIRE', meta, ${KEPT_EMPTY_MS})
end
`

/**
 * Appends a batch of one writer to one topic. Runs again with the same writer and batch number, it only repeats its answer.
 * KEYS entries, meta, once; then for each operation: its guard if it has one, and for a delta its draft and its text.
 * ARGV writer, batch, now, epoch to take if there is none, bell channel, `1` in a writer's first batch to this topic over
 * this connection; then operations:
 *   `event`, `1` if guarded, event, once key or '', ordinal or ''
 *   `delta`, `1` if guarded, event, part, offset, length, text
 *   `whole`, the same: replaces the part's text
 * Answers with the epoch and the outcomes so far, joined by commas: `a<n>` appended · `d` duplicate · `m<n>` missing after ·
 * `s` sealed · `h<n>` held already, as of n · `x` the draft does not fit: this operation and what follows was not done.
 */
const APPEND = `${COMMON}
local entries, meta, once = KEYS[1], KEYS[2], KEYS[3]
local writer, batch, now, bell = 'w:' .. ARGV[1], ARGV[2], ARGV[3], ARGV[5]
local known = redis.call('HMGET', meta, 'e', 'n', 'o', 'x', writer, 's')
local epoch = known[1]
if epoch and ARGV[6] == '1' and known[6] ~= lifeOfServer() then epoch = false end
if not epoch then
  epoch, known = ARGV[4], {}
  create(entries, meta, once, epoch)
end
local remembered = known[5] and string.match(known[5], '^' .. batch .. ' %d+ (.+)$')
if remembered then return remembered end

local last, ordinal, expiry = tonumber(known[2] or 0), tonumber(known[3] or ""), known[4]
local first, outcomes, sizes, events = last + 1, { epoch }, {}, {}

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

local function admit(key, number)
  if number and ordinal and number ~= ordinal + 1 then
    return number <= ordinal and 'd' or 'm' .. ordinal
  end
  if key ~= '' then
    if redis.call('ZADD', once, 'NX', last + 1, key) == 0 then return 'd' end
    local count = redis.call('ZCARD', once)
    if count > ${KEPT_ONCE_KEYS} then redis.call('ZREMRANGEBYRANK', once, 0, count - ${KEPT_ONCE_KEYS} - 1) end
    if count == 1 then redis.call('PEXPIRE', once, redis.call('PTTL', meta)) end
  end
  ordinal = number or ordinal
end

local a, k = 7, 4
while ARGV[a] do
  local kind, event, outcome = ARGV[a], ARGV[a + 2], nil
  if ARGV[a + 1] == '1' then
    if redis.call('EXISTS', KEYS[k]) == 1 then outcome = 's' end
    k = k + 1
  end
  if kind == 'event' then
    outcome = outcome or admit(ARGV[a + 3], tonumber(ARGV[a + 4]))
    a = a + 5
  else
    outcome = outcome or grow(kind, KEYS[k], KEYS[k + 1], ARGV[a + 3], tonumber(ARGV[a + 4]), tonumber(ARGV[a + 5]), ARGV[a + 6])
    a, k = a + 7, k + 2
  end
  if not outcome then
    last = last + 1
    redis.call('XADD', entries, 'MAXLEN', '~', ${KEPT_ENTRIES}, last .. '-0', 't', now, 'e', event)
    events[#events + 1], sizes[#sizes + 1] = event, #event
    outcome = 'a' .. last
  end
  outcomes[#outcomes + 1] = outcome
  if outcome == 'x' then break end
end

local answer = table.concat(outcomes, ',')
redis.call('HSET', meta, 'n', last, 'o', ordinal or '', writer, batch .. ' ' .. now .. ' ' .. answer)
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
  local json = table.concat(events, ',')
  local message = '{"epoch":"' .. epoch .. '","first":' .. first .. ',"last":' .. last .. ',"at":' .. now
  if #json <= ${LARGEST_BELL} then
    message = message .. ',"bytes":[' .. table.concat(sizes, ',') .. '],"events":[' .. json .. ']'
  end
  redis.call('PUBLISH', bell, message .. '}')
end
return answer
`

/**
 * KEYS entries, meta, once. ARGV epoch to take if there is none; then nothing, or epoch, n and limit of a read.
 * Answers with the epoch, the number of the last entry, and the entries after n; without those where there is a gap.
 */
const READ = `${COMMON}
if redis.call('EXISTS', KEYS[2]) == 0 then create(KEYS[1], KEYS[2], KEYS[3], ARGV[1]) end
local known = redis.call('HMGET', KEYS[2], 'e', 'n')
local last, after = tonumber(known[2]), tonumber(ARGV[3])
if ARGV[2] ~= known[1] or after > last then return known end
if after == last then return { known[1], known[2], {} } end
local found = redis.call('XRANGE', KEYS[1], string.format('%.0f-0', after + 1), '+', 'COUNT', ARGV[4])
if #found == 0 or found[1][1] ~= string.format('%.0f-0', after + 1) then return known end
return { known[1], known[2], found }
`

/** KEYS entries, meta, once. ARGV milliseconds. */
const EXPIRE = `
if redis.call('HEXISTS', KEYS[2], 'e') == 0 then return end
redis.call('HSET', KEYS[2], 'x', 'ended')
for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], ARGV[1]) end
`

/** KEYS draft. Shortens the life of the draft and of its texts, whose keys are its own with the part's index. */
const FINISH_DRAFT = `
for _, part in ipairs(redis.call('HKEYS', KEYS[1])) do
  if part ~= 'x' then redis.call('PEXPIRE', KEYS[1] .. ':' .. part, ${KEPT_FINISHED_DRAFT_MS}) end
end
redis.call('PEXPIRE', KEYS[1], ${KEPT_FINISHED_DRAFT_MS})
`

type StreamEntry = [id: string, fields: string[]]
type Arguments = (string | number)[]

/** A command connection that knows the scripts. */
export type ScriptedRedis = Redis & {
  logAppend(keys: number, ...keysAndArguments: Arguments): Promise<string>
  logRead(...keysAndArguments: Arguments): Promise<[epoch: string, last: string, entries?: StreamEntry[]]>
  logExpire(...keysAndArguments: Arguments): Promise<null>
  logFinishDraft(draft: string): Promise<null>
}

export function defineScripts(redis: Redis): ScriptedRedis {
  redis.defineCommand('logAppend', { lua: APPEND })
  redis.defineCommand('logRead', { lua: READ, numberOfKeys: 3 })
  redis.defineCommand('logExpire', { lua: EXPIRE, numberOfKeys: 3 })
  redis.defineCommand('logFinishDraft', { lua: FINISH_DRAFT, numberOfKeys: 1 })
  return redis as ScriptedRedis
}

/** The keys of the log under a prefix, as the scripts expect them. */
export function createKeys(prefix: string) {
  const draft = (messageId: string) => `${prefix}draft:${messageId}`
  return {
    topic: (topic: string): [entries: string, meta: string, once: string] => {
      const key = `${prefix}log:${topic}`
      return [key, `${key}:meta`, `${key}:once`]
    },
    draft,
    text: (messageId: string, partIndex: number | string) => `${draft(messageId)}:${partIndex}`,
    seal: (guard: string) => `${prefix}sealed:${guard}`,
  }
}

export type Keys = ReturnType<typeof createKeys>
