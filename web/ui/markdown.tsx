import { Fragment, memo, type ReactNode, useDeferredValue, useEffect, useMemo, useRef, useState } from 'react'
import { Button } from './button.tsx'
import { CodeBlock } from './code-block.tsx'
import { destinationOf } from './destination.ts'
import { Fold } from './fold.tsx'
import { Icon } from './icons.tsx'
import { LIMITS, type MarkdownElement, type MarkdownLimit, type MarkdownNode, parseMarkdown } from './markdown-tree.ts'
import { FALLBACK_TALL_PX, PlainText } from './plain-text.tsx'

const REASONS: Record<MarkdownLimit, string> = {
  LONG: 'it is too long to be formatted.',
  DEEP: 'its formatting is nested too deeply.',
  MANY: 'its formatting has too many parts.',
  SLOW: 'its formatting takes too long to parse.',
}

interface MarkdownProps {
  text: string
  /** Whether the text is still streaming. */
  isGrowing?: boolean
}

/** The time limit after a person clicks “Try again”. A busy machine may need it even for ordinary text. */
const LONGEST_MS = 1000

/**
 * Formatted text from people and models. HTML is shown as text, and an image as a link to it. A text that exceeds a limit of
 * the parser is shown unformatted.
 */
export const Markdown = memo(function Markdown({ text, isGrowing = false }: MarkdownProps) {
  const shown = usePaced(useDeferredValue(text))
  const [timeMs, setTimeMs] = useState(LIMITS.timeMs)
  const parsed = useMemo(() => parseMarkdown(shown, { timeMs }), [shown, timeMs])
  // A text that only defines links has no blocks. It is shown unformatted, because otherwise nothing would be shown.
  if (parsed.blocks === null || parsed.blocks.length === 0) {
    return (
      <div className="markdown">
        <PlainText text={shown} tallPx={FALLBACK_TALL_PX} />
        {parsed.limit !== null && (
          <p className="plain-note">
            Shown as plain text: {REASONS[parsed.limit]}
            {parsed.limit === 'SLOW' && timeMs < LONGEST_MS && (
              <Button icon="retry" look="quiet" onClick={() => setTimeMs(LONGEST_MS)}>
                Try again
              </Button>
            )}
          </p>
        )}
      </div>
    )
  }
  return (
    <Fold text={shown} isGrowing={isGrowing}>
      <div className="markdown" dir="auto">
        {parsed.blocks.map((block, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a streaming text only grows at its end
          <Block key={at} block={block} content={JSON.stringify(block)} />
        ))}
      </div>
    </Fold>
  )
})

/** Memoized by content, so that a streaming text renders only the blocks that changed. */
const Block = memo(
  function Block({ block }: { block: MarkdownElement; content: string }) {
    return <>{render(block, false)}</>
  },
  (before, after) => before.content === after.content,
)

/** Texts shorter than this are updated with every change. */
const PACED_CHARACTERS = 2000
const CHARACTERS_PER_MS = 100

/**
 * Follows a streaming text. The pause before each update is proportional to the length of the text, so that parsing takes a
 * limited share of the time however many changes arrive.
 */
function usePaced(text: string): string {
  const [shown, setShown] = useState(text)
  const latest = useRef(text)
  useEffect(() => {
    latest.current = text
  }, [text])
  const isPaced = text.length >= PACED_CHARACTERS
  const isBehind = isPaced && shown !== text
  const pauseMs = shown.length / CHARACTERS_PER_MS
  useEffect(() => {
    if (!isBehind) return
    const timer = setTimeout(() => setShown(latest.current), pauseMs)
    return () => clearTimeout(timer)
  }, [isBehind, pauseMs])
  return isPaced ? shown : text
}

/** @param isLinked whether the text is inside a link, which must not contain another link */
function render(node: MarkdownNode, isLinked: boolean): ReactNode {
  if (typeof node === 'string') return node
  const { tag: Tag, children, className, start, align } = node
  const content = children.map((child, at) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: a streaming text only grows at its end
    <Fragment key={at}>{render(child, isLinked || Tag === 'a')}</Fragment>
  ))
  switch (Tag) {
    case 'a':
      return <ForeignLink address={node.address ?? ''}>{content}</ForeignLink>
    case 'img':
      return <ImageLink element={node} isLinked={isLinked} />
    case 'br':
      return <br />
    case 'hr':
      return <hr />
    case 'input':
      return <input type="checkbox" checked={node.checked} disabled aria-label={node.checked ? 'Done' : 'To do'} />
    case 'table':
      return (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users need the focus to scroll this region
        <section className="table-scroller" tabIndex={0} aria-label="Table">
          <table>{content}</table>
        </section>
      )
    case 'pre':
      return <CodeBlock code={codeIn(node)} language={node.language ?? ''} />
    case 'th':
    case 'td':
      return <Tag style={align === undefined ? undefined : { textAlign: align }}>{content}</Tag>
    case 'ol':
      return (
        <ol start={start} className={className}>
          {content}
        </ol>
      )
    default: {
      const Plain = Tag as 'p'
      return <Plain className={className}>{content}</Plain>
    }
  }
}

/** The code without the line break at its end. */
const codeIn = ({ children }: MarkdownElement): string =>
  children
    .map((child) => (typeof child === 'string' ? child : codeIn(child)))
    .join('')
    .replace(/\n$/, '')

/** The address is a placeholder if a component is rendered outside of a browser. */
const pageAddress = () => (typeof location === 'undefined' ? 'http://localhost/' : location.href)

/** A link in content. Shows the host, unless the link stays on this server. */
function ForeignLink({ address, children }: { address: string; children: ReactNode }) {
  const destination = destinationOf(address, pageAddress())
  if (destination === null) return <span>{children}</span>
  const { href, elsewhere } = destination
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow ugc" title={href}>
      <bdi>{children}</bdi>
      {elsewhere !== null && <span className="link-host"> ↗ {elsewhere}</span>}
    </a>
  )
}

/** Images are not loaded, because their server would learn who reads the message, and when. */
function ImageLink({ element: { address = '', alt }, isLinked }: { element: MarkdownElement; isLinked: boolean }) {
  const words = (
    <>
      <Icon name="link" size={14} /> {alt || 'image'}
    </>
  )
  return isLinked ? words : <ForeignLink address={address}>{words}</ForeignLink>
}
