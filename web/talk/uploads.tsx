import { type DragEvent, type RefObject, useEffect, useMemo, useRef, useState } from 'react'
import { addressOf } from '../location.ts'
import { credentialHeaders } from '../session.tsx'
import { IconButton } from '../ui/button.tsx'
import { Icon } from '../ui/icons.tsx'
import { sizeInWords } from './file-view.tsx'

/** A file that is being uploaded. */
interface Upload {
  key: number
  file: File
  /** The progress, from 0 to 1. */
  progress: number
  /** The id of the file; set once the file is stored. */
  id: string | null
  error: string | null
  abort(): void
}

export interface Uploads {
  all: readonly Upload[]
  isBusy: boolean
  /** The ids of the stored files, in the order in which they were added. */
  ids: string[]
  add(files: Iterable<File>): void
  retry(key: number): void
  remove(key: number): void
  /** Removes the files that were sent. */
  forget(ids: readonly string[]): void
}

const MOST_FILES = 20

/** Uploads files as soon as they are added. */
export function useUploads(): Uploads {
  const [all, setAll] = useState<readonly Upload[]>([])
  const lastKey = useRef(0)
  const change = (key: number, changes: Partial<Upload>) =>
    setAll((now) => now.map((one) => (one.key === key ? { ...one, ...changes } : one)))

  function start(key: number, file: File): Upload {
    const request = new XMLHttpRequest()
    request.open('POST', addressOf('/files'))
    for (const [name, value] of Object.entries(credentialHeaders())) request.setRequestHeader(name, value)
    request.setRequestHeader('x-file-name', encodeURIComponent(file.name))
    request.upload.onprogress = ({ loaded, total }) => change(key, { progress: total === 0 ? 0 : loaded / total })
    request.onload = () => change(key, outcomeOf(request))
    request.onerror = () => change(key, { error: 'The server does not respond.' })
    request.send(file)
    return { key, file, progress: 0, id: null, error: null, abort: () => request.abort() }
  }

  return {
    all,
    isBusy: all.some(({ id, error }) => id === null && error === null),
    ids: all.flatMap(({ id }) => id ?? []),
    add(files) {
      const added = [...files].slice(0, MOST_FILES - all.length).map((file) => {
        lastKey.current += 1
        return start(lastKey.current, file)
      })
      setAll((now) => [...now, ...added])
    },
    retry(key) {
      const failed = all.find((one) => one.key === key)
      if (failed === undefined) return
      const again = start(key, failed.file)
      setAll((now) => now.map((one) => (one.key === key ? again : one)))
    },
    remove(key) {
      all.find((one) => one.key === key)?.abort()
      setAll((now) => now.filter((one) => one.key !== key))
    },
    forget: (ids) => setAll((now) => now.filter(({ id }) => id === null || !ids.includes(id))),
  }
}

function outcomeOf({ status, responseText }: XMLHttpRequest): Partial<Upload> {
  try {
    const answer = JSON.parse(responseText) as { id?: string; error?: string }
    if (status === 201 && answer.id !== undefined) return { id: answer.id, progress: 1 }
    return { error: answer.error ?? `HTTP status ${status}` }
  } catch {
    return { error: `HTTP status ${status}` }
  }
}

/** Attaches files that are dropped anywhere on an element. By default, the browser would leave the page and open them. */
export function useFileDrop(composer: RefObject<{ attach(files: Iterable<File>): void } | null>) {
  return useMemo(() => {
    const hasFiles = ({ dataTransfer }: DragEvent) => dataTransfer.types.includes('Files')
    return {
      onDragOver(event: DragEvent) {
        if (hasFiles(event)) event.preventDefault()
      },
      onDrop(event: DragEvent) {
        if (!hasFiles(event)) return
        event.preventDefault()
        composer.current?.attach(event.dataTransfer.files)
      },
    }
  }, [composer])
}

/** The files of the next message, with their progress. */
export function UploadList({ uploads: { all, retry, remove } }: { uploads: Uploads }) {
  if (all.length === 0) return null
  return (
    <ul className="uploads" aria-label="Files of this message">
      {all.map(({ key, file, progress, id, error }) => (
        <li key={key} className="file-frame">
          <SmallPicture file={file} />
          <span className="one-line" dir="auto">
            {file.name}
          </span>
          <span className="note">{sizeInWords(file.size)}</span>
          {id === null && error === null && <progress aria-label={`Upload of ${file.name}`} value={progress} />}
          {error !== null && <span role="alert">{error}</span>}
          {error !== null && <IconButton label={`Upload ${file.name} again`} icon="retry" onClick={() => retry(key)} />}
          <IconButton label={`Remove ${file.name}`} icon="cross" onClick={() => remove(key)} />
        </li>
      ))}
    </ul>
  )
}

const PICTURE_PX = 32

/** Shows a small version of an image, or an icon. Drawn on a canvas, because the page may not load images from `blob:` URLs. */
function SmallPicture({ file }: { file: File }) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const [isDrawn, setDrawn] = useState(false)
  useEffect(() => {
    if (!file.type.startsWith('image/')) return
    let isGone = false
    const draw = (picture: ImageBitmap) => {
      const side = Math.min(picture.width, picture.height)
      const [left, top] = [(picture.width - side) / 2, (picture.height - side) / 2]
      const size = PICTURE_PX * 2
      if (!isGone) canvas.current?.getContext('2d')?.drawImage(picture, left, top, side, side, 0, 0, size, size)
      picture.close()
      setDrawn(!isGone)
    }
    // A format that the browser cannot decode keeps the icon.
    createImageBitmap(file).then(draw, () => {})
    return () => {
      isGone = true
    }
  }, [file])
  return (
    <>
      <canvas ref={canvas} width={PICTURE_PX * 2} height={PICTURE_PX * 2} hidden={!isDrawn} />
      {!isDrawn && <Icon name="file" />}
    </>
  )
}
