import type { LiveMessagesFragment } from './generated/graphql.ts'
import { requestPage } from './paging.ts'
import type { Transcript } from './transcript.ts'

export const PAGE_SIZE = 50

/** The pages before the first loaded message. */
export interface EarlierPages {
  /** Loads the page before the first message. @throws ParleyError */
  loadEarlier(): Promise<void>
  /** Loads pages until the message with this `seq` is loaded. @throws ParleyError */
  loadUntil(seq: number): Promise<void>
  /**
   * Drops all messages except the newest `count`. `hasEarlier` is then true, and `loadEarlier` loads the dropped messages
   * again. Messages are dropped only by this call, which is meant for clients that stay open for hours. The call does nothing
   * while earlier messages are loading.
   */
  keepNewest(count: number): void
}

interface Parts {
  /** Returns the current transcript. */
  transcript(): Transcript
  /** Requests the `last` messages before a message. Returns null if they no longer exist. @throws ParleyError */
  request(before: string, last: number): Promise<LiveMessagesFragment | null>
  /** Called when loading begins and ends. */
  onLoading(isLoading: boolean): void
  /** Called with a page after it was added to the transcript. */
  onPage?(page: LiveMessagesFragment): void
  onDropped(): void
}

/** Loads the pages before the first message of a transcript, one at a time. */
export function createEarlierPages({ transcript, request, onLoading, onPage, onDropped }: Parts): EarlierPages {
  let loading: Promise<void> | null = null
  /** The number of calls to `loadUntil` in progress. Between two pages of such a call, `loading` is null. */
  let goingBack = 0

  async function load(): Promise<void> {
    const [first] = transcript().messages()
    if (first === undefined || !transcript().hasEarlier) return
    const take = transcript().beginPage()
    onLoading(true)
    let page: LiveMessagesFragment | null = null
    try {
      page = await requestPage(PAGE_SIZE, (last) => request(first.id, last))
    } finally {
      take(page)
      if (page !== null) onPage?.(page)
      onLoading(false)
    }
  }

  function loadEarlier(): Promise<void> {
    loading ??= load().finally(() => {
      loading = null
    })
    return loading
  }

  return {
    loadEarlier,
    async loadUntil(seq) {
      goingBack += 1
      try {
        for (
          let first = transcript().messages()[0];
          first !== undefined && first.seq > seq && transcript().hasEarlier;
        ) {
          await loadEarlier()
          const [next] = transcript().messages()
          if (next === undefined || next.seq >= first.seq) return
          first = next
        }
      } finally {
        goingBack -= 1
      }
    },
    keepNewest(count) {
      if (loading !== null || goingBack > 0 || transcript().messages().length <= count) return
      transcript().keepNewest(count)
      onDropped()
    },
  }
}
