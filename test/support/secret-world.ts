import { newId } from '../../src/lib/ids.ts'
import type { TestServer } from './served.ts'

/** This word is part of every text in the world. */
export const SECRET = 'CANARY'

/** Creates objects of which strangers know only the ids. Returns an instance of each type, by the prefix of its id. */
export async function secretWorld(parley: TestServer): Promise<Record<string, string>> {
  const { domain, platform } = parley.app
  const { prisma } = platform.db
  const alice = await parley.human(`${SECRET} Alice`)
  const agent = await parley.agent('Echo', {
    instructions: SECRET,
    mind: 'PERSISTENT',
    tools: [{ name: 'pay', description: SECRET, inputSchema: { type: 'object' }, execution: 'EXTERNAL' }],
  })
  const talker = await parley.agent('Talker')
  const space = await parley.space(alice, [agent.id, talker.id], { name: SECRET })
  const { message, runs } = await parley.send(alice, space.id, SECRET)
  await domain.memories.setAs(parley.admin, { agentId: agent.id, memories: [{ key: SECRET, value: SECRET }] })
  await domain.goals.setAs(parley.admin, { agentId: agent.id, goals: [{ description: SECRET }] })
  const goal = await prisma.goal.findFirstOrThrow({ where: { agentId: agent.id } })
  const plan = await domain.plans.create(parley.admin, {
    agentId: agent.id,
    name: SECRET,
    instruction: SECRET,
    schedule: { cron: '0 0 1 1 *' },
  })
  const firing = await prisma.planFiring.create({
    data: { id: newId('plf'), planId: plan.id, slot: new Date(), rootId: newId('trg'), result: 'RUN' },
  })
  const { webhook } = await domain.webhooks.create(parley.admin, { agentId: agent.id, serviceName: SECRET })
  const { accessToken } = await domain.tokens.create(parley.admin, {
    grant: { service: { name: SECRET, agentIds: [] } },
  })
  const call = await prisma.toolCall.create({
    data: {
      id: newId('tcl'),
      runId: runs[0]?.id ?? '',
      agentId: talker.id,
      stepIndex: 0,
      modelCallId: 'c',
      toolName: 'pay',
      execution: 'EXTERNAL',
      status: 'WAITING',
      input: { a: SECRET },
      messageId: message.id,
      spaceId: space.id,
    },
  })
  const grant = await prisma.standingGrant.create({
    data: {
      id: newId('grt'),
      agentId: talker.id,
      toolName: 'pay',
      toolDigest: 'x',
      spaceId: space.id,
      quorum: 1,
      inputSchema: { title: SECRET },
      proposedById: alice.id,
      expiresAt: new Date(Date.now() + 3_600_000),
      decisions: { create: { humanId: alice.id, approve: true, reason: SECRET, at: new Date() } },
    },
  })
  const event = await prisma.inboxEvent.findFirstOrThrow({ where: { agentId: agent.id } })
  const cycle = await prisma.cycle.create({
    data: {
      id: newId('cyc'),
      agentId: agent.id,
      index: 0,
      runId: runs[0]?.id ?? '',
      tokenEstimate: 1,
      messages: [{ role: 'user', content: SECRET }],
      summary: SECRET,
    },
  })
  const entry = await prisma.auditEntry.create({
    data: {
      id: newId('aud'),
      actorId: alice.id,
      action: 'updateSpace',
      targetId: space.id,
      detail: { name: SECRET },
    },
  })
  await prisma.$executeRaw`
    INSERT INTO pgboss.job (name, data, source_name, source_id, source_created_on, source_retry_count, source_output)
    VALUES ('failed-jobs', '{}', 'send-notice', gen_random_uuid(), now(), 35, jsonb_build_object('message', ${SECRET}::text))`
  await domain.sessions.open(alice, { userAgent: undefined, replaced: [] })
  const [session] = await domain.sessions.list(alice)
  const invitation = await prisma.mailInvitation.create({
    data: {
      id: newId('inv'),
      email: `${SECRET}@example.com`,
      spaceIds: [space.id],
      inviterId: alice.id,
      createdAt: new Date(),
      expiresAt: new Date(Date.now() + 3_600_000),
    },
  })
  const joinLink = await domain.joinLinks.create(alice, { spaceId: space.id })
  await domain.agents.update(parley.admin, { id: agent.id, instructions: SECRET, versionNote: SECRET })
  const version = await prisma.agentVersion.findFirstOrThrow({
    where: { agentId: agent.id },
    orderBy: { number: 'desc' },
  })
  const file = await prisma.file.create({
    data: {
      id: newId('fil'),
      ownerId: alice.id,
      name: SECRET,
      mediaType: 'text/plain',
      size: 1,
      hash: 'a'.repeat(64),
      messageId: message.id,
      spaceId: space.id,
    },
  })
  const { items } = await domain.failedJobs.page({ after: null, before: null, size: 1, fromEnd: false })
  return {
    spc: space.id,
    msg: message.id,
    agt: agent.id,
    hum: alice.id,
    run: runs[0]?.id,
    tcl: call.id,
    pln: plan.id,
    plf: firing.id,
    gol: goal.id,
    inb: event.id,
    acc: accessToken.id,
    whk: webhook.id,
    aud: entry.id,
    cyc: cycle.id,
    grt: grant.id,
    job: items[0]?.id,
    ses: session?.id,
    jln: joinLink.id,
    inv: invitation.id,
    agv: version.id,
    fil: file.id,
  } as Record<string, string>
}
