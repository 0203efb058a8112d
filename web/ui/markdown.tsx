import { type ComponentProps, memo, useDeferredValue } from 'react'
import ReactMarkdown from 'react-markdown'
import remarkGfm from 'remark-gfm'
import { Icon } from './icons.tsx'

const PLUGINS = [remarkGfm]
const COMPONENTS: ComponentProps<typeof ReactMarkdown>['components'] = {
  // What others wrote sends nobody anywhere without being seen to, and loads nothing.
  a: ({ href, children }) => {
    const isElsewhere = href !== undefined && /^https?:/.test(href)
    return (
      <a href={href} target="_blank" rel="noopener noreferrer nofollow ugc" title={href}>
        {children}
        {isElsewhere && <span className="link-host"> ↗ {hostOf(href)}</span>}
      </a>
    )
  },
  img: ({ alt, src }) => (
    <a href={typeof src === 'string' ? src : undefined} target="_blank" rel="noopener noreferrer nofollow ugc">
      <Icon name="link" size={14} /> {alt || 'image'}
    </a>
  ),
  // Of a list of tasks: markdown has no other.
  input: ({ checked }) => <input type="checkbox" checked={checked} disabled aria-label={checked ? 'Done' : 'To do'} />,
  table: ({ children }) => (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by the keyboard
    <section className="table-scroller" tabIndex={0} aria-label="Table">
      <table>{children}</table>
    </section>
  ),
  pre: ({ children }) => (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by the keyboard
    <pre tabIndex={0}>{children}</pre>
  ),
}

const Block = memo(function Block({ text }: { text: string }) {
  return (
    <ReactMarkdown remarkPlugins={PLUGINS} components={COMPONENTS}>
      {text}
    </ReactMarkdown>
  )
})

/**
 * What people and agents wrote. A text that grows is read block by block, so that only its last one is read again, and after what
 * cannot wait, as a key that was pressed.
 * HTML is shown as the text that it is, an image as a link to it.
 */
export const Markdown = memo(function Markdown({ text }: { text: string }) {
  const blocks = blocksOf(useDeferredValue(text))
  return (
    <div className="markdown" dir="auto">
      {blocks.map((block, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a text grows at its end
        <Block key={at} text={block} />
      ))}
    </div>
  )
})

const LEAST_BLOCK = 400

/** Cuts at blank lines outside of fences, where nothing indented or listed goes on. */
function blocksOf(text: string): string[] {
  if (text.length < LEAST_BLOCK) return [text]
  const blocks: string[] = []
  let block = ''
  let isFenced = false
  for (const line of text.split(/(?<=\n)/)) {
    if (/^\s{0,3}(```|~~~)/.test(line)) isFenced = !isFenced
    const mayBegin = !isFenced && /\n\s*\n$/.test(block) && /^[^\s\-*+>|\d]/.test(line)
    if (mayBegin && block.length >= LEAST_BLOCK) {
      blocks.push(block)
      block = ''
    }
    block += line
  }
  return [...blocks, block]
}

function hostOf(href: string): string {
  try {
    return new URL(href).host
  } catch {
    return ''
  }
}
