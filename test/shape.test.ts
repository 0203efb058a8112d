import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import ts from 'typescript'
import { describe, expect, test } from 'vitest'

const ROOT = path.resolve(import.meta.dirname, '..')
const MOST_LINES_OF_A_FILE = 300
const MOST_LINES_OF_A_FUNCTION = 50
/** Of a function that is listed because it makes one object. */
const MOST_LINES_OF_AN_OBJECT = 165
/** Functions that may have more lines than allowed, with the reason; without those of the functions within them they keep the rule. */
const LONG_FUNCTIONS: { reason: string; functions: string[] }[] = [
  {
    reason:
      'One thing with a state of its own that only its functions touch: apart from one another they would have to hand it round.',
    functions: [
      'client/chat-transport.ts answerTo',
      'client/live-space.ts liveSpace',
      'client/live-viewer.ts liveViewer',
      'client/transcript.ts createTranscript',
      'examples/apollo/chat.ts openChat',
      'examples/relay/chat.ts openChat',
      'examples/urql/chat.ts openChat',
      'web/talk/composer.tsx useMention',
      'web/talk/timeline.tsx Timeline',
      'web/ui/json-text.ts jsonText',
      'src/engine/live-generation.ts createLiveGeneration',
      'src/minds/persistent.ts createPersistentMind',
      'src/engine/tool-runner.ts createToolRunner',
      'src/engine/worker.ts createWorker',
      'src/realtime/in-process-event-log.ts createInProcessEventLog',
      'src/realtime/iterations.ts createIterations',
      'src/engine/notifying.ts createNotifying',
      'src/runs/carrying.ts createCarrying',
      'src/runs/leases.ts createLeases',
      'src/operation/erasure.ts createErasure',
      'src/operation/moving.ts rowsOf',
      'src/operation/name-redaction.ts createNameRedaction',
      'src/runs/run-events.ts createRunEvents',
      'src/server/http/event-streams.ts createEventStreams',
      'src/server/sockets/operations.ts socketOperations',
      'src/server/sockets/sockets.ts createSockets',
      'src/server/sockets/write-schedule.ts createWriteSchedule',
      'src/server/streams/agent-activity.ts createAgentActivity',
      'src/server/streams/answers.ts createAnswers',
      'src/server/streams/guards.ts createGuards',
      'src/server/streams/receiver.ts receiverOf',
      'src/server/streams/run-events.ts createRunEvents',
      'src/server/streams/space-messages.ts createSpaceMessages',
      'src/server/streams/viewer-sources.ts createViewerSources',
      'src/speech/spoken-parts.ts createSpokenParts',
      'src/speech/text-field.ts createTextFieldScanner',
      'src/tools/custom/guarded-http.ts createGuardedHttp',
      'src/tools/mcp/connection.ts createMcpConnection',
      'src/tools/mcp/mcp-tools.ts createServers',
    ],
  },
  {
    reason: 'The verbs of one noun, each a few lines around a statement, over the same tables and hooks.',
    functions: [
      'src/access/tokens.ts createTokens',
      'src/access/visibility.ts createVisibility',
      'src/agents/agents.ts createAgents',
      'src/agents/recall.ts createRecalling',
      'src/agents/webhooks.ts createWebhooks',
      'src/engine/observation.ts begin',
      'src/engine/observation.ts createObserver',
      'src/plans/plans.ts createPlans',
      'src/realtime/redis-event-log.ts createRedisEventLog',
      'src/routing/chain.ts createChaining',
      'src/runs/approvals.ts createApprovals',
      'src/runs/call-settling.ts createCallSettling',
      'src/runs/control.ts createControl',
      'src/routing/dispatch.ts createDispatch',
      'src/runs/journal.ts createJournal',
      'src/runs/lifecycle.ts createLifecycle',
      'src/runs/run-progress.ts createRunProgress',
      'src/schema/loaders.ts createRows',
      'src/schema/viewer-loaders.ts createVisible',
      'src/spaces/announcer.ts createAnnouncer',
      'src/spaces/members.ts createMembers',
      'src/spaces/reading.ts createReading',
      'src/spaces/replies.ts createReplies',
      'src/spaces/reply-search.ts createReplySearch',
      'src/spaces/spaces.ts createSpaces',
      'src/speech/aftermath.ts createAftermath',
      'src/speech/run-posting.ts createRunPosting',
      'src/speech/shown-parts.ts createShownParts',
      'src/tools/mcp/mcp-toolset.ts createMcpToolset',
    ],
  },
  {
    reason: 'What a library is given, as the one literal that it asks for.',
    functions: ['src/server/sockets/operations.ts socketOperations'],
  },
]

const FOLDERS_THAT_SAY_NOTHING = ['utils', 'util', 'helpers', 'services', 'common', 'misc']

const files = ['src', 'client', 'web', 'examples', 'bench', 'scripts', 'test'].flatMap(sourcesIn)
const product = files.filter((file) => /^(src|client|web)\//.test(file))

/** TypeScript files under a folder that people wrote, as paths from the project's root. */
function sourcesIn(folder: string): string[] {
  const absolute = path.join(ROOT, folder)
  if (!existsSync(absolute)) return []
  return readdirSync(absolute, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => path.relative(ROOT, path.join(entry.parentPath, entry.name)).split(path.sep).join('/'))
    .filter((file) => !/(^|\/)(generated|__generated__|dist|node_modules)\//.test(file))
}

const textOf = (file: string) => readFileSync(path.join(ROOT, file), 'utf8')

interface MeasuredFunction {
  /** `file name`: of a function without a name, that of the variable or property which holds it. */
  name: string
  lines: number
  /** Without the lines of the functions that stand within it. */
  ownLines: number
}

/** Functions with more lines than allowed, the lines of those that stand within them counted too. */
function longFunctionsOf(file: string): MeasuredFunction[] {
  const source = ts.createSourceFile(
    file,
    textOf(file),
    ts.ScriptTarget.Latest,
    true,
    file.endsWith('x') ? ts.ScriptKind.TSX : ts.ScriptKind.TS,
  )
  const lineOf = (position: number) => source.getLineAndCharacterOfPosition(position).line
  const long: MeasuredFunction[] = []
  /** What a component shows is markup, as a page's is: it counts as one line. */
  function markupLinesUnder(node: ts.Node): number {
    if (isMarkup(node)) return lineOf(node.end) - lineOf(node.getStart(source))
    let lines = 0
    ts.forEachChild(node, (child) => {
      lines += markupLinesUnder(child)
    })
    return lines
  }
  /** Answers with the number of lines under `node` that belong to functions. */
  function visit(node: ts.Node): number {
    let inner = 0
    ts.forEachChild(node, (child) => {
      inner += visit(child)
    })
    if (isMarkup(node)) return 0
    if (!ts.isFunctionLike(node) || !('body' in node) || !node.body) return inner
    const lines = lineOf(node.end) - lineOf(node.getStart(source)) + 1 - markupLinesUnder(node)
    if (lines > MOST_LINES_OF_A_FUNCTION)
      long.push({ name: `${file} ${nameOf(node, source)}`, lines, ownLines: lines - inner })
    return lines > 1 ? lines - 1 : 0
  }
  visit(source)
  return long
}

const isMarkup = (node: ts.Node) => ts.isJsxElement(node) || ts.isJsxSelfClosingElement(node) || ts.isJsxFragment(node)

function nameOf(node: ts.SignatureDeclaration, source: ts.SourceFile): string {
  const { parent } = node
  const holder = ts.isVariableDeclaration(parent) || ts.isPropertyAssignment(parent) ? parent : node
  return holder.name?.getText(source) ?? 'a function'
}

describe('the house', () => {
  test('there is something to look at', () => {
    expect(product.length).toBeGreaterThan(10)
  })

  test(`no file of the product has more than ${MOST_LINES_OF_A_FILE} lines`, () => {
    const linesOf = (file: string) => textOf(file).trimEnd().split('\n').length
    expect(product.filter((file) => linesOf(file) > MOST_LINES_OF_A_FILE)).toEqual([])
  })

  test(`no function has more than ${MOST_LINES_OF_A_FUNCTION} lines, unless it is listed here with a reason`, () => {
    const long = files.filter((file) => !file.startsWith('test/')).flatMap(longFunctionsOf)
    const listed = LONG_FUNCTIONS.flatMap(({ functions }) => functions)
    expect(long.filter(({ name }) => !listed.includes(name))).toEqual([])
    expect(long.filter(({ ownLines }) => ownLines > MOST_LINES_OF_A_FUNCTION)).toEqual([])
    expect(long.filter(({ lines }) => lines > MOST_LINES_OF_AN_OBJECT)).toEqual([])
  })

  test('files and folders are named in kebab-case', () => {
    const kebab = /^[a-z0-9]+(-[a-z0-9]+)*(\.(test|config|d))?(\.tsx?)?$/
    expect(files.filter((file) => !file.split('/').every((part) => kebab.test(part)))).toEqual([])
  })

  test('no folder is a drawer for what found no name', () => {
    expect(files.filter((file) => file.split('/').some((part) => FOLDERS_THAT_SAY_NOTHING.includes(part)))).toEqual([])
  })

  /** Files of src/ whose statements touch one of the tables in such a way, as SQL or by Prisma's delegate. */
  function touching(tables: string[], how: { sql: string; prisma: string }): string[] {
    const delegates = tables.map((table) => table[0]?.toLowerCase() + table.slice(1))
    const statement = new RegExp(`${how.sql}"(${tables.join('|')})"|\\.(${delegates.join('|')})\\s*\\.${how.prisma}`)
    return files.filter((file) => file.startsWith('src/') && statement.test(textOf(file)))
  }
  const ANY = { sql: '', prisma: '' }
  const WRITING = {
    sql: '(INSERT INTO|UPDATE|DELETE FROM)\\s+',
    prisma: '(create|update|upsert|delete)',
  }

  test('spaces know nothing of runs, in their statements neither', () => {
    const tables = 'Run RunSpace Step ToolCall Decision Chain Cycle InboxEvent Plan PlanFiring'.split(' ')
    const ofRuns = touching(tables, ANY)
    expect(ofRuns.length).toBeGreaterThan(10)
    expect(ofRuns.filter((file) => file.startsWith('src/spaces/'))).toEqual([])
  })

  test('tool calls have one writer, in three files', () => {
    const writers = ['src/runs/calls-in-hand.ts', 'src/runs/tool-call-ends.ts', 'src/runs/tool-calls.ts']
    expect(touching(['ToolCall'], WRITING)).toEqual(writers)
  })

  test('only a hold says that a run is lost', () => {
    const throwing = files.filter((file) => file.startsWith('src/') && /new RunLostError/.test(textOf(file)))
    expect(throwing).toEqual(['src/runs/hold.ts'])
  })

  test('the settings are read in one place', () => {
    const readers = files.filter(
      (file) => file.startsWith('src/') && /process\s*\.\s*env|\benv\b.*node:process/.test(textOf(file)),
    )
    expect(readers.filter((file) => file !== 'src/config.ts' && file !== 'src/main.ts')).toEqual([])
  })

  test.each([
    ['imports follow the arrows, without a circle', 'check:arrows'],
    ['schema.graphql is what src/schema says', 'check:schema'],
    ['schema.graphql keeps the contract', 'check:contract'],
  ])('%s', async (_, script) => {
    const run = promisify(execFile)('npm', ['run', '--silent', script], { cwd: ROOT })
    const outcome = run.then(
      () => 'holds',
      (error) => `${error.stdout}${error.stderr}`,
    )
    expect(await outcome).toBe('holds')
  })
})
