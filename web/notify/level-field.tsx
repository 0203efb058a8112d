import { payloadOf } from '../../client/index.ts'
import type { NotifyLevel } from '../../generated/graphql.ts'
import { useAsk, useDo } from '../ask.ts'
import { useSession } from '../session.tsx'
import { SelectField } from '../ui/field.tsx'
import { Refused } from '../ui/notice.tsx'
import { NOTIFY_LEVEL, SET_NOTIFY_LEVEL } from './operations.ts'

const LEVELS = [
  ['ALL', 'Every message'],
  ['MENTIONS', 'Messages that mention me'],
  ['NOTHING', 'Only requests for my decision'],
] as const

/** The person's own level of notifications in a space. */
export function LevelField({ spaceId }: { spaceId: string }) {
  const { connection, isHuman } = useSession()
  const { data } = useAsk(NOTIFY_LEVEL, { spaceId }, { enabled: isHuman })
  const save = useDo(async (level: NotifyLevel) => {
    payloadOf((await connection.ask(SET_NOTIFY_LEVEL, { spaceId, level })).setNotifyLevel, 'SetNotifyLevelPayload')
  })
  const level = data?.space?.notifyLevel
  if (!isHuman || level === undefined) return null
  return (
    <section className="block">
      <SelectField
        label="Notify me of"
        value={level}
        disabled={save.isBusy}
        options={LEVELS}
        onChange={({ target }) => save.start(target.value as NotifyLevel)}
      />
      <Refused error={save.error} />
    </section>
  )
}
