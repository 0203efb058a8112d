import { Prisma, type AgentVersion as Row } from '../generated/prisma/client.ts'
import { wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Json } from '../lib/json.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import { fetchIdPages } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'
import { diffOf } from './agent-definition.ts'

/** A version of an agent, or the draft of the next one. */
export interface AgentVersion extends Omit<Row, 'definition'> {
  isDraft: boolean
}

/** Reads versions of agents. Only admins may read them, and the caller must check this. */
export interface AgentVersions {
  /** Returns versions and drafts in the order of the ids; null for an unknown id. */
  getMany(ids: readonly string[]): Promise<(AgentVersion | null)[]>
  /** Returns a page of each agent's versions, newest first. */
  pageMany(agentIds: readonly string[], request: PageRequest): Promise<Page<AgentVersion>[]>
  /** Returns the draft of each agent; null if there is none. */
  drafts(agentIds: readonly string[]): Promise<(AgentVersion | null)[]>
  /**
   * Returns the AgentDefinition of a version. Definitions are read one at a time, because many of them together can be
   * large.
   */
  definition(version: AgentVersion): Promise<Json>
  /**
   * Returns the differences as a unified diff: a version is compared with the previous version, and a draft with the
   * published version.
   */
  diff(version: AgentVersion): Promise<string>
}

const PLAIN = { id: true, agentId: true, number: true, createdAt: true, authorId: true, note: true } as const

export function createAgentVersions({ db }: Pick<Platform, 'db'>): AgentVersions {
  const draftsWhere = async (where: Prisma.AgentDraftWhereInput): Promise<AgentVersion[]> => {
    const { number: _number, ...columns } = PLAIN
    const rows = await db.prisma.agentDraft.findMany({
      where,
      select: { ...columns, agent: { select: { version: true } } },
    })
    return rows.map(({ agent, ...draft }) => ({ ...draft, number: agent.version + 1, isDraft: true }))
  }

  async function getMany(ids: readonly string[]): Promise<(AgentVersion | null)[]> {
    const where = { id: { in: wellFormedIds(ids) } }
    const versions = await db.prisma.agentVersion.findMany({ where, select: PLAIN })
    const drafts = versions.length < where.id.in.length ? await draftsWhere(where) : []
    return inOrderOf(ids, [...versions.map((version) => ({ ...version, isDraft: false })), ...drafts])
  }

  async function definition({ id, isDraft }: AgentVersion): Promise<Json> {
    const query = { where: { id }, select: { definition: true } }
    const row = isDraft ? await db.prisma.agentDraft.findUnique(query) : await db.prisma.agentVersion.findUnique(query)
    return (row?.definition ?? null) as Json
  }

  return {
    getMany,
    definition,
    async pageMany(agentIds, request) {
      const source = Prisma.sql`SELECT v.id FROM "AgentVersion" v WHERE v."agentId" = parent.id AND v.number > 0`
      const parents = [...new Set(agentIds)]
      const pages = await fetchIdPages(db.prisma, { parents, source, order: 'newest', request })
      const found = await getMany([...pages.values()].flatMap(({ items }) => items))
      const byId = new Map(found.flatMap((version) => (version === null ? [] : [[version.id, version]])))
      return agentIds.map((agentId) => {
        const page = pages.get(agentId) ?? { items: [], hasNextPage: false, hasPreviousPage: false }
        return { ...page, items: page.items.flatMap((id) => byId.get(id) ?? []) }
      })
    },
    async drafts(agentIds) {
      const drafts = await draftsWhere({ agentId: { in: wellFormedIds(agentIds) } })
      return agentIds.map((agentId) => drafts.find((draft) => draft.agentId === agentId) ?? null)
    },
    async diff(version) {
      const [before] = await db.prisma.agentVersion.findMany({
        where: { agentId: version.agentId, number: { lt: version.number } },
        orderBy: { number: 'desc' },
        take: 1,
        select: { definition: true },
      })
      return diffOf((before?.definition ?? {}) as Json, await definition(version))
    },
  }
}
