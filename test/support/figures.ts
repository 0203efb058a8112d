/** One line of what /metrics answers. */
export interface Sample {
  name: string
  labels: Record<string, string>
  value: number
}

/** What a server shows of itself to Prometheus. */
export async function scrape(origin: string): Promise<Sample[]> {
  const response = await fetch(`${origin}/metrics`)
  if (!response.ok) throw new Error(`/metrics answers ${response.status}`)
  return (await response.text()).split('\n').flatMap((line) => {
    const [, name, labels = '', value] = /^([a-z_:]\w*)(?:\{(.*)\})? (\S+)$/i.exec(line) ?? []
    return name === undefined ? [] : [{ name, labels: labelsOf(labels), value: Number(value) }]
  })
}

/** The sum of the samples of a name with these labels; null where there is none. */
export function figure(samples: Sample[], name: string, labels: Record<string, string> = {}): number | null {
  const found = samples.filter(
    (sample) =>
      sample.name === name && Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
  )
  return found.length === 0 ? null : found.reduce((sum, { value }) => sum + value, 0)
}

function labelsOf(text: string): Record<string, string> {
  return Object.fromEntries(
    [...text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name = '', value = '']) => [name, value]),
  )
}
