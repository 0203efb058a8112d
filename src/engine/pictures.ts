import type { ModelMessage, UserModelMessage } from 'ai'
import { LRUCache } from 'lru-cache'
import type { FileReading } from '../files/file-reading.ts'
import { PICTURE_TYPE, referredFile } from '../runs/file-references.ts'

/** Shows images that people have sent to models that accept images. */
export interface Pictures {
  /**
   * Replaces references to image files with their bytes. Omits files that are deleted or unavailable. Omits all files
   * if `isBlind` is set or the model has recently refused images.
   */
  showIn(
    model: string,
    messages: ModelMessage[],
    options: { isBlind: boolean },
  ): Promise<{ messages: ModelMessage[]; hasPictures: boolean }>
  /** Records that the model has refused images. It gets none for an hour. */
  refusedBy(model: string): void
}

type UserPart = Exclude<UserModelMessage['content'], string>[number]

const REFUSED_FOR_MS = 3_600_000
const MOST_MODELS = 1000

export function createPictures(files: Pick<FileReading, 'pictureOf'>): Pictures {
  const refusing = new LRUCache<string, true>({ max: MOST_MODELS, ttl: REFUSED_FOR_MS })

  /** Returns the part as the model receives it; null if it is omitted. */
  async function shownPart(part: UserPart, isBlind: boolean): Promise<UserPart | null> {
    const fileId = referredFile(part)
    if (fileId === null) return part
    const data = isBlind ? null : await files.pictureOf(fileId).catch(() => null)
    return data === null ? null : { type: 'file', mediaType: PICTURE_TYPE, data }
  }

  return {
    async showIn(model, messages, options) {
      const isBlind = options.isBlind || model === 'demo' || refusing.has(model)
      let hasPictures = false
      const shown: ModelMessage[] = []
      for (const message of messages) {
        if (message.role !== 'user' || typeof message.content === 'string') {
          shown.push(message)
          continue
        }
        const parts: (UserPart | null)[] = []
        for (const part of message.content) parts.push(await shownPart(part, isBlind))
        const content = parts.filter((part) => part !== null)
        hasPictures ||= content.some(({ type }) => type === 'file')
        shown.push({ role: 'user', content })
      }
      return { messages: shown, hasPictures }
    },
    refusedBy: (model) => void refusing.set(model, true),
  }
}
