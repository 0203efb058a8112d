import type { ReactNode } from 'react'
import type { ToolCall } from '../../client/index.ts'
import { Avatar } from '../ui/avatar.tsx'
import { Icon } from '../ui/icons.tsx'
import { Moment } from '../ui/time.tsx'

export type Decision = NonNullable<ToolCall['approval']>['decisions'][number]

interface DecisionsProps {
  decisions: readonly Decision[]
  /** Returns an element to show after the words of a decision. */
  addition?: (decision: Decision) => ReactNode
}

/** People's decisions, oldest first. */
export function Decisions({ decisions, addition }: DecisionsProps) {
  if (decisions.length === 0) return null
  return (
    <ul className="decisions">
      {decisions.map((decision) => {
        const { human, approve, reason, at, counts } = decision
        return (
          <li key={`${human.id} ${at}`} className={counts ? '' : 'lapsed'}>
            <Avatar entity={{ ...human, kind: 'HUMAN' }} size={22} />
            <span className={approve ? 'good' : 'bad'}>
              <Icon name={approve ? 'check' : 'cross'} size={14} />
            </span>
            <span className="grow">
              <b>{human.name}</b> {approve ? 'approved' : 'denied'}
              {addition?.(decision)}
              {reason !== null && <q dir="auto">{reason}</q>}
              {!counts && <span className="note"> (no longer counts)</span>}
            </span>
            <Moment at={at} />
          </li>
        )
      })}
    </ul>
  )
}
