package connect

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/registry/generic/rest"
	registryrest "k8s.io/apiserver/pkg/registry/rest"

	"github.com/tenantry/tenantry/internal/process/ratelimit"
	"github.com/tenantry/tenantry/internal/tenant"
)

// stream serves exec, attach or portforward.
type stream struct {
	// connecter is upstream's, for its metadata only.
	connecter
	subresource string
	host        *host
	// authorizer is asked for the verb "create": a WebSocket begins with a GET.
	authorizer authorizer.Authorizer
}

type connecter interface {
	registryrest.Storage
	registryrest.Connecter
}

var _ registryrest.Connecter = &stream{}

// Connect implements registryrest.Connecter.
func (s *stream) Connect(ctx context.Context, name string, options runtime.Object, responder registryrest.Responder) (http.Handler, error) {
	if err := s.mayCreate(ctx); err != nil {
		return nil, err
	}
	n, err := mayBegin(ctx, &s.host.begun, "connections to")
	if err != nil {
		return nil, err
	}
	to, err := s.host.locate(ctx, name, s.subresource, options)
	if err != nil {
		return nil, err
	}
	handler := proxy.NewUpgradeAwareHandler(to.location, s.host.transport, false, true, proxy.NewErrorResponder(failing{responder}))
	handler.UpgradeTransport, handler.UseLocationHost = s.host.upgrades, true
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		end, ok := s.host.streams.begin(n)
		if !ok {
			responder.Error(tooMany(s.host.streams.most))
			return
		}
		defer end()
		s.host.config.GoesOn(req.Context())
		handler.ServeHTTP(&ending{w, req.Context(), to.refusals}, asOurs(req))
	}), nil
}

// mayBegin returns the tenant of a request for a stream, or an error if the tenant is to wait before it begins one
// more.
func mayBegin(ctx context.Context, begun *ratelimit.Limits[tenant.Name], what string) (tenant.Name, error) {
	n, err := tenant.SpaceFrom(ctx)
	if err != nil {
		return "", err
	}
	if wait := begun.Take(time.Now(), n, 1); wait > 0 {
		return "", apierrors.NewTooManyRequests(fmt.Sprintf("the tenant begins %.0f %s containers in a second on this server at most", float64(begun.PerSecond), what), int(wait.Seconds())+1)
	}
	return n, nil
}

func tooMany(most int) error {
	return apierrors.NewTooManyRequests(fmt.Sprintf("the tenant has %d connections to pods on this server, which is the most; end some", most), 1)
}

// mayCreate returns an error if the user may not create what it asks for by another verb.
func (s *stream) mayCreate(ctx context.Context) error {
	attributes, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if attributes.GetVerb() == "create" {
		return nil
	}
	decision, reason, err := s.authorizer.Authorize(ctx, creating{attributes})
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if decision != authorizer.DecisionAllow {
		return apierrors.NewForbidden(gr(attributes), attributes.GetName(), fmt.Errorf("it needs the verb create: %s", reason))
	}
	return nil
}

// creating are the attributes of a request with the verb create.
type creating struct{ authorizer.Attributes }

// GetVerb implements authorizer.Attributes.
func (creating) GetVerb() string { return "create" }

// sent are the headers of a client that the host gets: those of the stream. Others could say who asks.
var sent = []string{"Connection", "Upgrade", "X-Stream-Protocol-Version", "Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Protocol", "Sec-Websocket-Extensions"}

// tokenProtocol begins a subprotocol of WebSockets that is a bearer token.
const tokenProtocol = "base64url.bearer.authorization.k8s.io."

// asOurs returns a request with nothing in its headers but what is about the stream, and no body: one that filters have
// wrapped would be sent in chunks, and their end be taken for the beginning of the stream.
func asOurs(req *http.Request) *http.Request {
	ours := req.Clone(req.Context())
	ours.Header = http.Header{}
	ours.Body, ours.ContentLength, ours.TransferEncoding = http.NoBody, 0, nil
	for _, name := range sent {
		if values := req.Header.Values(name); len(values) > 0 {
			ours.Header[name] = values
		}
	}
	if protocols := ours.Header.Values("Sec-Websocket-Protocol"); len(protocols) > 0 {
		var kept []string
		for protocol := range strings.SplitSeq(strings.Join(protocols, ","), ",") {
			if protocol = strings.TrimSpace(protocol); !strings.HasPrefix(protocol, tokenProtocol) {
				kept = append(kept, protocol)
			}
		}
		ours.Header.Set("Sec-Websocket-Protocol", strings.Join(kept, ", "))
	}
	return ours
}

// failing answers what a connection to the host fails with.
type failing struct{ registryrest.Responder }

// Error implements registryrest.Responder.
func (f failing) Error(err error) { f.Responder.Error(unreachable(err)) }

// ending closes a connection that has been taken over when its request ends: with its tenant, and when
// the tenant is suspended.
type ending struct {
	http.ResponseWriter
	ctx      context.Context
	refusals refusals
}

// Unwrap is for http.ResponseController.
func (e *ending) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// Hijack implements http.Hijacker.
func (e *ending) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(e.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	context.AfterFunc(e.ctx, func() { _ = conn.Close() })
	return &answering{Conn: conn, refusals: e.refusals}, buffered, nil
}

// counted is the stream of a log, counted among those of its tenant.
type counted struct {
	*rest.LocationStreamer
	host *host
}

var _ registryrest.ResourceStreamer = &counted{}

// InputStream implements registryrest.ResourceStreamer.
func (c *counted) InputStream(ctx context.Context, apiVersion, accept string) (io.ReadCloser, bool, string, error) {
	n, err := tenant.SpaceFrom(ctx)
	if err != nil {
		return nil, false, "", err
	}
	end, ok := c.host.streams.begin(n)
	if !ok {
		return nil, false, "", tooMany(c.host.streams.most)
	}
	c.host.config.GoesOn(ctx)
	stream, flush, contentType, err := c.LocationStreamer.InputStream(ctx, apiVersion, accept)
	if err != nil {
		end()
		return nil, false, "", unreachable(err)
	}
	return &countedStream{stream, end}, flush, contentType, nil
}

type countedStream struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (c *countedStream) Close() error {
	c.end()
	return c.ReadCloser.Close()
}
