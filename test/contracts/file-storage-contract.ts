import { createHash, randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { utimes, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { buffer } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import type { ByteRange, FileStorage } from '../../src/platform/file-storage/file-storage.ts'

/** The tests that every file storage must pass. `open` opens the same storage again. */
export function describeFileStorage(name: string, open: () => Promise<FileStorage>): void {
  describe(`file storage: ${name}`, () => {
    async function contentOf(storage: FileStorage, key: string, range?: ByteRange): Promise<string | null> {
      const stream = await storage.read(key, range)
      return stream === null ? null : (await buffer(stream)).toString()
    }
    async function fileWith(storage: FileStorage, content: string) {
      const at = path.join(await storage.scratch(), randomUUID())
      await writeFile(at, content)
      const sha256 = createHash('sha256').update(content).digest('hex')
      return { path: at, size: Buffer.byteLength(content), sha256 }
    }

    test('stores files and bytes, whole or in ranges, for every process', async () => {
      const [storage, other] = [await open(), await open()]
      await storage.put('objects/aa/1', await fileWith(storage, 'from a file'))
      await storage.put('objects/aa/2', Buffer.from('0123456789'))
      expect(await contentOf(other, 'objects/aa/1')).toBe('from a file')
      expect(await contentOf(other, 'objects/aa/2', { first: 2, last: 4 })).toBe('234')
      expect(await contentOf(other, 'objects/aa/3')).toBeNull()
      await Promise.all([storage.close(), other.close()])
    })

    test('allows readers to destroy a stream', async () => {
      const storage = await open()
      await storage.put('objects/dd/1', Buffer.alloc(1_000_000))
      const stream = await storage.read('objects/dd/1')
      await new Promise((closed) => stream!.destroy().once('close', closed))
      await storage.close()
    })

    test('replaces an object, also by the same content', async () => {
      const storage = await open()
      await storage.put('objects/bb/1', Buffer.from('one'))
      await storage.put('objects/bb/1', await fileWith(storage, 'two'))
      await storage.put('objects/bb/1', await fileWith(storage, 'two'))
      expect(await contentOf(storage, 'objects/bb/1')).toBe('two')
      await storage.close()
    })

    test('deletes an object, and succeeds if it does not exist', async () => {
      const storage = await open()
      await storage.put('objects/cc/1', Buffer.from('gone soon'))
      await storage.delete('objects/cc/1')
      await storage.delete('objects/cc/1')
      expect(await contentOf(storage, 'objects/cc/1')).toBeNull()
      await storage.close()
    })

    test('deletes scratch files that processes have left, and no others', async () => {
      const [storage, died] = [await open(), await open()]
      const [left, used] = [await fileWith(died, 'left'), await fileWith(storage, 'used')]
      const old = new Date(Date.now() - 7_200_000)
      await utimes(left.path, old, old)
      await storage.sweepScratch(new Date(Date.now() - 3_600_000))
      expect([existsSync(left.path), existsSync(used.path)]).toEqual([false, true])
      await Promise.all([storage.close(), died.close()])
    })

    test('has one id for all processes', async () => {
      const storages = await Promise.all(Array.from({ length: 5 }, open))
      const ids = await Promise.all(storages.map((storage) => storage.identity()))
      expect(new Set(ids).size).toBe(1)
      expect(ids[0]).toMatch(/^[0-9a-f-]{36}$/)
      await Promise.all(storages.map((storage) => storage.close()))
    })
  })
}
