import { createHash } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { escapeHtml } from '../../lib/html.ts'

/** A page without scripts, for a browser that follows a link or is redirected by another server. */
export interface NoticePage {
  status: number
  title: string
  /** The paragraphs of the page. */
  text: readonly string[]
  /** A paragraph in small print. */
  hint?: string | null
  links: readonly { href: string; label: string }[]
  retryAfterSeconds?: number
}

/** Resembles the console's cards (web/styles). The page's policy does not allow the console's own files. */
const STYLE = `
  :root { color-scheme: light dark }
  * { box-sizing: border-box; margin: 0 }
  body { min-height: 100vh; display: grid; place-items: center; padding: 20px; overflow-wrap: anywhere;
    font: 15px/1.5 Inter, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
    color: light-dark(#1b1c1e, #ecedf0); background: light-dark(#f5f5f2, #101114) }
  main { width: min(430px, 100%); display: grid; gap: 14px; padding: 30px 32px; border-radius: 18px;
    background: light-dark(#ffffff, #1f2126); border: 1px solid light-dark(#e2e2dc, #2d3038);
    box-shadow: 0 8px 30px light-dark(rgb(20 20 30 / 0.16), rgb(0 0 0 / 0.55)) }
  .brand { display: flex; align-items: center; gap: 9px; font-size: 18px; font-weight: 700 }
  .mark { position: relative; width: 30px; height: 20px }
  .mark::before, .mark::after { content: ""; position: absolute; top: 1px; width: 18px; height: 18px;
    mix-blend-mode: multiply }
  .mark::before { left: 0; border-radius: 50%; background: oklch(0.76 0.15 55) }
  .mark::after { right: 0; border-radius: 5px; background: oklch(0.62 0.19 280); opacity: 0.88 }
  h1 { font-size: 22px; line-height: 1.25; font-weight: 650 }
  .hint { font-size: 13px; color: light-dark(#54565c, #a9adb8) }
  .links { display: flex; flex-wrap: wrap; justify-content: flex-end; gap: 8px }
  a { padding: 7px 14px; border-radius: 10px; font-weight: 550; text-decoration: none;
    color: inherit; border: 1px solid light-dark(#e2e2dc, #2d3038) }
  a:first-child { color: #ffffff; background: light-dark(#4338ca, #5b54e0); border-color: transparent }
  a:focus-visible { outline: 2px solid light-dark(#4338ca, #a5a6ff); outline-offset: 2px }
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
  const { status, title, text, hint = null, links, retryAfterSeconds } = page
  const paragraphs = text.map((one) => `<p>${escapeHtml(one)}</p>`).join('')
  const smallPrint = hint === null ? '' : `<p class="hint">${escapeHtml(hint)}</p>`
  const anchors = links.map(({ href, label }) => `<a href="${escapeHtml(href)}">${escapeHtml(label)}</a>`).join('')
  const retry = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }
  response.writeHead(status, { ...HEADERS, ...retry })
  response.end(
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
      `<title>${escapeHtml(title)} · Parley</title><style>${STYLE}</style></head>` +
      `<body><main><p class="brand"><span class="mark" aria-hidden="true"></span>Parley</p>` +
      `<h1>${escapeHtml(title)}</h1>${paragraphs}${smallPrint}<p class="links">${anchors}</p></main></body></html>`,
  )
}
