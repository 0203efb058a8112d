import { startS3Server } from './s3-server.ts'

/** The kinds of storage of files. */
export const STORAGES = ['directory', 'bucket'] as const

/** Returns the settings for a storage of this kind, which is closed after use. A directory belongs to the application alone. */
export async function openStorage(
  kind: (typeof STORAGES)[number],
): Promise<{ settings: Record<string, string>; close(): Promise<void> }> {
  if (kind === 'directory') return { settings: {}, close: async () => {} }
  const s3 = await startS3Server()
  return { settings: { PARLEY_FILES: 's3://bucket/some/prefix', ...s3.variables }, close: () => s3.close() }
}
