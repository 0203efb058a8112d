import { createRequire } from 'node:module'

interface SyntaxNode {
  name: string
  type: { isError: boolean }
  from: number
  to: number
  getChild(name: string): SyntaxNode | null
  getChildren(name: string): SyntaxNode[]
}
interface Promql {
  parser: { parse(text: string): { iterate(visitor: { enter(node: { node: SyntaxNode }): void }): void } }
}

// The grammar of Prometheus itself, which its query page uses.
const { parser } = createRequire(import.meta.url)('@prometheus-io/lezer-promql') as Promql

/** A metric of an expression, with the labels by which the expression selects or groups. */
export interface Asked {
  metric: string
  labels: string[]
}

/** @throws with the position if the text is not PromQL */
export function askedBy(expression: string): Asked[] {
  const textOf = ({ from, to }: SyntaxNode) => expression.slice(from, to)
  const selectors: (Asked & SyntaxNode)[] = []
  const groupings: { within: SyntaxNode; labels: string[] }[] = []
  const labelsIn = (node: SyntaxNode | null, matcher: string) =>
    (node?.getChildren(matcher) ?? []).flatMap((one) => {
      const name = matcher === 'LabelName' ? one : one.getChild('LabelName')
      return name === null ? [] : [textOf(name)]
    })
  parser.parse(expression).iterate({
    enter({ node }) {
      if (node.type.isError) throw new Error(`no PromQL at ${node.from}: ${expression}`)
      if (node.name === 'VectorSelector') {
        const metric = node.getChild('Identifier')
        if (metric === null) throw new Error(`a selector without a metric: ${expression}`)
        const labels = labelsIn(node.getChild('LabelMatchers'), 'UnquotedLabelMatcher')
        selectors.push(Object.assign(node, { metric: textOf(metric), labels }))
      }
      const modifier = node.name === 'AggregateExpr' ? node.getChild('AggregateModifier') : null
      if (modifier !== null)
        groupings.push({ within: node, labels: labelsIn(modifier.getChild('GroupingLabels'), 'LabelName') })
    },
  })
  return selectors.map(({ metric, labels, from, to }) => {
    const around = groupings.filter(({ within }) => within.from <= from && to <= within.to)
    return { metric, labels: [...labels, ...around.flatMap((grouping) => grouping.labels)] }
  })
}
