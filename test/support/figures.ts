/** One line of the /metrics response. */
export interface Sample {
  name: string
  labels: Record<string, string>
  value: number
}

/** The metrics of a server. */
export async function scrape(origin: string): Promise<Sample[]> {
  const response = await fetch(`${origin}/metrics`)
  if (!response.ok) throw new Error(`/metrics answers ${response.status}`)
  return (await response.text()).split('\n').flatMap((line) => {
    const [, name, labels = '', value] = /^([a-z_:]\w*)(?:\{(.*)\})? (\S+)$/i.exec(line) ?? []
    return name === undefined ? [] : [{ name, labels: labelsOf(labels), value: Number(value) }]
  })
}

/** Returns the sum of the samples with this name and these labels; null if there are none. */
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
