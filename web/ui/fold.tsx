import { type ReactNode, useLayoutEffect, useRef, useState } from 'react'
import { Button } from './button.tsx'

/** Content taller than this is collapsed. This is several screenfuls of ordinary text, but less for a very long text. */
const TALL_PX = 2400
const LONG = { characters: 8000, tallPx: 600 }
/** Texts shorter than this are not measured, because they are that tall only if they consist mostly of line breaks. */
const LEAST_CHARACTERS = 1500
const LEAST_LINES = 60

interface FoldProps {
  /** The text that the children show. */
  text: string
  /** Content taller than this is collapsed. */
  tallPx?: number | undefined
  /** Whether the text is streaming and somebody is reading it, so that it stays open. */
  isGrowing?: boolean | undefined
  children: ReactNode
}

/** Shows the beginning of very tall content, so that the content around it stays in reach, and the rest on request. */
export function Fold({ text, tallPx = tallPxOf(text), isGrowing = false, children }: FoldProps) {
  const box = useRef<HTMLDivElement>(null)
  const [isTall, setTall] = useState(false)
  const [isOpen, setOpen] = useState(isGrowing)
  const mayBeTall = text.length > LEAST_CHARACTERS || text.split('\n', LEAST_LINES + 1).length > LEAST_LINES
  // biome-ignore lint/correctness/useExhaustiveDependencies: the height changes together with the text
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
