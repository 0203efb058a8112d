import { prefixOf } from '../lib/ids.ts'
import { cut, oneLine } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { REMAINS } from '../stores/space-store.ts'
import { createForgetting, createStaging, type LeftOut, type StagedRow, stage } from './import-staging.ts'
import { checkRow, isMovedTable } from './imported-rows.ts'
import { hasBytes, linesOf, receiveMovedFile } from './moved-files.ts'
import { FORMAT, FORMAT_VERSION } from './moving.ts'

const ROWS_AT_ONCE = 200
const CHARACTERS_AT_ONCE = 1024 * 1024
/** The maximum number of reasons that are counted separately, because reasons contain column names from the file. */
const MOST_REASONS = 200

export const NO_EXPORT = 'The file is not a space export: its first line is not the header of an export.'

/** Counts the rows that the import skips, by table and reason. */
function createLeftOut() {
  const byReason = new Map<string, LeftOut>()
  return {
    add({ table, reason, count, firstLine }: LeftOut): void {
      const known = `${table}: ${reason}`
      const key = byReason.has(known) || byReason.size < MOST_REASONS ? known : 'others'
      const before = byReason.get(key)
      if (before !== undefined) {
        before.count += count
        return
      }
      const clean = (text: string) => cut(oneLine(text), 200)
      byReason.set(
        key,
        key === known
          ? { table: clean(table), reason: clean(reason), count, firstLine }
          : { table: 'others', reason: 'other reasons', count, firstLine },
      )
    },
    all: () => [...byReason.values()],
  }
}
export type LeftOutList = ReturnType<typeof createLeftOut>

interface Heading {
  spaceId: string
  version: number
}

/**
 * Writes every row that is valid on its own to the staging table, and stores the bytes of files.
 * @throws Error if the file is not one complete export; StorageUnavailableError
 */
export async function readAll(
  tx: Tx,
  source: AsyncIterable<string> | Iterable<string>,
  { platform, dryRun }: { platform: Pick<Platform, 'files' | 'config'>; dryRun: boolean },
): Promise<{ spaceId: string; leftOut: LeftOutList }> {
  const leftOut = createLeftOut()
  const batch = createBatch(tx, leftOut)
  const lines = linesOf(source)

  /**
   * Returns the row of a line; null if the row is skipped. For a file, also reads the following lines, which contain
   * its bytes, and adds properties computed from the bytes.
   */
  async function rowOf(read: Record<string, unknown>, line: number): Promise<StagedRow | null> {
    const staged = stagedRowOf(read, line, leftOut)
    if (staged === null || staged.table !== 'File') return staged
    const received = await receiveMovedFile(tx, platform, { row: staged.row, lines, dryRun })
    if ('row' in received) return { ...staged, row: received.row }
    leftOut.add({ table: 'File', reason: received.reason, count: 1, firstLine: line })
    return null
  }

  let heading: Heading | null = null
  let rows = 0
  let promised: number | null = null
  for (let line = await lines.take(); line !== null; line = await lines.take()) {
    const { number } = lines
    if (heading === null) {
      // npm can print the name of its script before the first line of the export.
      if (line.startsWith('{')) heading = await begin(tx, objectOf(line, NO_EXPORT))
      continue
    }
    // These bytes belong to a file that was skipped.
    if (line.trim() === '' || hasBytes(line)) continue
    const read = objectOf(
      line,
      `Line ${number} is not a JSON object: the file is damaged or incomplete. ${EXPORT_AGAIN}`,
    )
    if ('format' in read) throw new Error(`Line ${number} is a second header: import one export at a time.`)
    if (read['end'] === true) {
      promised = Number(read['rows'])
      continue
    }
    rows += 1
    const staged = await rowOf(read, number)
    if (staged !== null) await batch.add(staged, line.length)
  }
  await batch.flush()
  if (heading === null) throw new Error(NO_EXPORT)
  checkWhole(heading, { rows, promised })
  return { spaceId: heading.spaceId, leftOut }
}

export const EXPORT_AGAIN = 'Export the space again.'

/** @throws Error if the last line of the export is missing */
function checkWhole({ version }: Heading, { rows, promised }: { rows: number; promised: number | null }): void {
  if (version === 1) return
  if (promised === null) throw new Error(`The file is incomplete: its last line is missing. ${EXPORT_AGAIN}`)
  if (!(rows >= promised))
    throw new Error(`The file is incomplete: it has ${rows} of ${promised} rows. ${EXPORT_AGAIN}`)
}

/** Collects rows and writes them to the staging table in batches. */
function createBatch(tx: Tx, leftOut: LeftOutList) {
  const forget = createForgetting(tx)
  let rows: StagedRow[] = []
  let characters = 0
  async function flush(): Promise<void> {
    const [first] = rows
    const repeated = first === undefined ? 0 : await stage(tx, rows)
    if (first !== undefined && repeated > 0)
      leftOut.add({
        table: first.table,
        reason: 'duplicates another row of the file',
        count: repeated,
        firstLine: first.line,
      })
    await forget(characters)
    rows = []
    characters = 0
  }
  return {
    flush,
    async add(row: StagedRow, length: number): Promise<void> {
      // A batch has rows of one table, so that its counts belong to that table.
      if (rows[0] !== undefined && rows[0].table !== row.table) await flush()
      rows.push(row)
      characters += length
      if (rows.length >= ROWS_AT_ONCE || characters > CHARACTERS_AT_ONCE) await flush()
    },
  }
}

function objectOf(line: string, fault: string): Record<string, unknown> {
  const value = parsed(line)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error(fault)
  return value as Record<string, unknown>
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return null
  }
}

async function begin(tx: Tx, { format, version, spaceId }: Record<string, unknown>): Promise<Heading> {
  if (format !== FORMAT || typeof spaceId !== 'string' || prefixOf(spaceId) !== 'spc') throw new Error(NO_EXPORT)
  if (version !== 1 && version !== FORMAT_VERSION)
    throw new Error(
      `The export has version ${cut(oneLine(String(version)), 20)}; this server reads versions 1 and ${FORMAT_VERSION}.`,
    )
  if ((await tx.space.count({ where: { id: spaceId, NOT: REMAINS } })) > 0)
    throw new Error(`The space ${spaceId} already exists: delete it first (deleteSpace).`)
  await createStaging(tx)
  return { spaceId, version }
}

function stagedRowOf({ table, row }: Record<string, unknown>, line: number, leftOut: LeftOutList): StagedRow | null {
  if (!isMovedTable(table)) {
    leftOut.add({ table: String(table), reason: 'rows of this table are not imported', count: 1, firstLine: line })
    return null
  }
  const checked = checkRow(table, row)
  if (checked.type === 'refused') {
    leftOut.add({ table, reason: checked.reason, count: 1, firstLine: line })
    return null
  }
  for (const { column, reason } of checked.leftOut)
    leftOut.add({ table: `${table}.${column}`, reason, count: 1, firstLine: line })
  return { line, table, row: checked.row }
}
