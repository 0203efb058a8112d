// Checks each mutation of an admin who acts as another human. This plugin is the innermost one of the builder, so
// its error becomes the mutation's result if the result union contains ForbiddenError.
import SchemaBuilder, { BasePlugin, type PothosOutputFieldConfig, type SchemaTypes } from '@pothos/core'
import type { GraphQLFieldResolver } from 'graphql'
import { checkMutationWhileActing } from '../rules/acting.ts'
import type { Context } from './context.ts'

export const ACTING_PLUGIN = 'acting'

class ActingPlugin<Types extends SchemaTypes> extends BasePlugin<Types> {
  override wrapResolve(
    resolver: GraphQLFieldResolver<unknown, Types['Context'], object>,
    { kind, name }: PothosOutputFieldConfig<Types>,
  ): GraphQLFieldResolver<unknown, Types['Context'], object> {
    if (kind !== 'Mutation') return resolver
    return (parent, args, context, info) => {
      checkMutationWhileActing((context as Context).viewer, name)
      return resolver(parent, args, context, info)
    }
  }
}

SchemaBuilder.registerPlugin(ACTING_PLUGIN, ActingPlugin)

declare global {
  // biome-ignore lint/style/noNamespace: Pothos declares its plugins in this namespace.
  export namespace PothosSchemaTypes {
    export interface Plugins<Types extends SchemaTypes> {
      acting: ActingPlugin<Types>
    }
  }
}
