import { createHash } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { escapeHtml } from '../../lib/html.ts'

/** A page without scripts, for a browser that arrives from a link or another server. */
export interface NoticePage {
  status: number
  title: string
  /** The paragraphs of the page. */
  text: readonly string[]
  links: readonly { href: string; label: string }[]
  retryAfterSeconds?: number
}

const STYLE = `
  :root { color-scheme: light dark }
  body { margin: 0; min-height: 100vh; display: grid; place-items: center; font: 16px/1.5 system-ui, sans-serif }
  main { max-width: 32rem; padding: 2rem }
  h1 { font-size: 1.4rem }
  a { margin-right: 1.5rem }
`

const HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
}

export function sendNoticePage(response: ServerResponse, page: NoticePage): void {
  const { status, title, text, links, retryAfterSeconds } = page
  const paragraphs = text.map((one) => `<p>${escapeHtml(one)}</p>`).join('')
  const anchors = links.map(({ href, label }) => `<a href="${escapeHtml(href)}">${escapeHtml(label)}</a>`).join('')
  const retry = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }
  response.writeHead(status, { ...HEADERS, ...retry })
  response.end(
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
      `<title>${escapeHtml(title)} · Parley</title><style>${STYLE}</style></head>` +
      `<body><main><h1>${escapeHtml(title)}</h1>${paragraphs}<p>${anchors}</p></main></body></html>`,
  )
}
