import { messageOf } from '../lib/errors.ts'
import {
  isPackageInstalled,
  keyContext,
  MODEL_APIS,
  type ModelApi,
  type ModelProviderSettings,
  providerSettings,
} from '../lib/model-provider.ts'
import type { Platform } from '../platform/platform.ts'

/** A provider in the form in which stores/provider-store.ts writes it. */
export interface AddedProvider {
  name: string
  api: string
  baseUrl: string | null
  /** The encrypted API key. */
  keySealed: string | null
}

/** Reads the providers that admins added, oldest first. */
export function readAddedProviders({ db }: Pick<Platform, 'db'>): Promise<AddedProvider[]> {
  return db.prisma.$queryRaw<AddedProvider[]>`
    SELECT name, api, "baseUrl", "keySealed" FROM "ModelProvider" ORDER BY "createdAt", name`
}

/** Returns the settings of a stored provider. If the provider cannot be used, `lacks` contains the reason. */
export function settingsOfAdded(
  row: AddedProvider,
  { secretBox, logger }: Pick<Platform, 'secretBox' | 'logger'>,
): ModelProviderSettings {
  const { name, api, baseUrl, keySealed } = row
  const key = keySealed === null ? null : openedKey(keySealed, row, { secretBox, logger })
  const isKnown = MODEL_APIS.includes(api as ModelApi)
  const known = isKnown ? (api as ModelApi) : 'openai-chat'
  const settings = providerSettings({ name, api: known, baseUrl, apiKey: key, headers: {} }, ['an API key'])
  if (!isKnown) return { ...settings, lacks: `has the API ${api}, which this version does not support` }
  if (keySealed !== null && key === null)
    return { ...settings, lacks: 'has a key that PARLEY_SECRET_KEY does not decrypt: enter the key again' }
  if (!isPackageInstalled(settings.package))
    return { ...settings, lacks: `needs the package ${settings.package}, which is not installed` }
  return settings
}

function openedKey(
  sealed: string,
  row: AddedProvider,
  { secretBox, logger }: Pick<Platform, 'secretBox' | 'logger'>,
): string | null {
  try {
    return secretBox.open(sealed, keyContext(row))
  } catch (error) {
    logger.warn({ provider: row.name, error: messageOf(error) }, 'could not decrypt the key of a model provider')
    return null
  }
}
