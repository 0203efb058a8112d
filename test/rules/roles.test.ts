import { describe, expect, test } from 'vitest'
import { checkRoleChange, leavesNoAdmin } from '../../src/rules/roles.ts'

const [ADA, BOB] = ['hum_ada', 'hum_bob']

describe('a change of the role of a human', () => {
  test.each`
    role        | by      | adminIds      | isRefused
    ${'MEMBER'} | ${ADA}  | ${[ADA]}      | ${true}
    ${'MEMBER'} | ${null} | ${[ADA]}      | ${false}
    ${'MEMBER'} | ${ADA}  | ${[ADA, BOB]} | ${false}
    ${'MEMBER'} | ${BOB}  | ${[ADA, BOB]} | ${false}
    ${'MEMBER'} | ${BOB}  | ${[BOB]}      | ${false}
    ${'ADMIN'}  | ${BOB}  | ${[BOB]}      | ${false}
    ${'ADMIN'}  | ${null} | ${[]}         | ${false}
  `(
    'Ada becomes $role by $by, with the admins $adminIds: refused is $isRefused',
    ({ isRefused, adminIds, ...given }) => {
      const check = () => checkRoleChange({ humanId: ADA, ...given }, adminIds)
      if (isRefused) expect(check).toThrow(/No other person has the role ADMIN/)
      else expect(check).not.toThrow()
    },
  )

  test('the last admin cannot lose the role', () => {
    expect(leavesNoAdmin({ humanId: ADA, role: 'MEMBER' }, [ADA])).toBe(true)
    expect(leavesNoAdmin({ humanId: ADA, role: 'MEMBER' }, [ADA, BOB])).toBe(false)
    expect(leavesNoAdmin({ humanId: BOB, role: 'MEMBER' }, [ADA])).toBe(false)
    expect(leavesNoAdmin({ humanId: BOB, role: 'ADMIN' }, [])).toBe(false)
  })
})
