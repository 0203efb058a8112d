import { Icon } from './icons.tsx'

type Named = readonly { id: string; name: string }[]

/** The names of confidential spaces, inline. */
export function InConfidence({ spaces }: { spaces: Named }) {
  return (
    <span className="confided">
      <Icon name="lock" size={13} /> {spaces.map(({ name }) => name).join(', ')}
    </span>
  )
}

/** The confidential spaces from which content comes. Shows nothing if there are none. */
export function Confided({ to }: { to: Named }) {
  if (to.length === 0) return null
  return (
    <>
      <span className="sr-only">Confidential, from</span> <InConfidence spaces={to} />
    </>
  )
}
