/** The kinds of text. Some rules apply only to one kind. */
export type Kind = 'comment' | 'string' | 'document'

export interface Prose {
  /** The line on which the text begins, counted from 1. */
  line: number
  text: string
  kind: Kind
}

interface Rule {
  pattern: RegExp
  advice: string
  /** The kinds to which the rule applies; all kinds if omitted. */
  kinds?: Kind[]
}

/**
 * Matches the beginning of a sentence: the start of the text, or after a full stop, colon, semicolon, bold label or list mark.
 */
const START = String.raw`(?:^|[.!?:;]\s+|\*\*\s+|^\s*[-*|]\s+|\|\s+)(?:@returns |@throws )?`
const start = (words: string) => new RegExp(`${START}(?:${words})(?![\\w'’])`, 'gm')
const word = (words: string) => new RegExp(String.raw`(?<![\w-])(?:${words})(?![\w-])`, 'gi')

const RULES: Rule[] = [
  // How sentences begin.
  {
    pattern: new RegExp(
      `${START}(?:What|Who|Whom|Whose|Whoever|Whatever|Of (?:a|an|the|one|two|several))\\s(?![^.?!]*\\?)`,
      'gm',
    ),
    advice: 'begin with the subject instead of What, Who, Whose or Of',
  },
  {
    pattern: start(
      'Answers with|Comes back with|Gives back|Says (?:what|who|whether|how|where)|Tells (?:what|who|whether|how)',
    ),
    advice: 'write "Returns …"',
  },
  {
    pattern:
      /^(?:(?:It|They)|(?:That|Those|These|This) (?:is|are|was|were|has|have|do|does|did|can|cannot|may|must|will|would))\s/g,
    advice: 'name the subject instead of a pronoun',
    kinds: ['string'],
  },
  { pattern: word('whoever|whomever|whatever'), advice: 'name the person or thing' },
  {
    pattern: word('(?:for|to|of|by|with|than) (?:who|whom) (?:is|are|was|asks|comes|has|watches|looks)'),
    advice: 'name the person',
  },
  // Terms that differ from the glossary in docs/architecture.md and from other projects.
  {
    pattern: word('(?:is|are|was|were|be|been|being) (?:\\w+ )?told|told of|tells? of|told to|told by'),
    advice: 'published, delivered, notified or returned',
  },
  { pattern: word('heard of|(?:is|are|was|were|be) heard|hears|hear of|hear it'), advice: 'received, or may read' },
  { pattern: word('carr(?:y|ies|ied|ying) out|carried on'), advice: 'executed (a call), performed (a job), continued' },
  {
    pattern: word('in hand|takes? in hand|put back|puts back|handed back|hands back|handed on|hands on|handing on'),
    advice: 'claimed, released, requeued or delegated',
  },
  { pattern: word('sets? (?:\\w+ )?off|setting off'), advice: 'started, triggered' },
  { pattern: word('come to rest|comes to rest|came to rest|at rest'), advice: 'idle, paused' },
  { pattern: word('lets? go|let go of|gives? up its place'), advice: 'releases' },
  { pattern: word('mends?|mended'), advice: 'fix' },
  { pattern: word('crowds?'), advice: 'many concurrent subscribers' },
  { pattern: word('bells?|doorbells?'), advice: 'wake-up signal' },
  { pattern: word('seats?'), advice: 'position, attach' },
  { pattern: word('portions?'), advice: 'batch' },
  { pattern: word('a look|looks? again|second look|looked at once'), advice: 'lookup, recheck, poll' },
  { pattern: word('askers'), advice: 'requesters' },
  { pattern: word('discreet|discreetly|discretion'), advice: 'confidentiality guard' },
  { pattern: word('deeds?'), advice: 'audited action' },
  { pattern: word('aftermath'), advice: 'crash recovery' },
  { pattern: word('foresees?|foreseen|beforehand'), advice: 'optimistic, precomputed' },
  {
    pattern: word('what it comes to|came to nothing|comes to nothing|comes of it|came of it'),
    advice: 'result, outcome',
  },
  { pattern: word('anew'), advice: 'again' },
  // Literal translations.
  { pattern: word('hangs? on|hanging on'), advice: 'the thread of a message, the first message of a thread' },
  { pattern: word('(?:go|goes|going|went) on'), advice: 'continue, resume' },
  { pattern: word('meanwhile'), advice: 'in the meantime, at the same time' },
  { pattern: word('exists? no more'), advice: 'no longer exists' },
  { pattern: word('signs? of life'), advice: 'activity, heartbeat' },
  { pattern: /\bthe (?:step|version) before(?=[.,;:)]|$)/g, advice: 'the previous step or version' },
  { pattern: word('(?:is|are|was|were) sent nothing'), advice: 'nothing is sent to …' },
  { pattern: word('sought'), advice: 'searched for' },
  {
    pattern: /, also (?:if|when|once|after|while|during|where|in|from|for)(?![\w-])/g,
    advice: 'even if, even after, including',
  },
  {
    pattern:
      /(?<![Tt]here )\b(?:is|are|was|were) no (?:failure|silence|hit|text|JSON|reply|replies|success|outage|member)\b/g,
    advice: 'is not a …',
  },
]

/** Returns a line for each phrase to replace: the phrase with the words around it, and the advice. Ignores inline code and quotations. */
export function findings(text: string, kind: Kind): string[] {
  const bare = text
    .replace(/`[^`\n]*`/g, 'code')
    .replace(/"[^"\n]*"/g, 'quoted')
    .replace(/\]\([^)]*\)/g, ']')
  return RULES.filter(({ kinds }) => kinds?.includes(kind) ?? true).flatMap(({ pattern, advice }) =>
    [...bare.matchAll(pattern)].map(({ 0: found, index }) => {
      const around = bare
        .slice(Math.max(0, index - 20), index + found.length + 25)
        .replace(/\s+/g, ' ')
        .trim()
      return `"${around}": ${advice}`
    }),
  )
}

const TOKENS =
  /\/\*[\s\S]*?\*\/|(?<![:\\])\/\/[^\n]*(?:\n[ \t]*\/\/[^\n]*)*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|>[^<>{}=;()&]*[a-z] [^<>{}=;()&]*</g

/** Matches what precedes the title of a test, or the description of an awaited condition. Other strings in tests are data. */
const IN_TEST = /(?:\b(?:describe|test|it|until)(?:\.\w+)*|\))\(\s*$/

/**
 * Returns the texts of a file. TypeScript: comments, strings and JSX text; in tests, only comments and titles. Prisma schema:
 * comments. Markdown: paragraphs, list items and table cells.
 */
export function proseOf(file: string, text: string): Prose[] {
  const lineAt = (index: number) => text.slice(0, index).split('\n').length
  if (file.endsWith('.md')) return paragraphsOf(text)
  if (file.endsWith('.prisma')) {
    return [...text.matchAll(/\/\/[^\n]*(?:\n[ \t]*\/\/[^\n]*)*/g)].map(({ 0: comment, index }) => ({
      line: lineAt(index),
      text: comment.replace(/^[ \t]*\/{2,3} ?/gm, '').replace(/\n/g, ' '),
      kind: 'comment',
    }))
  }
  return [...text.matchAll(TOKENS)].flatMap(({ 0: token, index }) => {
    const isComment = token.startsWith('/')
    if (!isComment && file.startsWith('test/') && !IN_TEST.test(text.slice(Math.max(0, index - 40), index))) return []
    const bare = isComment
      ? commentText(token)
      : token
          .slice(1, -1)
          .replace(/\$\{[^}]*\}/g, 'value')
          .replace(/\s+/g, ' ')
          .trim()
    // A string without a space is a name; SQL and GraphQL are not prose.
    const isProse =
      isComment ||
      (bare.includes(' ') && !/\b(?:SELECT|INSERT|UPDATE|DELETE FROM|WITH|WHERE|EXISTS|JOIN) |[{}]/.test(bare))
    return isProse
      ? [{ line: lineAt(index), text: bare, kind: isComment ? ('comment' as const) : ('string' as const) }]
      : []
  })
}

const commentText = (comment: string) =>
  comment
    .replace(/^\/\*\*?|\*\/$/g, '')
    .replace(/^[ \t]*(?:\/\/|\*) ?/gm, '')
    .replace(/\s*\n\s*/g, ' ')
    .trim()

function paragraphsOf(text: string): Prose[] {
  const withoutCode = text.replace(/```[\s\S]*?```|<!--[\s\S]*?-->/g, (code) => code.replace(/[^\n]/g, ''))
  const paragraphs: Prose[] = []
  let line = 1
  for (const block of withoutCode.split(/\n(?=\s*(?:\n|[-*|#]|\d+\. ))/)) {
    const words = block
      .replace(/^\s*(?:#+|[-*]|\d+\.) /, '')
      .replace(/\s+/g, ' ')
      .trim()
    if (words !== '')
      paragraphs.push({
        line: line + (/^\s*/.exec(block)?.[0].split('\n').length ?? 1) - 1,
        text: words,
        kind: 'document',
      })
    line += block.split('\n').length
  }
  return paragraphs
}
