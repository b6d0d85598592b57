package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/process/ratelimit"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

// Config says how pods are found on the host.
type Config struct {
	// Host is the configuration of the ServiceAccount that connects.
	Host *restclient.Config
	// HomeOf returns a namespace of a space with its UID and that of its tenant.
	HomeOf func(ctx context.Context, n tenant.Name, namespace string) (names.Namespace, error)
	// GoesOn says that a request does nothing more but to pass bytes on, and is counted by Streams. May be nil.
	GoesOn func(context.Context)
	// Streams is how many connections a tenant may have at once. Zero is defaultStreams.
	Streams int
}

// beginsPerSecond is how many connections to containers (exec, attach, port-forward) of a tenant begin in a second, and
// beginsAtOnce how many before that holds: each is a process or a connection of a node, which no container pays for.
const (
	beginsPerSecond = 10
	beginsAtOnce    = 50
	// logsPerSecond and logsAtOnce are the same of logs, of which each is work for a kubelet, too.
	logsPerSecond = 20
	logsAtOnce    = 200
)

// defaultStreams is how many connections a tenant may have at once on a server.
const defaultStreams = 100

// host connects to the pods of the host.
type host struct {
	config    Config
	base      *url.URL
	transport http.RoundTripper
	upgrades  proxy.UpgradeRequestRoundTripper
	pods      metadata.Getter
	// pod reads a pod of the request's space.
	pod     rest.Getter
	streams streams
	// begun are the connections of tenants to containers that have begun of late.
	begun ratelimit.Limits[tenant.Name]
	// logs are those that have been asked for of late.
	logs ratelimit.Limits[tenant.Name]
}

func newHost(config Config, pod rest.Getter) (*host, error) {
	if config.GoesOn == nil {
		config.GoesOn = func(context.Context) {}
	}
	h := &host{config: config, pod: pod, streams: streams{most: cmp.Or(config.Streams, defaultStreams)},
		begun: ratelimit.Limits[tenant.Name]{PerSecond: beginsPerSecond, AtOnce: beginsAtOnce},
		logs:  ratelimit.Limits[tenant.Name]{PerSecond: logsPerSecond, AtOnce: logsAtOnce}}
	var err error
	if h.base, _, err = restclient.DefaultServerUrlFor(config.Host); err != nil {
		return nil, fmt.Errorf("reading the address of the host cluster: %w", err)
	}
	if h.transport, h.upgrades, err = connectionsOf(config.Host); err != nil {
		return nil, fmt.Errorf("creating the connections to the host cluster: %w", err)
	}
	client, err := metadata.NewForConfig(asking(config.Host))
	if err != nil {
		return nil, fmt.Errorf("creating the client of the host cluster: %w", err)
	}
	h.pods = client.Resource(corev1.SchemeGroupVersion.WithResource("pods"))
	return h, nil
}

// streams are the connections of each tenant.
type streams struct {
	most int
	open keyed.Map[tenant.Name, struct{}]
}

// begin counts a connection, and reports whether the tenant may have one more. end may be called more than once:
// whoever closes a stream may do so, and the tenant must not get another one for it.
func (s *streams) begin(n tenant.Name) (end func(), ok bool) {
	_, connections, end := s.open.Use(n, func() struct{} { return struct{}{} })
	if connections > s.most {
		end()
		return nil, false
	}
	return sync.OnceFunc(end), true
}

// requestTimeout is how long the host has to say what pod there is.
const requestTimeout = 5 * time.Second

// asking returns the configuration of the client that asks the host for a pod. It waits for nothing of ours:
// client-go's five requests a second would be one turn for the logs and shells of all tenants.
func asking(host *restclient.Config) *restclient.Config {
	own := restclient.CopyConfig(host)
	own.QPS, own.RateLimiter, own.Timeout = -1, nil, requestTimeout
	return own
}

// maxAhead is how many bytes of a log the host sends before its client takes them. They are in memory, and Go's default
// is 4 MiB.
const maxAhead = 64 << 10

// connectionsOf makes connections for what is read, and those that become streams, with the credentials of a
// configuration.
func connectionsOf(config *restclient.Config) (http.RoundTripper, proxy.UpgradeRequestRoundTripper, error) {
	transportConfig, err := config.TransportConfig()
	if err != nil {
		return nil, nil, err
	}
	tlsConfig, err := transport.TLSConfigFor(transportConfig)
	if err != nil {
		return nil, nil, err
	}
	reads, err := transport.HTTPWrappersForConfig(transportConfig, utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig: tlsConfig.Clone(), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: maxAhead},
	}))
	if err != nil {
		return nil, nil, err
	}
	credentials, err := transport.HTTPWrappersForConfig(transportConfig, proxy.MirrorRequest)
	if err != nil {
		return nil, nil, err
	}
	// Without HTTP/2, in which nothing is upgraded.
	upgrades := utilnet.SetOldTransportDefaults(&http.Transport{TLSClientConfig: tlsConfig})
	return reads, proxy.NewUpgradeRequestRoundTripper(upgrades, credentials), nil
}

// target is what a request connects to, and what is told if the host refuses it.
type target struct {
	location *url.URL
	refusals
}

// locate returns the subresource of the pod on the host that runs a pod of the request's space. options are written
// anew from what has been decoded.
func (h *host) locate(ctx context.Context, name, subresource string, options runtime.Object) (*target, error) {
	n, err := tenant.SpaceFrom(ctx)
	if err != nil || !n.IsSpace() {
		return nil, apierrors.NewBadRequest("pods of the system space do not run on the host cluster")
	}
	found, err := h.pod.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pod, ok := found.(*core.Pod)
	if !ok {
		return nil, fmt.Errorf("unexpected pod %T", found)
	}
	if pod.Spec.NodeName == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", name))
	}
	home, err := h.config.HomeOf(ctx, n, genericapirequest.NamespaceValue(ctx))
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if err := h.check(ctx, home, pod); err != nil {
		return nil, err
	}
	if options, err = hostOptions(options, pod); err != nil {
		return nil, err
	}
	query, err := legacyscheme.ParameterCodec.EncodeParameters(options, corev1.SchemeGroupVersion)
	if err != nil {
		return nil, fmt.Errorf("writing the options: %w", err)
	}
	location := h.base.JoinPath("api", "v1", "namespaces", home.Host(), "pods", pod.Name, subresource)
	location.RawQuery = query.Encode()
	return &target{location, refusalsOf(home, pod)}, nil
}

// check returns an error if the host's pod is not made of this one.
func (h *host) check(ctx context.Context, home names.Namespace, pod *core.Pod) error {
	there, err := h.pods.Namespace(home.Host()).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // there are no rights where there is no namespace
		return notThere(pod.Name)
	case err != nil:
		return errHostAway
	}
	if !isOf(there, home, pod) {
		return notThere(pod.Name)
	}
	return nil
}

// isOf reports whether a pod of the host is made of one of a space.
func isOf(there *metav1.PartialObjectMetadata, home names.Namespace, pod *core.Pod) bool {
	return home.Has(there, pod.Name) && there.Annotations[names.UIDAnnotation] == string(pod.UID)
}

var errHostAway = apierrors.NewServiceUnavailable("the host cluster, which runs the pods, cannot be reached")

// unreachable returns what is told of an error of a connection to the host: addresses, unless it is an answer.
func unreachable(err error) error {
	if _, answered := errors.AsType[*apierrors.StatusError](err); answered {
		return err
	}
	return errHostAway
}

func notThere(name string) *apierrors.StatusError {
	return apierrors.NewConflict(core.Resource("pods"), name, fmt.Errorf("it is not on the host cluster now; try again when it runs"))
}
