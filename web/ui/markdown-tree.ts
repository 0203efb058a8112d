import MarkdownIt, { type Env, type MarkdownIt as Parser, type Token } from 'markdown-it'
import { type BareLink, linkPieces } from './auto-links.ts'

/** An element of parsed markdown. String children are text. */
export interface MarkdownElement {
  tag: string
  /** For `a` and `img`: the address as written, not validated and not resolved. */
  address?: string
  /** For `img`. */
  alt?: string
  /** For the `input` of a task list. */
  checked?: boolean
  /** For `ol`. */
  start?: number
  /** For `th` and `td`. */
  align?: 'left' | 'center' | 'right'
  className?: string
  /** For `pre`: the language, as written after the fence. */
  language?: string
  children: MarkdownNode[]
}
export type MarkdownNode = MarkdownElement | string

/** Why a text is not formatted. Except for `SLOW`, parsing the text again gives the same reason. */
export type MarkdownLimit = 'LONG' | 'DEEP' | 'MANY' | 'SLOW'

export interface MarkdownLimits {
  /** The length of the text in UTF-16 units. */
  characters: number
  /** The depth of nested elements. */
  depth: number
  /** The number of elements and texts together, which limits the DOM nodes of the page. */
  nodes: number
  timeMs: number
}

/** Far more than people and models write on purpose. A text of 32,000 characters takes 10 to 40 ms and up to 7,500 nodes. */
export const LIMITS: MarkdownLimits = { characters: 100_000, depth: 40, nodes: 8000, timeMs: 60 }

/** `blocks` is null for a text that exceeds a limit. */
export type ParsedMarkdown = { blocks: MarkdownElement[]; limit: null } | { blocks: null; limit: MarkdownLimit }

/**
 * Parses markdown (CommonMark with tables, strikethrough, task lists and bare links; HTML stays text) within
 * limits. The parser checks the limits before each rule, and each rule takes linear time, so no text can block
 * the page.
 */
export function parseMarkdown(text: string, limits: Partial<MarkdownLimits> = {}): ParsedMarkdown {
  const applied = { ...LIMITS, ...limits }
  if (text.length > applied.characters) return { blocks: null, limit: 'LONG' }
  try {
    const tokens = PARSER.parse(text, { [BUDGET]: createBudget(applied) })
    return { blocks: elementsOf(tokens, createBudget(applied)), limit: null }
  } catch (error) {
    if (error instanceof LimitError) return { blocks: null, limit: error.limit }
    throw error
  }
}

class LimitError extends Error {
  readonly limit: MarkdownLimit

  constructor(limit: MarkdownLimit) {
    super(`The markdown exceeds a limit: ${limit}.`)
    this.limit = limit
  }
}

interface Budget {
  /** @throws LimitError */
  checkTime(): void
  /** @throws LimitError */
  addNode(depth: number): void
}

const STEPS_PER_CLOCK = 32
/**
 * The number of steps that an ordinary message needs. The time limit is not checked before this many steps, so that an ordinary message is formatted on a busy machine too. Each step takes linear time, so it is fast.
 */
const FREE_STEPS = 500

function createBudget(limits: MarkdownLimits): Budget {
  const endsAt = performance.now() + limits.timeMs
  let nodes = 0
  let steps = 0
  return {
    checkTime() {
      steps += 1
      if (steps > FREE_STEPS && steps % STEPS_PER_CLOCK === 0 && performance.now() > endsAt)
        throw new LimitError('SLOW')
    },
    addNode(depth) {
      nodes += 1
      if (nodes > limits.nodes) throw new LimitError('MANY')
      if (depth > limits.depth) throw new LimitError('DEEP')
    },
  }
}

const BUDGET = Symbol('budget')
const budgetOf = (env: Env) => env[BUDGET] as Budget

const PARSER = createParser()

function createParser(): Parser {
  // Beyond its own depth limit, the parser would drop text, so our limit is lower.
  const parser = new MarkdownIt({ html: false, linkify: false, typographer: false, maxNesting: 1000 })
  // Addresses are validated when they are rendered, because the address of the page is known there.
  parser.validateLink = () => true
  parser.normalizeLink = (address) => address
  parser.normalizeLinkText = (words) => words
  const check = ({ env }: { env: Env }) => {
    budgetOf(env).checkTime()
    return false
  }
  parser.block.ruler.before('table', 'limits', check, { alt: ['paragraph', 'reference', 'blockquote', 'list'] })
  parser.inline.ruler.before('text', 'limits', check)
  parser.block.State = class extends MarkdownIt.StateBlock {
    override push(...args: [type: string, tag: string, nesting: -1 | 0 | 1]): Token {
      // A table creates all its cells in one rule.
      if (args[2] >= 0) budgetOf(this.env).addNode(this.level)
      return super.push(...args)
    }
  }
  return parser
}

const SAME_TAGS = ['p', 'ul', 'ol', 'li', 'blockquote', 'table', 'thead', 'tbody', 'tr', 'em', 'strong', 'del']
const TAGS: Record<string, string> = Object.fromEntries([...SAME_TAGS.map((tag) => [tag, tag]), ['s', 'del']])

/**
 * Builds the tree from a list of tokens without recursion. Also counts the nodes of inline text, which the parser does not
 * count.
 */
function elementsOf(tokens: readonly Token[], budget: Budget): MarkdownElement[] {
  const root: MarkdownElement = { tag: 'root', children: [] }
  const place: Place = { open: [root], linksOpen: 0 }
  for (const token of tokens) {
    if (token.type !== 'inline') visit(token, place, budget)
    else for (const child of token.children ?? []) visit(child, place, budget)
  }
  return root.children.filter((node) => typeof node !== 'string')
}

/** Where in the tree the next token belongs. */
interface Place {
  /** The open elements, innermost last. */
  open: MarkdownElement[]
  linksOpen: number
}

function visit(token: Token, place: Place, budget: Budget): void {
  const { open } = place
  const add = (node: MarkdownNode) => {
    addNodes(node, open.length, budget)
    open.at(-1)?.children.push(node)
  }
  if (token.hidden) return
  if (token.nesting === 1) {
    const element = elementOf(token)
    add(element)
    open.push(element)
    if (element.tag === 'a') place.linksOpen += 1
  } else if (token.nesting === -1) {
    const closed = open.pop()
    if (closed?.tag === 'a') place.linksOpen -= 1
    if (closed?.tag === 'li') markTask(closed, open.at(-1))
  } else if (token.type === 'text' && place.linksOpen === 0) {
    for (const piece of linkPieces(token.content)) add(typeof piece === 'string' ? piece : linkTo(piece))
  } else {
    add(leafOf(token))
  }
}

/** Nodes that the page adds to an element: the host of a link, or the icon of an image. */
const FURTHER_NODES: Record<string, number> = { a: 3, img: 5, table: 1 }

function addNodes(node: MarkdownNode, depth: number, budget: Budget): void {
  budget.addNode(depth)
  if (typeof node === 'string') return
  for (let count = FURTHER_NODES[node.tag] ?? 0; count > 0; count -= 1) budget.addNode(depth)
  for (const child of node.children) addNodes(child, depth, budget)
}

const linkTo = ({ words, address }: BareLink): MarkdownElement => ({ tag: 'a', address, children: [words] })

function elementOf(token: Token): MarkdownElement {
  const { tag } = token
  const element: MarkdownElement = { tag: /^h[1-6]$/.test(tag) ? tag : (TAGS[tag] ?? 'span'), children: [] }
  if (tag === 'a') return { tag, address: attribute(token, 'href'), children: [] }
  if (tag === 'th' || tag === 'td') {
    const align = /text-align:(left|center|right)/.exec(attribute(token, 'style'))?.[1] as MarkdownElement['align']
    return { tag, children: [], ...(align === undefined ? {} : { align }) }
  }
  if (tag === 'ol') element.start = Number(attribute(token, 'start') || 1)
  return element
}

const attribute = (token: Token, name: string) => String(token.attrGet(name) ?? '')

function leafOf(token: Token): MarkdownNode {
  const { content } = token
  switch (token.type) {
    case 'softbreak':
      return '\n'
    case 'hardbreak':
      return { tag: 'br', children: [] }
    case 'hr':
      return { tag: 'hr', children: [] }
    case 'code_inline':
      return { tag: 'code', children: [content] }
    case 'fence':
    case 'code_block': {
      const language = /^[\w+#.-]*/.exec(token.info)?.[0] ?? ''
      return { tag: 'pre', language, children: [{ tag: 'code', children: [content] }] }
    }
    case 'image':
      return { tag: 'img', address: attribute(token, 'src'), alt: content, children: [] }
    default:
      return content
  }
}

const TASK = /^\[([ xX])\]\s/

/** Turns the mark in `- [x] done` into a checkbox. */
function markTask(item: MarkdownElement, list: MarkdownElement | undefined): void {
  const [first] = item.children
  const place = typeof first === 'object' && first.tag === 'p' ? first : item
  const [words] = place.children
  const mark = typeof words === 'string' ? TASK.exec(words) : null
  if (typeof words !== 'string' || mark === null) return
  const box: MarkdownElement = { tag: 'input', checked: mark[1] !== ' ', children: [] }
  place.children.splice(0, 1, box, words.slice(mark[0].length))
  item.className = 'task-list-item'
  if (list !== undefined) list.className = 'contains-task-list'
}
