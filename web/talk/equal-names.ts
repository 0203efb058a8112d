import { useSpacesOfAgents } from '../operate/spaces-of-agents.ts'
import { useSession } from '../session.tsx'

interface Named {
  id: string
  name: string
  kind: string
}

/**
 * Groups agents with equal names, most of which are copies. The first of a group is in the oldest of the viewer's
 * spaces. People who are not admins do not see the others that are in no space of theirs.
 * @returns for each name its first entity, and the others
 */
export function useByName<Entity extends Named>(entities: readonly Entity[]): { first: Entity; others: Entity[] }[] {
  const { isAdmin } = useSession()
  const keyOf = ({ id, kind, name }: Entity) => (kind === 'AGENT' ? name : id)
  const groups = [...Map.groupBy(entities, keyOf).values()]
  const spaces = useSpacesOfAgents({ enabled: groups.length < entities.length })
  // The spaces are listed from the newest to the oldest.
  const ageOf = ({ id }: Entity) => spaces?.ageOf(id) ?? -1
  return groups.flatMap((group) => {
    const [first, ...others] = group.toSorted((one, other) => ageOf(other) - ageOf(one))
    if (first === undefined) return []
    const isHiding = !isAdmin && ageOf(first) >= 0
    return [{ first, others: isHiding ? others.filter((other) => ageOf(other) >= 0) : others }]
  })
}
