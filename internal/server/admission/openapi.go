package admission

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
)

// knownSchemas is a discovery client that already knows the schemas. A mutating policy
// reads them in the background and fails requests until then. The request that builds an
// instance must not fail.
type knownSchemas struct {
	discovery.DiscoveryInterface
	client *knownPaths
}

func withKnownSchemas(client discovery.DiscoveryInterface, converters *converters) (*knownSchemas, error) {
	live := countedClient{client.OpenAPIV3(), converters}
	paths, err := live.Paths()
	if err != nil {
		return nil, fmt.Errorf("reading which schemas there are: %w", err)
	}
	return &knownSchemas{DiscoveryInterface: client, client: &knownPaths{live: live, first: paths, read: make(chan struct{})}}, nil
}

// waitUntilRead returns when the policies that were built with the client have the schemas.
// They store them some microseconds after Paths has returned. Upstream gives no signal, so
// we wait 50 ms.
func (k *knownSchemas) waitUntilRead(stop <-chan struct{}) {
	select {
	case <-stop:
		return
	case <-time.After(readTimeout): // the feature is off
		return
	case <-k.client.read:
	}
	select {
	case <-stop:
	case <-time.After(storeTime):
	}
}

const readTimeout, storeTime = 5 * time.Second, 50 * time.Millisecond

func (k *knownSchemas) OpenAPIV3() openapi.Client { return k.client }

// knownPaths returns the known paths at the first call and reads them from the server
// at later ones.
type knownPaths struct {
	live  openapi.Client
	read  chan struct{} // closed by the first call
	mu    sync.Mutex
	first map[string]openapi.GroupVersion
}

func (k *knownPaths) Paths() (map[string]openapi.GroupVersion, error) {
	k.mu.Lock()
	first := k.first
	k.first = nil
	k.mu.Unlock()
	if first != nil {
		close(k.read)
		return first, nil
	}
	return k.live.Paths()
}
