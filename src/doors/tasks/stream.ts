/** The output of one stream. */
export interface Stream {
  /** Sends the first message, which opens the stream. */
  open(message: object): void
  send(message: object): void
  keepAlive(): void
  /** Whether the client must read before more is sent. */
  isBusy(): boolean
  onReady(listener: () => void): void
  end(): void
}
