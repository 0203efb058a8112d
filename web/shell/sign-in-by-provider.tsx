import { useEffect, useState } from 'react'
import { addressOf, basePath } from '../location.ts'

interface Provider {
  name: string
  label: string
}

interface SignInByProviderProps {
  /** Called once, when it is known whether this way of signing in is offered. */
  onKnown(isOffered: boolean): void
}

/** Offers the identity providers of the server, and returns to the page that required signing in. */
export function SignInByProvider({ onKnown }: SignInByProviderProps) {
  const [providers, setProviders] = useState<Provider[]>([])
  useEffect(() => {
    void fetch(addressOf('/auth/oidc'))
      .then((answer) => answer.json())
      .then((body: { providers?: Provider[] }) => body.providers ?? [])
      .catch(() => [])
      .then((found) => {
        setProviders(found)
        onKnown(found.length > 0)
      })
  }, [onKnown])
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

/** The path of this page below the server's base path, with its query. */
const pathHere = () => location.pathname.slice(basePath.length) + location.search
