/**
 * An LRU cache with a limited total size that is fair to owners. The owner with the largest share loses its oldest
 * value first, so an owner cannot evict the values of owners with a smaller share.
 */
export class FairCache<V> {
  readonly #maxSize: number
  readonly #entries = new Map<string, Entry<V>>()
  readonly #owners = new Map<string, Owner>()
  #size = 0

  constructor(maxSize: number) {
    this.#maxSize = maxSize
  }

  get size(): number {
    return this.#size
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    entry.owner.keys.delete(key)
    entry.owner.keys.add(key)
    return entry.value
  }

  /** Reads a value without marking it as recently used. */
  peek(key: string): V | undefined {
    return this.#entries.get(key)?.value
  }

  /** Stores a value for its owner. A value larger than the whole cache is ignored. */
  set(key: string, value: V, { size, owner: name }: { size: number; owner: string }): void {
    this.#drop(key)
    if (size > this.#maxSize) return
    const owner = this.#owners.get(name) ?? { name, size: 0, keys: new Set<string>() }
    this.#owners.set(name, owner)
    this.#entries.set(key, { value, size, owner })
    owner.keys.add(key)
    owner.size += size
    this.#size += size
    while (this.#size > this.#maxSize) this.#dropOldestOfLargest()
  }

  #dropOldestOfLargest(): void {
    let largest: Owner | null = null
    for (const owner of this.#owners.values()) if (largest === null || owner.size > largest.size) largest = owner
    const [oldest = ''] = largest?.keys ?? []
    this.#drop(oldest)
  }

  #drop(key: string): void {
    const entry = this.#entries.get(key)
    if (entry === undefined) return
    const { owner, size } = entry
    this.#entries.delete(key)
    owner.keys.delete(key)
    owner.size -= size
    this.#size -= size
    if (owner.keys.size === 0) this.#owners.delete(owner.name)
  }
}

interface Entry<V> {
  value: V
  size: number
  owner: Owner
}

interface Owner {
  name: string
  size: number
  /** The owner's keys in order of last use, oldest first. */
  keys: Set<string>
}
