import type { Viewer } from '../access/viewer.ts'
import { isKnownTo, type Marks, marksTogether, UNMARKED } from '../confidentiality/marks.ts'
import { type Goal, type GoalStatus, Prisma } from '../generated/prisma/client.ts'
import { BadInputError, NotFoundError } from '../lib/errors.ts'
import { newId, prefixOf, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import { checkText } from '../lib/validate.ts'
import { inTransaction, type Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { requireAdmin } from '../rules/permissions.ts'
import { deleteGoals, insertGoal, updateGoal } from '../stores/knowledge-store.ts'
import { checkNumberOfNotes, type NumberedNotes } from '../stores/note-limits.ts'
import { checkAgent, lockAgentRow } from './existing-agent.ts'

/**
 * A goal to add or change. Without `id`, the goal is new, needs a description, and is ACTIVE by default. With `id`, the
 * given fields of that goal change.
 */
export interface GoalInput {
  id?: string | null
  description?: string | null
  status?: GoalStatus | null
}

/**
 * Manages the goals of agents. Each field of each goal is written separately, so that concurrent writers do not
 * overwrite each other's changes.
 */
export interface Goals {
  /** Returns goals in the order of the ids; null for an unknown id. */
  getMany(ids: readonly string[]): Promise<(Goal | null)[]>
  /** Returns the goals of each agent, oldest first. The map has no entry for an agent without goals. */
  listMany(agentIds: readonly string[]): Promise<Map<string, Goal[]>>
  /**
   * Adds and changes goals for the agent itself. Returns them in the given order. `by` contains the caller's
   * transaction and the marks of the run.
   * @throws BadInputError, NotFoundError for an unknown goal or a goal of another agent, LimitExceededError above 500
   * goals that the run may read or 10,000 in total.
   */
  set(agentId: string, goals: readonly GoalInput[], by?: { tx: Tx; marks: Marks }): Promise<Goal[]>
  /** Deletes goals for the agent itself, if its run may read them. Returns the ids of the deleted goals. */
  delete(agentId: string, ids: readonly string[], by?: { tx: Tx; marks: Marks }): Promise<string[]>
  /** Like `set`, but for a viewer. Only admins may call it. */
  setAs(viewer: Viewer, input: { agentId: string; goals: readonly GoalInput[] }): Promise<Goal[]>
  /**
   * Like `delete`, but for a viewer. Only admins may call it.
   * @throws NotFoundError for an unknown agent
   */
  deleteAs(viewer: Viewer, input: { agentId: string; ids: readonly string[] }): Promise<string[]>
}

const MOST_GOALS = 500
const GOALS: NumberedNotes = { table: 'Goal', what: 'goals', most: MOST_GOALS }
const LONGEST_DESCRIPTION = 4000

export function createGoals({ db, clock }: Pick<Platform, 'db' | 'clock'>): Goals {
  const goals: Goals = {
    async getMany(ids) {
      const rows = await db.prisma.goal.findMany({ where: { id: { in: wellFormedIds(ids) } } })
      return inOrderOf(ids, rows)
    },
    async listMany(agentIds) {
      const rows = await db.prisma.goal.findMany({
        where: { agentId: { in: [...agentIds] } },
        orderBy: [{ agentId: 'asc' }, { id: 'asc' }],
      })
      return Map.groupBy(rows, ({ agentId }) => agentId)
    },
    async set(agentId, given, by) {
      if (given.length > MOST_GOALS)
        throw new BadInputError(`A request can contain at most ${MOST_GOALS} goals.`, 'input.goals')
      const checked = given.map(checkGoal)
      return inTransaction(db, by?.tx, async (tx) => {
        await lockAgentRow(tx, agentId)
        const written: Goal[] = []
        const how = { updatedAt: new Date(clock.now()), marks: by?.marks ?? null }
        for (const goal of checked) written.push(await write(tx, agentId, goal, how))
        await checkNumberOfNotes(tx, GOALS, { agentId, marks: by?.marks ?? UNMARKED })
        return written
      })
    },
    async delete(agentId, ids, by) {
      const isKnown = by === undefined ? Prisma.sql`true` : isKnownTo(by.marks)
      return deleteGoals(by?.tx ?? db.prisma, agentId, wellFormedIds(ids), isKnown)
    },
    async setAs(viewer, input) {
      checkAdmin(viewer)
      return goals.set(input.agentId, input.goals)
    },
    async deleteAs(viewer, { agentId, ids }) {
      checkAdmin(viewer)
      await checkAgent(db.prisma, agentId)
      return goals.delete(agentId, ids)
    },
  }
  return goals
}

function checkAdmin(viewer: Viewer): void {
  requireAdmin(viewer, "change an agent's goals")
}

interface CheckedGoal {
  id: string | null
  description: string | null
  status: GoalStatus | null
}

function checkGoal({ id = null, description = null, status = null }: GoalInput, index: number): CheckedGoal {
  const field = `input.goals.${index}.description`
  if (description === null && id === null) throw new BadInputError('A new goal needs a description.', field)
  if (description === null) return { id, description, status }
  if (description.trim() === '') throw new BadInputError('A goal needs a description.', field)
  return { id, description: checkText(description, LONGEST_DESCRIPTION, field), status }
}

const NO_SUCH_GOAL = 'This agent has no such goal.'

async function write(
  tx: Tx,
  agentId: string,
  { id, description, status }: CheckedGoal,
  { updatedAt, marks }: { updatedAt: Date; marks: Marks | null },
): Promise<Goal> {
  const fields = { ...(description === null ? {} : { description }), ...(status === null ? {} : { status }), updatedAt }
  const { places, label } = marks ?? UNMARKED
  if (id === null) {
    const goal = { id: newId('gol'), agentId, description: '', ...fields, places: [...places], label: [...label] }
    return insertGoal(tx, goal)
  }
  if (prefixOf(id) === null) throw new NotFoundError(NO_SUCH_GOAL)
  // A change by a run, even if it concerns only the status, adds the run's marks to the goal. A change by an admin
  // does not.
  const before = marks === null ? null : await readKnown(tx, id, marks)
  if (marks !== null && before === null) throw new NotFoundError(NO_SUCH_GOAL)
  const stays = description === null ? [before ?? UNMARKED] : []
  const data = marks === null ? fields : { ...fields, ...marksTogether([...stays, marks]) }
  const goal = await updateGoal(tx, { id, agentId }, data)
  if (goal === null) throw new NotFoundError(NO_SUCH_GOAL)
  return goal
}

async function readKnown(tx: Tx, id: string, marks: Marks): Promise<Marks | null> {
  const [goal] = await tx.$queryRaw<Marks[]>`
    SELECT places, label FROM "Goal" WHERE id = ${id} AND ${isKnownTo(marks)}`
  return goal ?? null
}
