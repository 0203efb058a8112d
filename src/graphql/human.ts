import { BadInputError, ConflictError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { isAdmin } from '../rules/permissions.ts'
import { type Presence, shownPresence } from '../rules/presence.ts'
import { loadExisting } from './batch.ts'
import { BudgetInput } from './budget.ts'
import { builder } from './builder.ts'
import { connectionOf, idCursor, idPageRequest, sizeOfPage } from './connections.ts'
import { type Context, renewed } from './context.ts'
import { HumanRoleType, PresenceType } from './enums.ts'
import { Entity, Human, Node } from './refs.ts'
import type * as shapes from './shapes.ts'

/** Returns the presence of a human as the viewer may see it. People who are not connected need no lookup. */
async function presenceFor(id: string, { domain, viewer, loaders, shownIn }: Context): Promise<Presence> {
  const presence = domain.presence.of(id)
  if (presence === 'OFFLINE') return presence
  // Where possible, events do not depend on the viewer, so that they are executed once for all viewers.
  if (shownIn === null && viewer.id === id) return presence
  const isHidden = !(await loadExisting(loaders.entities, id)).sharePresence
  const members = shownIn === null || isHidden ? [] : await loaders.members.load(shownIn)
  const isMember = members.some((member) => member.id === id)
  if (isHidden || isMember) return shownPresence(presence, { isHidden, isAdmin: false, sharesSpace: isMember })
  const sharesSpace =
    viewer.scope === 'HUMAN' && (await loaders.ofHumans.sharesSpace.load({ viewerId: viewer.id, humanId: id }))
  return shownPresence(presence, { isHidden, isAdmin: isAdmin(viewer), sharesSpace })
}

Human.implement({
  description: 'A person.',
  interfaces: [Node, Entity],
  fields: (t) => ({
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
    externalId: t.string({
      nullable: true,
      description: 'Null unless the viewer is an admin or this human.',
      resolve: async ({ id }, _, { viewer, loaders }) =>
        isAdmin(viewer) || viewer.id === id ? (await loadExisting(loaders.entities, id)).externalId : null,
    }),
    picture: t.string({
      nullable: true,
      description: 'An `https:` URL, or a `data:` URL of a small image.',
      resolve: async ({ id }, _, { loaders }) => (await loadExisting(loaders.entities, id)).picture,
    }),
    role: t.field({
      type: HumanRoleType,
      description:
        'The role applies when this human signs in with a session or a JWT, never to an access token. Viewers who see this human only through the directory always see MEMBER.',
      resolve: async (human, _, { loaders }) =>
        (await loaders.visible.isAcquainted.load(human))
          ? (await loadExisting(loaders.entities, human.id)).role
          : ('MEMBER' as const),
    }),
    presence: t.field({
      type: PresenceType,
      description:
        'OFFLINE for viewers who share no space with this human, and for everybody if this human does not share their presence. MemberPresenceChanged reports changes.',
      resolve: ({ id }, _, context) => presenceFor(id, context),
    }),
    timeZone: t.string({
      nullable: true,
      description:
        'IANA name, such as `Europe/Berlin`. Null if it is not set, or if the viewer sees this human only through the directory.',
      resolve: async (human, _, { loaders }) =>
        (await loaders.visible.isAcquainted.load(human))
          ? (await loadExisting(loaders.entities, human.id)).timeZone
          : null,
    }),
    sharePresence: t.boolean({
      nullable: true,
      description: "Whether others can see this human's presence and typing. Null unless the viewer is this human.",
      resolve: async ({ id }, _, { viewer, loaders }) =>
        viewer.id === id ? (await loadExisting(loaders.entities, id)).sharePresence : null,
    }),
    email: t.string({
      nullable: true,
      description: 'Null unless the viewer is an admin or this human.',
      resolve: async ({ id }, _, { viewer, loaders }) =>
        isAdmin(viewer) || viewer.id === id ? (await loadExisting(loaders.entities, id)).email : null,
    }),
    erasedAt: t.field({
      type: 'DateTime',
      nullable: true,
      resolve: async ({ id }, _, { loaders }) => (await loadExisting(loaders.entities, id)).goneAt,
    }),
  }),
})

const CreateHumanInput = builder.inputType('CreateHumanInput', {
  fields: (t) => ({
    name: t.string({ required: true }),
    externalId: t.string({ description: "The `sub` claim of this human's JWTs. Unique." }),
    role: t.field({ type: HumanRoleType, description: 'MEMBER if absent.' }),
    email: t.string({ description: 'For sign-in by email, and for notifications. Unique regardless of case.' }),
  }),
})

const CreateHumanPayload = builder.objectRef<{ human: shapes.Participant }>('CreateHumanPayload').implement({
  fields: (t) => ({ human: t.expose('human', { type: Human }) }),
})

builder.mutationField('createHuman', (t) =>
  t.field({
    type: CreateHumanPayload,
    errors: { types: [BadInputError, ForbiddenError, ConflictError] },
    args: { input: t.arg({ type: CreateHumanInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return { human: await domain.humans.create(viewer, input) }
    },
  }),
)

const UpdateHumanInput = builder.inputType('UpdateHumanInput', {
  fields: (t) => ({
    id: t.id({ required: true }),
    name: t.string(),
    externalId: t.string(),
    email: t.string({
      description:
        'If an admin changes the address, the change takes effect at once. Otherwise, it takes effect once the human opens the link that is sent to the new address. Only admins may set null.',
    }),
    role: t.field({
      type: HumanRoleType,
      description:
        'Admins only. A change of the role ends the sessions of this human. Only the operator can remove the role ADMIN from the last person who has it.',
    }),
    timeZone: t.string({ description: 'IANA name, such as `Europe/Berlin`. Null removes the time zone.' }),
    sharePresence: t.boolean({ description: "Whether others can see this human's presence and typing. Default true." }),
    budget: t.field({ type: BudgetInput, description: 'Admins only.' }),
    pictureFileId: t.id({
      description: 'An image that the viewer has uploaded. The server keeps a small copy. Null removes the picture.',
    }),
  }),
})

const UpdateHumanPayload = builder.objectRef<{ human: shapes.Participant }>('UpdateHumanPayload').implement({
  fields: (t) => ({ human: t.expose('human', { type: Human }) }),
})

const EraseHumanInput = builder.inputType('EraseHumanInput', {
  fields: (t) => ({
    id: t.id({ required: true }),
    messages: t.boolean({
      required: true,
      defaultValue: false,
      description: 'If true, also removes the content of every message that the human wrote.',
    }),
  }),
})

const EraseHumanPayload = builder.objectRef<{ erasedHumanId: string }>('EraseHumanPayload').implement({
  fields: (t) => ({ erasedHumanId: t.exposeID('erasedHumanId') }),
})

builder.mutationFields((t) => ({
  updateHuman: t.field({
    type: UpdateHumanPayload,
    description:
      'Admins may change any human. Other humans may change their own `name`, `pictureFileId`, `timeZone`, `sharePresence` and `email`.',
    errors: { types: [BadInputError, ConflictError, ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: UpdateHumanInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return { human: await domain.humans.update(viewer, input) }
    },
  }),
  eraseHuman: t.field({
    type: EraseHumanPayload,
    description: `Admins only. Revokes the human's tokens and memberships. The human's id, kind and \`erasedAt\` remain, and the name becomes "Erased". The human's messages also remain, unless \`messages\` is true. In that case they lose their parts, and subscribers get a snapshot.`,
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: EraseHumanInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.deletion.eraseHuman(viewer, input)
    },
  }),
}))

builder.queryField('humans', (t) =>
  t.connection(
    {
      type: Human,
      description:
        'Admins see all humans; humans see all, or those with whom they share a space (PARLEY_DIRECTORY); services see none.',
      complexity: sizeOfPage(),
      args: { search: t.arg.string() },
      resolve: async (_, { search, ...page }, { domain, viewer }) =>
        connectionOf(await domain.humans.page(viewer, idPageRequest('hum', page), search ?? null), idCursor),
    },
    { name: 'HumanConnection' },
    { name: 'HumanEdge' },
  ),
)
