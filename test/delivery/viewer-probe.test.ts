import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test, vi } from 'vitest'
import type { Viewer } from '../../src/access/viewer.ts'
import { probeOf } from '../../src/delivery/viewer-probe.ts'

const VIEWER: Viewer = { scope: 'HUMAN', id: 'hum_1', tokenId: 'acc_1', expiresAt: null }

test('a probe reports once that an operation read more than the scope, by whichever path', () => {
  const ways: ((viewer: Viewer) => unknown)[] = [
    ({ id }) => id,
    (viewer) => ({ ...viewer }),
    (viewer) => 'agentIds' in viewer,
  ]
  for (const ask of ways) {
    const onAsked = vi.fn()
    const probe = probeOf(VIEWER, onAsked)
    expect(probe.scope).toBe('HUMAN')
    expect(onAsked).not.toHaveBeenCalled()
    ask(probe)
    ask(probe)
    expect(onAsked).toHaveBeenCalledOnce()
  }
})

test('no code compares viewers by identity, which a probe cannot detect', () => {
  const src = path.resolve(import.meta.dirname, '../../src')
  const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.startsWith('generated'))
    .map((file) => path.join(src, file))
  expect(files.length).toBeGreaterThan(400)
  const byIdentity =
    /\bviewer\s*[!=]==?\s*(?!null\b|undefined\b)[a-z]|[!=]==?\s*viewer\b(?!\.)|\.(get|has|set)\(viewer[,)]|Weak(Map|Set)<\w*Viewer/
  expect(files.filter((file) => byIdentity.test(readFileSync(file, 'utf8')))).toEqual([])
})
