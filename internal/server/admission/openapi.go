package admission

import (
	"fmt"
	"sync"
	"time"

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

func withKnownSchemas(client discovery.DiscoveryInterface) (*knownSchemas, error) {
	live := client.OpenAPIV3()
	paths, err := live.Paths()
	if err != nil {
		return nil, fmt.Errorf("reading which schemas there are: %w", err)
	}
	return &knownSchemas{DiscoveryInterface: client, client: &knownPaths{live: live, first: paths, asked: make(chan struct{})}}, nil
}

// taken returns when the policies that were built with the client have taken the
// first answer. They note it some microseconds after they were given it. Upstream gives no
// signal when they have, so we wait 50 ms.
func (k *knownSchemas) taken(stop <-chan struct{}) {
	select {
	case <-stop:
		return
	case <-time.After(notToBeAsked): // the feature is off
		return
	case <-k.client.asked:
	}
	select {
	case <-stop:
	case <-time.After(notedAfter):
	}
}

const notToBeAsked, notedAfter = 5 * time.Second, 50 * time.Millisecond

func (k *knownSchemas) OpenAPIV3() openapi.Client { return k.client }

// knownPaths answers the first question with what is known and asks the server
// for the others.
type knownPaths struct {
	live  openapi.Client
	asked chan struct{} // closed by the first question
	mu    sync.Mutex
	first map[string]openapi.GroupVersion
}

func (k *knownPaths) Paths() (map[string]openapi.GroupVersion, error) {
	k.mu.Lock()
	first := k.first
	k.first = nil
	k.mu.Unlock()
	if first != nil {
		close(k.asked)
		return first, nil
	}
	return k.live.Paths()
}
