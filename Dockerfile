# The broker's image: built from source, run as a user of its own.
#
#   docker build -t highwater .
#
# BUILD_BASE needs Rust and Debian's packages (or what .ci/build-deps asks for already in it, and
# the crates where cargo finds them: then it builds without a network), RUN_BASE the C++ library
# and bash. Kafka's environment variables are read as the usual images read
# them: KAFKA_NUM_PARTITIONS=3 is num.partitions=3.
ARG BUILD_BASE=rust:1-bookworm
ARG RUN_BASE=debian:bookworm-slim

FROM ${BUILD_BASE} AS build
WORKDIR /highwater
COPY .ci .ci
RUN .ci/build-deps
COPY . .
# Without the tables of lines the binary is a quarter of its size; a backtrace still has names.
RUN cargo build --release --locked --bin highwater \
    && strip --strip-debug -o /usr/local/bin/highwater \
    "${CARGO_TARGET_DIR:-target}/release/highwater"

FROM ${RUN_BASE}
RUN useradd --uid 1000 --create-home appuser \
    && install -d -o appuser -g appuser /var/lib/kafka/data
COPY --from=build /usr/local/bin/highwater /usr/local/bin/highwater
# By number, so that who runs it can tell that it is not root.
USER 1000:1000
ENV KAFKA_LOG_DIRS=/var/lib/kafka/data
VOLUME /var/lib/kafka/data
# Clients, other brokers, health and metrics.
EXPOSE 9092 9093 9644
STOPSIGNAL SIGTERM
# It is ready in a blink; while it waits for other brokers it is not.
HEALTHCHECK --interval=2s --timeout=2s --start-period=30s --retries=5 CMD ["bash", "-c", \
    "exec 3<>/dev/tcp/127.0.0.1/9644 && printf 'GET /health/ready HTTP/1.0\\r\\n\\r\\n' >&3 && read -r status <&3 && [[ $status == *' 200 '* ]]"]
ENTRYPOINT ["highwater"]
CMD ["serve"]
