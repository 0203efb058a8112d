# Parley as one image for every role: PARLEY_ROLE says whether a container serves, works, or does both.

FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json prisma.config.ts ./
COPY prisma prisma
# Its postinstall generates Prisma's client, for which it needs the development dependencies: they go again after it.
RUN npm ci && npm prune --omit=dev --ignore-scripts

FROM node:24-slim
ENV NODE_ENV=production HOST=0.0.0.0 PORT=4000 DATA_DIR=/data
WORKDIR /app
COPY --from=build /app/node_modules node_modules
COPY package.json ./
COPY prisma prisma
COPY scripts/migrate.ts scripts/migrate.ts
COPY src src
COPY --from=build /app/src/generated src/generated
RUN install -d -o node -g node /data
VOLUME /data
USER node
EXPOSE 4000
HEALTHCHECK --interval=5s --timeout=3s --start-period=20s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/health/ready`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "src/main.ts"]
