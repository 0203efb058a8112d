/** The nodes that a REDIS_URL names, each as a URL of its own: `redis://user:secret@a:7000,b:7001` has two. Not checked. */
export function redisNodesOf(url: string): string[] {
  const [, scheme = '', user = '', hosts = '', rest = ''] = /^([a-z]+:\/\/)([^/?#]*@)?([^/?#]*)(.*)$/is.exec(url) ?? []
  return hosts.split(',').map((host) => `${scheme}${user}${host.trim()}${rest}`)
}
