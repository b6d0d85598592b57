FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make build

FROM gcr.io/distroless/static:nonroot
COPY --from=build /src/bin/tenantry /tenantry
USER 65532:65532
ENTRYPOINT ["/tenantry"]
