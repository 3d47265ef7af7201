# syntax=docker/dockerfile:1

# The controller as one static binary on an image without a shell, for whatever platform the build
# runs on. No cross compilation: with `--platform` the builder itself is emulated.
#
# Nothing in this file is checked by `make test`, which needs no container engine. What only an
# engine can check: that these stages build, that the binary is really static (the last RUN of
# the builder says so), and that it starts as uid 65532 with a read-only root:
#
#   docker build -t address-controller:0.1.0 .
#   docker run --rm --read-only --user 65532:65532 address-controller:0.1.0 version

# Alpine's toolchain makes static musl binaries without further settings.
FROM rust:1.95-alpine AS builder

# A C compiler and headers, for the TLS library.
RUN apk add --no-cache gcc musl-dev

WORKDIR /src
COPY . .

# Builds for different platforms must not share a target folder.
ARG TARGETPLATFORM

# Registry and target stay in the builder's cache between builds; the binary is moved out of the
# cache, which later stages do not see.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target,id=target-$TARGETPLATFORM,sharing=locked \
    cargo build --locked --release --package address-controller --bin address-controller \
    && cp target/release/address-controller /address-controller

# A dynamic binary would not start on the image below: better to fail here.
RUN if ldd /address-controller 2>/dev/null | grep -q '=>'; then \
      echo 'the binary is not static' >&2; exit 1; \
    fi

# CA certificates, a user, and nothing else.
FROM gcr.io/distroless/static:nonroot

COPY --from=builder /address-controller /address-controller

# By number, so that the kubelet can see that it is not root.
USER 65532:65532

# The probes; metrics are on 8080 unless set otherwise.
EXPOSE 8081 8080

ENTRYPOINT ["/address-controller"]
