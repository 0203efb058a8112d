import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

/** A registry of metrics. A metric is created only once, even if the module that registers it is created again. */
type Metrics = Pick<Registry, 'getSingleMetric' | 'registerMetric'>

export function counter<Label extends string>(
  metrics: Metrics,
  name: string,
  help: string,
  labelNames: readonly Label[] = [],
): Counter<Label> {
  return once(metrics, name, () => new Counter({ name, help, labelNames, registers: [] }))
}

export function histogram<Label extends string>(
  metrics: Metrics,
  name: string,
  help: string,
  { buckets, labelNames = [] }: { buckets: number[]; labelNames?: readonly Label[] },
): Histogram<Label> {
  return once(metrics, name, () => new Histogram({ name, help, buckets, labelNames, registers: [] }))
}

/** Registers a gauge. `read` returns its value at each scrape. */
export function gauge(metrics: Metrics, name: string, help: string, read: () => number): void {
  once(metrics, name, () => {
    return new Gauge({
      name,
      help,
      registers: [],
      collect() {
        this.set(read())
      },
    })
  })
}

/** Limits the number of values of a label: after `most` different values, further values are replaced with `other`. */
export function atMost(most: number): (value: string) => string {
  const known = new Set<string>()
  return (value) => {
    if (known.size < most) known.add(value)
    return known.has(value) ? value : OTHER
  }
}

/** The label value that replaces all values above the limit. */
export const OTHER = 'other'

function once<M extends Counter | Gauge | Histogram>(metrics: Metrics, name: string, make: () => M): M {
  const known = metrics.getSingleMetric(name)
  if (known !== undefined) return known as M
  const made = make()
  metrics.registerMetric(made as never)
  return made
}
