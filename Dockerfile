# syntax=docker/dockerfile:1
# The operator's image. The same program is the command line tool.
FROM rust:1-bookworm AS build
WORKDIR /src
# Everything: Cargo wants to see the sources of all targets, also of those that are not built.
COPY . .
RUN cargo build --release --locked --bin punctual

# The same Debian release as above, for the same C library. The program needs nothing else.
FROM debian:bookworm-slim
COPY --from=build /src/target/release/punctual /usr/local/bin/punctual
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/punctual"]
CMD ["run"]
