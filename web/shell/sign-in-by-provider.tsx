import { useEffect, useState } from 'react'
import { addressOf } from '../location.ts'
import { pathHere } from './return-path.ts'

interface Provider {
  name: string
  label: string
}

/** Offers the identity providers of the server, and returns to the page that required signing in. */
export function SignInByProvider() {
  const [providers, setProviders] = useState<Provider[]>([])
  useEffect(() => {
    fetch(addressOf('/auth/oidc'))
      .then((answer) => answer.json())
      .then((body: { providers?: Provider[] }) => setProviders(body.providers ?? []))
      .catch(() => {})
  }, [])
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
