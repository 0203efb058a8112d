import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { freePort } from './free-port.ts'
import { skipFor } from './skip-for.ts'
import { until } from './until.ts'

/** nginx with a site from deploy/, on free ports of the loopback interface. */
export interface Nginx {
  /** `https://localhost:<port>` */
  origin: string
  /** `http://localhost:<port>`, the site that redirects to TLS. */
  plainOrigin: string
  /** The self-signed certificate. */
  certificate: string
  /** The errors and warnings that nginx has logged. */
  errors(): string
  dispose(): Promise<void>
}

function findNginx(): string | null {
  const folders = (process.env['PATH'] ?? '').split(path.delimiter).filter((folder) => folder !== '')
  return folders.map((folder) => path.join(folder, 'nginx')).find((program) => existsSync(program)) ?? null
}

/** Returns whether a test can start nginx. If not, prints a clear warning. @throws on a CI machine, which must have nginx */
export function canStartNginx(): boolean {
  if (findNginx() !== null) return true
  skipFor('No program nginx on the PATH')
  return false
}

/** Replaces text that must occur exactly once. */
function replaced(text: string, from: string, to: string): string {
  const parts = text.split(from)
  if (parts.length !== 2)
    throw new Error(`${JSON.stringify(from)} stands ${parts.length - 1} times in the configuration`)
  return parts.join(to)
}

/**
 * Starts nginx with the unchanged file, except for ports and certificates. `ports` are those of Parley's processes. @throws if
 * nginx is not installed: call `canStartNginx` first
 */
export async function startNginx(file: string, ports: readonly [number, number]): Promise<Nginx> {
  const program = findNginx()
  if (program === null) throw new Error('there is no nginx on this machine')
  const folder = await mkdtemp(path.join(tmpdir(), 'parley-nginx-'))
  const at = (name: string) => path.join(folder, name)
  const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1']
  const files = ['-keyout', at('key.pem'), '-out', at('certificate.pem')]
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', ...names, ...files], {
    stdio: 'ignore',
  })
  const [plainPort, port] = [await freePort(), await freePort()]
  const site = [
    ['listen 80;', `listen 127.0.0.1:${plainPort};`],
    ['listen 443 ssl http2;', `listen 127.0.0.1:${port} ssl http2;`],
    ['/etc/ssl/certs/example.com.pem', at('certificate.pem')],
    ['/etc/ssl/private/example.com.key', at('key.pem')],
    ['127.0.0.1:4000', `127.0.0.1:${ports[0]}`],
    ['127.0.0.1:4001', `127.0.0.1:${ports[1]}`],
  ].reduce((text, [from = '', to = '']) => replaced(text, from, to), readFileSync(file, 'utf8'))
  await writeFile(at('site.conf'), site)
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${at(name)};`)
  await writeFile(
    at('nginx.conf'),
    `${process.getuid?.() === 0 ? 'user root;' : ''} worker_processes 1; daemon off; pid ${at('pid')}; error_log ${at('error.log')} warn;
     events { worker_connections 4096; }
     http { access_log off; ${temporary.join(' ')} include ${at('site.conf')}; }`,
  )
  const nginx = spawn(program, ['-c', at('nginx.conf'), '-p', folder, '-e', at('error.log')], { stdio: 'ignore' })
  const killWithUs = () => nginx.kill('SIGTERM')
  process.on('exit', killWithUs)
  const errors = () => (existsSync(at('error.log')) ? readFileSync(at('error.log'), 'utf8') : '')
  await accepts(nginx, port).catch((error) => {
    throw new Error(`nginx does not start:\n${errors()}`, { cause: error })
  })
  return {
    origin: `https://localhost:${port}`,
    plainOrigin: `http://localhost:${plainPort}`,
    certificate: readFileSync(at('certificate.pem'), 'utf8'),
    errors,
    async dispose() {
      process.off('exit', killWithUs)
      if (nginx.exitCode === null) {
        const ended = once(nginx, 'exit')
        nginx.kill('SIGTERM')
        await ended
      }
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function accepts(nginx: ChildProcess, port: number): Promise<void> {
  await until('nginx accepts connections', async () => {
    if (nginx.exitCode !== null) return true
    const socket = connect(port, '127.0.0.1')
    try {
      await once(socket, 'connect')
      return true
    } finally {
      socket.destroy()
    }
  })
  if (nginx.exitCode !== null) throw new Error(`it ended with ${nginx.exitCode}`)
}
