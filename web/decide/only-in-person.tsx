import { useSession } from '../session.tsx'
import { Button } from '../ui/button.tsx'

/**
 * Shown instead of a form while an admin acts as a person, because the server accepts decisions and answers only from the
 * person.
 */
export function OnlyInPerson({ verb }: { verb: 'decide' | 'answer' }) {
  const { viewer } = useSession()
  return (
    <div className="decide">
      {verb === 'decide' && (
        <>
          <Button look="primary" icon="check" disabled>
            Approve
          </Button>
          <Button look="danger" icon="cross" disabled>
            Deny
          </Button>
        </>
      )}
      <p className="note">
        Only {viewer.viewer?.human?.name ?? 'this person'} can {verb}.
      </p>
    </div>
  )
}
