package admission

import (
	"fmt"
	"sync"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
)

// knownSchemas is a discovery client that knows already which schemas there are.
// A mutating policy asks for these in the background and fails the requests that
// come before the answer; an instance that is built by a request must not.
type knownSchemas struct {
	discovery.DiscoveryInterface
	client *knownPaths
}

func withKnownSchemas(client discovery.DiscoveryInterface) (discovery.DiscoveryInterface, error) {
	live := client.OpenAPIV3()
	paths, err := live.Paths()
	if err != nil {
		return nil, fmt.Errorf("reading which schemas there are: %w", err)
	}
	return knownSchemas{DiscoveryInterface: client, client: &knownPaths{live: live, first: paths}}, nil
}

func (k knownSchemas) OpenAPIV3() openapi.Client { return k.client }

// knownPaths answers the first question with what is known and asks the server
// for the others.
type knownPaths struct {
	live  openapi.Client
	mu    sync.Mutex
	first map[string]openapi.GroupVersion
}

func (k *knownPaths) Paths() (map[string]openapi.GroupVersion, error) {
	k.mu.Lock()
	first := k.first
	k.first = nil
	k.mu.Unlock()
	if first != nil {
		return first, nil
	}
	return k.live.Paths()
}
