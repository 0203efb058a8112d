import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { defineConfig, type MarkdownOptions } from 'vitepress'

const DOCS = path.resolve(import.meta.dirname, '..')
const ROOT = path.resolve(DOCS, '..')
/** Files outside of docs/ to which a page links. The site serves copies of these files, so that it needs no other host. */
const COPIES = path.join(DOCS, 'public', 'repository')

/** Returns the path of a link's target, relative to the repository's root, if the target is outside of docs/. Otherwise null. */
function linkedFile(page: string, link: string): string | null {
  if (/^(?:[a-z]+:|#|\/)/.test(link)) return null
  const [file = ''] = link.split('#')
  const target = path.relative(ROOT, path.resolve(DOCS, path.dirname(page), decodeURI(file)))
  return target.startsWith(`docs${path.sep}`) || target.startsWith('..') ? null : target.split(path.sep).join('/')
}

/** Copies a file and appends .txt to its name, so that a browser shows the copy instead of downloading it. */
function copyFile(file: string): void {
  mkdirSync(path.dirname(path.join(COPIES, file)), { recursive: true })
  cpSync(path.join(ROOT, file), path.join(COPIES, `${file}.txt`))
}

/** Copies a folder's files, and adds a page that lists them. */
function copyFolder(folder: string): void {
  const names = readdirSync(path.join(ROOT, folder), { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => name)
  for (const name of names) copyFile(`${folder}/${name}`)
  const links = names.map((name) => `<li><a href="${name}.txt">${name}</a></li>`).join('')
  writeFileSync(path.join(COPIES, folder, 'index.html'), `<!doctype html><title>${folder}</title><ul>${links}</ul>`)
}

const isFolder = (file: string) => statSync(path.join(ROOT, file)).isDirectory()
const copyOf = (file: string) => (isFolder(file) ? `${file}/index.html` : `${file}.txt`)

function copyLinkedFiles(): void {
  rmSync(COPIES, { recursive: true, force: true })
  for (const page of globSync('**/*.md', { cwd: DOCS, exclude: ['node_modules', '.vitepress', 'public'] })) {
    const links = readFileSync(path.join(DOCS, page), 'utf8').matchAll(/\]\(([^)\s]+)\)/g)
    for (const [, link = ''] of links) {
      const file = linkedFile(page, link)
      if (file === null) continue
      if (!existsSync(path.join(ROOT, file))) throw new Error(`${page} links to ${link}, which does not exist`)
      if (isFolder(file)) copyFolder(file)
      else copyFile(file)
    }
  }
}

const linkToCopies: MarkdownOptions['config'] = (markdown) => {
  markdown.core.ruler.push('link-to-copies', ({ tokens, env }) => {
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      if (token.type !== 'link_open') continue
      const file = linkedFile(env.relativePath, token.attrGet('href') ?? '')
      if (file === null) continue
      const up = '../'.repeat(env.relativePath.split('/').length - 1)
      token.attrSet('href', `${up === '' ? './' : up}repository/${copyOf(file)}`)
      token.attrSet('target', '_blank')
    }
  })
}

copyLinkedFiles()

export default defineConfig({
  title: 'Parley',
  description: 'Group chat for people and AI agents, self-hosted',
  lang: 'en',
  lastUpdated: false,
  ignoreDeadLinks: 'localhostLinks',
  markdown: { config: linkToCopies },
  srcExclude: ['node_modules'],
  themeConfig: {
    // The archived decision records are not maintained.
    search: {
      provider: 'local',
      options: {
        _render: (source, env, markdown) =>
          env.relativePath.startsWith('decisions/archive/') ? '' : markdown.render(source, env),
      },
    },
    outline: [2, 3],
    nav: [
      { text: 'Guide', link: '/guide/concepts', activeMatch: '/guide/|/tour' },
      { text: 'API', link: '/guide/api' },
      { text: 'Operation', link: '/operation' },
      { text: 'Development', link: '/contributing' },
    ],
    sidebar: [
      {
        text: 'Start',
        items: [
          { text: 'Overview', link: '/' },
          { text: 'Your team in fifteen minutes', link: '/team' },
          { text: 'Tour of the API', link: '/tour' },
          { text: 'Your first tool', link: '/first-tool' },
          { text: 'Concepts', link: '/guide/concepts' },
          { text: 'Models and providers', link: '/models' },
          { text: 'Signing in', link: '/sign-in' },
          { text: 'Settings', link: '/settings' },
        ],
      },
      {
        text: 'Guide',
        items: [
          { text: 'Every agent receives every message', link: '/guide/broadcast' },
          { text: 'One admin agent', link: '/guide/admin' },
          { text: 'Agents take turns', link: '/guide/mention-chain' },
          { text: 'An agent with memory', link: '/guide/persistent-mind' },
          { text: 'Plans and services', link: '/guide/plans-and-services' },
          { text: 'Approvals', link: '/guide/approvals' },
          { text: 'Notifications', link: '/notifications' },
          { text: 'Confidential spaces', link: '/guide/confidential-spaces' },
        ],
      },
      {
        text: 'Build on it',
        items: [
          { text: 'How the API behaves', link: '/guide/api' },
          { text: 'Build a front end', link: '/front-ends' },
          { text: 'A room as a test', link: '/replay' },
          { text: 'Files', link: '/files' },
          { text: 'Search', link: '/search' },
          { text: 'MCP clients', link: '/guide/mcp' },
          { text: 'A2A clients', link: '/guide/a2a' },
          { text: 'Agents on other servers', link: '/foreign-agents' },
          { text: 'AG-UI', link: '/ag-ui' },
          { text: 'Open Responses (OpenAI)', link: '/open-responses' },
        ],
      },
      {
        text: 'Run it',
        items: [
          { text: 'Operating Parley', link: '/operation' },
          { text: 'Behind a proxy', link: '/behind-a-proxy' },
          { text: 'Hosted databases and poolers', link: '/hosted-databases' },
          { text: 'Moving data', link: '/moving' },
          { text: 'Speed', link: '/speed' },
        ],
      },
      {
        text: 'Develop it',
        items: [
          { text: 'Contributing', link: '/contributing' },
          { text: 'Architecture and glossary', link: '/architecture' },
          { text: 'Internals, part by part', link: '/internals' },
          { text: 'Round trips of a run', link: '/round-trips' },
          { text: 'Dependencies', link: '/dependencies' },
          { text: 'Decision records', link: '/decisions/' },
        ],
      },
    ],
  },
})
