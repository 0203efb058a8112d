const LOOPBACK = ['127.0.0.1', '::1', 'localhost']

/** Whether a server that listens on this host can be reached only from its own machine. */
export const isLoopback = (host: string): boolean => LOOPBACK.includes(host)
