# One image for every role: PARLEY_ROLE decides whether a container serves the API, executes runs, or does both.

FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
COPY client client
RUN npm ci --ignore-scripts
# Development dependencies build the console; the second installation is without them.
COPY tsconfig.json ./
COPY web web
RUN npx vite build web && npm ci --omit=dev --ignore-scripts

FROM node:24-slim
ENV NODE_ENV=production HOST=0.0.0.0 PORT=4000 DATA_DIR=/data
WORKDIR /app
COPY --from=build /app/node_modules node_modules
COPY package.json ./
COPY prisma/migrations prisma/migrations
COPY scripts/migrate.ts scripts/command-options.ts scripts/export.ts scripts/import.ts scripts/record.ts scripts/rotate-secrets.ts scripts/output-file.ts scripts/release.ts scripts/
COPY src src
COPY --from=build /app/web/dist web/dist
# A volume that is mounted at one of these gets its owner.
RUN install -d -o node -g node /data /files
VOLUME /data
USER node
EXPOSE 4000
# Checks liveness, not readiness: readiness is for load balancers, and restarting the process does not help if Redis is unreachable.
HEALTHCHECK --interval=30s --timeout=3s --start-period=20s --start-interval=2s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/health/live`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "src/main.ts"]
