import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { surviveRejections } from '../../src/app/rejections.ts'
import { PROVIDER_PRESETS } from '../../src/lib/model-provider.ts'
import { STACKS } from '../support/application.ts'
import { scrape } from '../support/figures.ts'
import { steps } from '../support/model-server-script.ts'
import { askedBy } from '../support/promql.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { skip } from '../support/thinking.ts'
import { until } from '../support/until.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const textOf = (file: string) => readFileSync(path.join(ROOT, file), 'utf8')

interface Rule {
  alert: string
  expr: string
  labels: { severity: string }
  annotations: { summary: string; description: string; runbook: string }
}
interface Dashboard {
  templating: { list: { name: string; query: unknown }[] }
  panels: { id: number; title: string; gridPos: Place; targets?: { expr: string }[] }[]
}
interface Place {
  x: number
  y: number
  w: number
  h: number
}

const { groups } = parse(textOf('deploy/alerts.yml')) as { groups: { rules: Rule[] }[] }
const rules = groups.flatMap((group) => group.rules)
const dashboard = JSON.parse(textOf('deploy/grafana-dashboard.json')) as Dashboard
const panels = dashboard.panels.filter(({ targets }) => targets !== undefined)
const expressions = [
  ...rules.map(({ alert, expr }) => [alert, expr] as const),
  ...panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => [title, expr] as const)),
]
/** The values that Grafana puts in place of variables. */
const filled = (expression: string) => expression.replaceAll('$__rate_interval', '5m').replaceAll('$instance', '.*')

describe.runIf(STACKS.includes('postgres'))('alerts and dashboard', () => {
  let parley: TestServer
  /** The labels of each served metric. */
  const served = new Map<string, Set<string>>()
  let stopCounting: () => void

  beforeAll(async () => {
    const settings = { PARLEY_PRICES: '{ "openai.chat:test": { "input": 1, "output": 1 } }' }
    parley = await startTestServer({ stack: 'postgres', settings })
    // Starts the application as a separate process would.
    stopCounting = surviveRejections(parley.app.platform.logger, parley.app.platform.metrics)
    const { human, space } = await parley.room('Ada')
    const client = await parley.clientOf(human)
    const watched = client.subscribe<object, object>(
      { toString: () => 'subscription ($id: ID!) { spaceMessages(spaceId: $id) { __typename } }' },
      { id: space.id },
    )
    await watched.first(() => true)
    const answers = steps([{ toolCall: 'send_message', input: { text: 'Hello.' } }], [{ text: 'Done.' }])
    let isRefused = true
    parley.models.script((request) => {
      if (!isRefused) return answers(request)
      isRefused = false
      return [{ error: 'no such key', status: 401 }]
    })
    for (const text of ['This fails', 'This does not']) {
      const { runs } = await parley.send(human, space.id, text)
      await parley.runWhen(runs[0]?.id ?? '')
    }
    await client.close()
    const mind = await parley.room('A mind', { mind: 'PERSISTENT' })
    parley.models.script(() => skip('Not mine.'))
    await parley.send(mind.human, mind.space.id, 'Hello')
    // The labels and metrics that Prometheus adds.
    served.set('up', new Set())
    await until('everything has been counted once', async () => {
      for (const { name, labels } of await scrape(parley.origin))
        served.set(name, new Set([...(served.get(name) ?? []), ...Object.keys(labels)]))
      const counted = [
        'runs_ended_total',
        'socket_closes_total',
        'first_delta_seconds_bucket',
        'fanout_lag_seconds_bucket',
        'skipped_cycle_tokens_total',
      ]
      return counted.every((name) => served.get(`parley_${name}`)?.size)
    })
  })
  afterAll(() => {
    stopCounting?.()
    return parley?.close()
  })

  test.each(expressions)('%s queries metrics that /metrics serves: %s', (_, expression) => {
    const asked = askedBy(filled(expression))
    expect(asked.length).toBeGreaterThan(0)
    const missing = asked.flatMap(({ metric, labels }) => {
      const known = served.get(metric)
      if (known === undefined) return [metric]
      return labels
        .filter((label) => !['job', 'instance'].includes(label) && !known.has(label))
        .map((label) => `${metric}.${label}`)
    })
    expect(missing).toEqual([])
  })

  test('the dashboard shows each Parley metric', () => {
    const shown = new Set(
      panels
        .flatMap(({ targets = [] }) => targets.flatMap(({ expr }) => askedBy(filled(expr))))
        .map(({ metric }) => metric),
    )
    const ours = [...served.keys()].filter((name) => name.startsWith('parley_') && !/_(sum|count)$/.test(name))
    expect(ours.filter((name) => !shown.has(name))).toEqual([])
  })
})

test('a text that is not PromQL is rejected', () => {
  expect(() => askedBy('sum(rate(parley_runs_ended_total[5m])')).toThrow('no PromQL')
})

test('each alert links to its section of docs/operation.md, and there are no other sections', () => {
  const page = textOf('docs/operation.md')
  const sections = [...page.matchAll(/^### (Parley\w+)$/gm)].map(([, name]) => name)
  expect(sections).toEqual(rules.map(({ alert }) => alert))
  for (const { alert, annotations, labels } of rules) {
    expect(annotations.runbook).toBe(`docs/operation.md#${alert.toLowerCase()}`)
    expect(['critical', 'warning', 'info']).toContain(labels.severity)
    for (const text of [annotations.summary, annotations.description]) expect(text.length).toBeGreaterThan(5)
  }
})

test('docs/operation.md names every setting, and its links have targets', () => {
  const page = textOf('docs/operation.md')
  const pattern =
    /`((?:PARLEY|AUTH|OPENAI|AZURE|OTEL)_[A-Z_]+|[A-Z_]+_API_KEY|PORT|HOST|DATABASE_URL|REDIS_URL|DATA_DIR)`/g
  const namesIn = (text: string) => new Set([...text.matchAll(pattern)].map(([, name]) => name))
  const table = page.slice(page.indexOf('## Settings'), page.indexOf('## Monitoring'))
  expect([...namesIn(table)].sort()).toEqual([...namesIn(textOf('docs/settings.md'))].sort())
  const keys = [...PROVIDER_PRESETS.values()].flatMap(({ keyVariables = [] }) => keyVariables)
  expect([...namesIn(table)]).toEqual(expect.arrayContaining([...keys, 'AZURE_API_KEY', 'AZURE_RESOURCE_NAME']))
  for (const [, file = '', anchor] of page.matchAll(/\]\(([^)#]*)(?:#([^)]+))?\)/g)) {
    const target = path.join('docs', file === '' ? 'operation.md' : file)
    expect(existsSync(path.join(ROOT, target)), target).toBe(true)
    if (anchor === undefined) continue
    const there = textOf(target)
    const anchors = [...there.matchAll(/^#+ (.+)$/gm)].map(([, title = '']) =>
      title
        .toLowerCase()
        .replace(/[^\w -]/g, '')
        .replaceAll(' ', '-'),
    )
    expect(anchors).toContain(anchor)
  }
})

test('no two panels of the dashboard overlap, and each has a unique number', () => {
  const { panels: all } = dashboard
  expect(new Set(all.map(({ id }) => id)).size).toBe(all.length)
  const lies = (a: Place, b: Place) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h
  const overlapping = all.flatMap((one, index) =>
    all.slice(index + 1).filter(({ gridPos }) => lies(one.gridPos, gridPos)),
  )
  expect(overlapping).toEqual([])
})
