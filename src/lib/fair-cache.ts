/**
 * The values used last, up to a size in all. Room is made by whoever's values take most of it: what one owner adds, however much, pushes
 * out the oldest of that owner before anything of an owner who has less.
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

  /** The same without a use. */
  peek(key: string): V | undefined {
    return this.#entries.get(key)?.value
  }

  /** Keeps a value for its owner. One that is larger than the whole cache is not kept. */
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
  /** The one used longest ago first. */
  keys: Set<string>
}
