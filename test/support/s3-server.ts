import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { AwsV4Signer } from 'aws4fetch'

const ACCESS_KEY = 'test-key'
const SECRET_KEY = 'test-secret'

/** A small server with the protocol of S3. It stores objects in memory, and checks signatures. */
export interface S3Server {
  /** The AWS variables for this server. */
  variables: Record<string, string>
  objects: Map<string, Buffer>
  /** Makes every request fail with 503, until it is called with false. */
  setDown(isDown: boolean): void
  close(): Promise<void>
}

type Fail = (status: number, code: string) => void

function getObject(object: Buffer | undefined, range: string | undefined, fail: Fail, response: ServerResponse): void {
  if (object === undefined) {
    fail(404, 'NoSuchKey')
    return
  }
  const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(range ?? '') ?? []
  if (first === undefined) response.writeHead(200).end(object)
  else response.writeHead(206).end(object.subarray(Number(first), Number(last) + 1))
}

export async function startS3Server(): Promise<S3Server> {
  const objects = new Map<string, Buffer>()
  let down = false
  const server = createServer(async (request, response) => {
    const body = await buffer(request)
    const fail = (status: number, code: string) => response.writeHead(status).end(`<Error><Code>${code}</Code></Error>`)
    if (down) return fail(503, 'SlowDown')
    const { headers, method = '', url = '' } = request
    if ((await signatureOf(request)) !== headers.authorization) return fail(403, 'SignatureDoesNotMatch')
    const key = decodeURIComponent(url)
    if (method === 'PUT') return putObject(request, body, fail, response)
    if (method === 'GET') return getObject(objects.get(key), headers.range, fail, response)
    objects.delete(key)
    response.writeHead(204).end()
  })

  function putObject({ headers, url = '' }: IncomingMessage, body: Buffer, fail: Fail, response: ServerResponse): void {
    const key = decodeURIComponent(url)
    const hash = createHash('sha256').update(body).digest('hex')
    if (headers['transfer-encoding'] !== undefined) return void fail(411, 'MissingContentLength')
    if (hash !== headers['x-amz-content-sha256']) return void fail(400, 'XAmzContentSHA256Mismatch')
    if (headers['if-none-match'] === '*' && objects.has(key)) return void fail(412, 'PreconditionFailed')
    objects.set(key, body)
    response.writeHead(200).end()
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  async function signatureOf({ headers, method = '', url = '' }: IncomingMessage) {
    const authorization = headers.authorization ?? ''
    const names = /SignedHeaders=([^,]*)/.exec(authorization)?.[1]?.split(';') ?? []
    const signed = names
      .filter((name) => !['host', 'x-amz-date', 'x-amz-security-token'].includes(name))
      .map((name): [string, string] => [name, String(headers[name])])
    const signer = new AwsV4Signer({
      method,
      url: origin + url,
      headers: signed,
      service: 's3',
      region: 'us-east-1',
      accessKeyId: ACCESS_KEY,
      secretAccessKey: SECRET_KEY,
      datetime: String(headers['x-amz-date']),
    })
    return (await signer.sign()).headers.get('authorization')
  }

  return {
    variables: { AWS_ENDPOINT_URL: origin, AWS_ACCESS_KEY_ID: ACCESS_KEY, AWS_SECRET_ACCESS_KEY: SECRET_KEY },
    objects,
    setDown(isDown) {
      down = isDown
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
