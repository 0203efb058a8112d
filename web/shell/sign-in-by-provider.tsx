import { addressOf } from '../location.ts'
import { pathHere } from './return-path.ts'
import type { IdentityProvider } from './sign-in-ways.ts'

/** Offers the identity providers of the server. Returns to the page that required signing in. */
export function SignInByProvider({ providers }: { providers: readonly IdentityProvider[] }) {
  if (providers.length === 0) return null
  return (
    <ul className="sign-in-providers">
      {providers.map(({ name, label }) => (
        <li key={name}>
          <a className="button" href={`${addressOf(`/auth/oidc/${name}`)}?to=${encodeURIComponent(pathHere())}`}>
            Sign in with {label}
          </a>
        </li>
      ))}
    </ul>
  )
}
