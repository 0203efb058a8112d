import { type ReactNode, useLayoutEffect, useRef, useState } from 'react'
import { Button } from './button.tsx'

/** Content taller than this is collapsed: several screenfuls of ordinary text, less for a very long text. */
const TALL_PX = 2400
const LONG = { characters: 8000, tallPx: 600 }
/** Shorter texts are not measured, because they exceed the height only if they consist mostly of line breaks. */
const LEAST_CHARACTERS = 1500
const LEAST_LINES = 60

interface FoldProps {
  /** The text that the children show. */
  text: string
  /** Content taller than this is collapsed. */
  tallPx?: number | undefined
  /** The text is streaming and somebody reads it, so it stays open. */
  isGrowing?: boolean | undefined
  children: ReactNode
}

/** Shows the beginning of very tall content, so that the surrounding content stays in reach, and the rest on request. */
export function Fold({ text, tallPx = tallPxOf(text), isGrowing = false, children }: FoldProps) {
  const box = useRef<HTMLDivElement>(null)
  const [isTall, setTall] = useState(false)
  const [isOpen, setOpen] = useState(isGrowing)
  const mayBeTall = text.length > LEAST_CHARACTERS || text.split('\n', LEAST_LINES + 1).length > LEAST_LINES
  // biome-ignore lint/correctness/useExhaustiveDependencies: with the text the height changes
  useLayoutEffect(() => {
    if (mayBeTall && !isOpen && box.current !== null) setTall(box.current.scrollHeight > tallPx)
  }, [text, mayBeTall, isOpen, tallPx])
  const isFolded = isTall && mayBeTall && !isOpen
  return (
    <>
      <div ref={box} className={isFolded ? 'folded' : undefined}>
        {children}
      </div>
      {isFolded && (
        <Button look="quiet" icon="down" onClick={() => setOpen(true)}>
          Show the whole text
        </Button>
      )}
    </>
  )
}

const tallPxOf = ({ length }: string) => (length > LONG.characters ? LONG.tallPx : TALL_PX)
