/**
 * Returns the nodes of a REDIS_URL as separate URLs: `redis://user:secret@a:7000,b:7001` has two. Does not validate.
 */
export function redisNodesOf(url: string): string[] {
  const [, scheme = '', user = '', hosts = '', rest = ''] = /^([a-z]+:\/\/)([^/?#]*@)?([^/?#]*)(.*)$/is.exec(url) ?? []
  return hosts.split(',').map((host) => `${scheme}${user}${host.trim()}${rest}`)
}
