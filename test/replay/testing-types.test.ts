import { expectTypeOf, test } from 'vitest'
import type * as Real from '../../src/replay/testing.ts'
import type * as Declared from '../../types/testing.d.ts'

test('the declared types of parley/testing are those of the code', () => {
  expectTypeOf<Declared.Replayed>().toEqualTypeOf<Real.Replayed>()
  expectTypeOf<Declared.Divergence>().toEqualTypeOf<Real.Divergence>()
  expectTypeOf<Declared.DivergenceKind>().toEqualTypeOf<Real.DivergenceKind>()
  expectTypeOf<keyof Declared.Backtest>().toEqualTypeOf<keyof Real.Backtest>()
  expectTypeOf<Omit<Real.Backtest, 'recorded' | 'candidate'>>().toExtend<
    Omit<Declared.Backtest, 'recorded' | 'candidate'>
  >()
  expectTypeOf<keyof Declared.BacktestOptions>().toEqualTypeOf<keyof Real.BacktestOptions>()
  expectTypeOf<keyof Declared.Check>().toEqualTypeOf<keyof Real.Check>()
  expectTypeOf<Declared.AgentSummary['ends']>().toEqualTypeOf<Real.Backtest['recorded'][number]['ends']>()
  expectTypeOf<keyof Declared.AgentSummary>().toEqualTypeOf<keyof Real.Backtest['recorded'][number]>()
})
