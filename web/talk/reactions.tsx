import { Tooltip } from '@base-ui/react/tooltip'
import { useState } from 'react'
import { type Message, payloadOf } from '../../client/index.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { Refused } from '../ui/notice.tsx'
import { REACT, REACTIONS } from './operations.ts'

/** Adds or removes the viewer's reaction. */
export function useReact(messageId: string) {
  const { connection } = useSession()
  return useDo(async ({ emoji, on }: { emoji: string; on: boolean }) =>
    payloadOf((await connection.ask(REACT, { messageId, emoji, on })).react, 'ReactPayload'),
  )
}

/** The reactions to a message. A click adds the viewer's, or removes it. */
export function Reactions({ message: { id, reactions } }: { message: Message }) {
  const react = useReact(id)
  if (reactions.length === 0) return null
  return (
    <>
      <ul className="reactions" aria-label="Reactions">
        {reactions.map((reaction) => (
          <li key={reaction.emoji}>
            <Chip
              messageId={id}
              reaction={reaction}
              onToggle={() => react.start({ emoji: reaction.emoji, on: !reaction.mine })}
            />
          </li>
        ))}
      </ul>
      <Refused error={react.error} />
    </>
  )
}

interface ChipProps {
  messageId: string
  reaction: Message['reactions'][number]
  onToggle(): void
}

function Chip({ messageId, reaction: { emoji, count, mine }, onToggle }: ChipProps) {
  const { isHuman } = useSession()
  const [isOpen, setOpen] = useState(false)
  const { data } = useAsk(REACTIONS, { messageId }, { enabled: isOpen })
  const found = data?.message?.reactions.find((one) => one.emoji === emoji)
  const names = found?.entities.map(({ name }) => name) ?? []
  const more = (found?.count ?? 0) - names.length
  return (
    <Tooltip.Root open={isOpen} onOpenChange={setOpen}>
      <Tooltip.Trigger
        render={
          <button
            type="button"
            className="reaction"
            aria-pressed={mine}
            aria-label={`${emoji} ${count}`}
            disabled={!isHuman}
            onClick={onToggle}
          />
        }
      >
        <span aria-hidden="true">{emoji}</span> {count}
      </Tooltip.Trigger>
      {names.length > 0 && (
        <Tooltip.Portal>
          <Tooltip.Positioner sideOffset={6} className="positioner">
            <Tooltip.Popup className="tooltip">
              {names.join(', ')}
              {more > 0 && ` and ${more} more`}
            </Tooltip.Popup>
          </Tooltip.Positioner>
        </Tooltip.Portal>
      )}
    </Tooltip.Root>
  )
}
