import { CodeBlock } from '../ui/code-block.tsx'

/** How to turn the space of a run into a test: a recording, its replay, and a test for Vitest. */
export function RunAsTest({ spaceId, agentName }: { spaceId: string; agentName: string }) {
  const file = `test/recordings/${spaceId}.jsonl`
  const title = JSON.stringify(`${agentName}: the space still behaves the same`)
  return (
    <section className="block">
      <details>
        <summary>Turn this into a test</summary>
        <div className="form">
          <p className="hint">
            Records the space with everything that influenced its runs, without secrets. The replay needs no network,
            key or server.
          </p>
          <h3>Record and replay</h3>
          <p className="hint">
            In a shell in the folder of this server, with its DATA_DIR or DATABASE_URL. Stop a server with an embedded
            database first.
          </p>
          <CodeBlock
            language="sh"
            code={`npx parley record --space ${spaceId} --out ${file}\nnpx parley replay ${file}`}
          />
          <h3>The test</h3>
          <p className="hint">
            For Vitest. This test passes while the agents repeat their recorded answers. To require a better answer, run{' '}
            <code>npx parley backtest</code> with checks.
          </p>
          <CodeBlock
            language="ts"
            code={`import { expect, test } from 'vitest'
import { replay } from 'parley/testing'

test(${title}, async () => {
  expect(await replay('${file}')).toMatchObject({ isEqual: true, divergence: null })
}, 60_000)`}
          />
        </div>
      </details>
    </section>
  )
}
