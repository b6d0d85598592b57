package server

import (
	"net/http"

	"github.com/google/uuid"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"

	"github.com/tenantry/tenantry/internal/server/loopback"
	"github.com/tenantry/tenantry/internal/server/serializer"
)

// ownClients divides the clients by which the server calls itself: upstream's
// controllers and hooks get a configuration that means the system space. It returns
// one that means none, and the token of upstream's informers of the system space,
// whose client exists already.
func ownClients(generic *genericapiserver.Config) (own *rest.Config, informersToken string) {
	own, informersToken = rest.CopyConfig(generic.LoopbackClientConfig), generic.LoopbackClientConfig.BearerToken
	own.BearerToken = uuid.NewString()
	generic.LoopbackClientConfig = loopback.System(own)
	return own, informersToken
}

// storageProviders returns upstream's API groups. What their storage asks of the server
// it asks in the space of the request that it serves.
func storageProviders(c controlplane.CompletedConfig, own *rest.Config) ([]controlplaneapiserver.RESTStorageProvider, *kubernetes.Clientset, error) {
	serving := loopback.OfRequest(own, ofPlatform()...)
	client, err := kubernetes.NewForConfig(serving)
	if err != nil {
		return nil, nil, err
	}
	generic := c.ControlPlane.Generic.Config
	hooks := generic.LoopbackClientConfig // upstream's providers read it from the one configuration of the server
	generic.LoopbackClientConfig = serving
	defer func() { generic.LoopbackClientConfig = hooks }()
	providers, err := c.StorageProviders(client)
	return providers, client, err
}

// ofPlatform are the requests of upstream's storage that mean the system space, in
// whatever space the request is that leads to them.
func ofPlatform() []loopback.Path {
	paths := []loopback.Path{
		// Cluster IPs come from one range for all spaces.
		{Path: "/apis/networking.k8s.io/v1/ipaddresses"},
		{Path: "/apis/networking.k8s.io/v1/servicecidrs"},
		// The loops that repair the allocations of the system space's Services, and
		// the events by which they report.
		{Method: http.MethodGet, Path: "/api/v1/services", Exactly: true},
		{Method: http.MethodPost, Path: "/apis/events.k8s.io/v1/namespaces"},
		{Method: http.MethodPatch, Path: "/apis/events.k8s.io/v1/namespaces"},
	}
	// Anybody who writes an admission policy needs rights to the kind of its parameters,
	// whose resource is looked up without a context. What every space has is known;
	// the kinds of the system space's definitions are not those of another.
	for _, gv := range legacyscheme.Scheme.PrioritizedVersionsAllGroups() {
		paths = append(paths, loopback.Path{Method: http.MethodGet, Path: serializer.RootOf(gv), Exactly: true})
	}
	return paths
}
