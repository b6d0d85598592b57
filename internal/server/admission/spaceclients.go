package admission

import (
	"cmp"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	cacheddiscovery "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/tenant"
)

// rediscoverAfter is how long a space's discovery is cached when a kind is missing in it.
const rediscoverAfter = 5 * time.Second

// spaceClients makes clients of single spaces over one transport.
type spaceClients struct {
	config    *rest.Config
	transport func() (*http.Client, error)
}

func newSpaceClients(config *rest.Config) *spaceClients {
	if config == nil {
		config = &rest.Config{}
	}
	return &spaceClients{
		config:    config,
		transport: sync.OnceValues(func() (*http.Client, error) { return rest.HTTPClientFor(config) }),
	}
}

// clients are the clients of one space.
type clients struct {
	dynamic    dynamic.Interface
	discovery  discovery.DiscoveryInterface
	restMapper meta.RESTMapper
}

func (s *spaceClients) of(n tenant.Name) (*clients, error) {
	transport, err := s.transport()
	if err != nil {
		return nil, fmt.Errorf("creating the transport of space clients: %w", err)
	}
	config := rest.CopyConfig(s.config)
	config.Host += n.Root()
	transport = within(n.Root(), transport)
	c := &clients{}
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, transport); err != nil {
		return nil, fmt.Errorf("creating a client of space %q: %w", n, err)
	}
	if c.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(config, transport); err != nil {
		return nil, fmt.Errorf("creating a discovery client of space %q: %w", n, err)
	}
	cached := cacheddiscovery.NewMemCacheClient(c.discovery)
	c.restMapper = &restMapper{deferred: restmapper.NewDeferredDiscoveryRESTMapper(cached)}
	return c, nil
}

// within returns a client that asks for nothing outside a root, whatever names the objects of a space have it ask for:
// the server asks with rights of its own.
func within(root string, client *http.Client) *http.Client {
	inside, next := *client, cmp.Or(client.Transport, http.DefaultTransport)
	inside.Transport = roundtrip.Func(func(req *http.Request) (*http.Response, error) {
		if asked := path.Clean(req.URL.Path); !strings.HasPrefix(asked, root+"/") {
			return nil, fmt.Errorf("%q is not asked for: it is not in %s", asked, root)
		}
		return next.RoundTrip(req)
	})
	return &inside
}

// restMapper returns the mapper of a space. It discovers the API when it is first used.
func (s *spaceClients) restMapper(n tenant.Name) meta.RESTMapper {
	return meta.NewLazyRESTMapperLoader(func() (meta.RESTMapper, error) {
		c, err := s.of(n)
		if err != nil {
			return nil, err
		}
		return c.restMapper, nil
	})
}

// restMapper is a mapper by discovery that discovers again for unknown kinds,
// because a space's custom resources come and go.
type restMapper struct {
	meta.RESTMapper // nil: plugins only use mappings
	deferred        *restmapper.DeferredDiscoveryRESTMapper

	mu   sync.Mutex
	last time.Time
}

func (m *restMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return mapped(m, m.deferred.RESTMapping, kind, versions)
}

func (m *restMapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return mapped(m, m.deferred.RESTMappings, kind, versions)
}

func mapped[T any](m *restMapper, find func(schema.GroupKind, ...string) (T, error), kind schema.GroupKind, versions []string) (T, error) {
	found, err := find(kind, versions...)
	if meta.IsNoMatchError(err) && m.reset() {
		return find(kind, versions...)
	}
	return found, err
}

// reset drops the discovered API, unless it is new.
func (m *restMapper) reset() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.last) < rediscoverAfter {
		return false
	}
	m.last = time.Now()
	m.deferred.Reset()
	return true
}
