package server

import (
	"fmt"

	registryrest "k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/controller/defaultservicecidr"
	"k8s.io/kubernetes/pkg/controlplane/controller/kubernetesservice"

	"github.com/tenantry/tenantry/internal/server/registry/accesspolicy"
	"github.com/tenantry/tenantry/internal/server/registry/keystonesync"
	"github.com/tenantry/tenantry/internal/server/registry/publishedobject"
	"github.com/tenantry/tenantry/internal/server/registry/user"
)

// newKube creates the server of the built-in resources with the controllers
// that belong to the server itself.
func (a *assembly) newKube(c controlplane.CompletedConfig, delegate genericapiserver.DelegationTarget) (*controlplaneapiserver.Server, error) {
	server, err := c.ControlPlane.New(controlplaneapiserver.KubeAPIServer, delegate)
	if err != nil {
		return nil, err
	}
	// Upstream's system namespaces controller asks for this informer while the
	// factory starts, and counts on admission to have asked before it.
	c.ControlPlane.Extra.VersionedInformers.Core().V1().Namespaces().Informer()
	client, err := kubernetes.NewForConfig(c.ControlPlane.Generic.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	providers, serving, err := storageProviders(c, a.loopback)
	if err != nil {
		return nil, err
	}
	policies, err := a.newAccessPolicies(c.ControlPlane.Generic.RESTOptionsGetter)
	if err != nil {
		return nil, err
	}
	syncs, err := a.newKeystoneSyncs(c.ControlPlane.Generic.RESTOptionsGetter)
	if err != nil {
		return nil, err
	}
	users, err := a.newUsers(c.ControlPlane.Generic.RESTOptionsGetter)
	if err != nil {
		return nil, err
	}
	others := map[string]registryrest.Storage{
		accesspolicy.Resource.Resource: policies, accesspolicy.Resource.Resource + "/status": policies.Status(),
		publishedobject.Resource.Resource: a.reports, publishedobject.Resource.Resource + "/status": a.reports.Status,
		keystonesync.Resource.Resource: syncs, keystonesync.Resource.Resource + "/status": syncs.Status,
		user.Resource.Resource: users, user.Resource.Resource + "/status": users.Status,
	}
	if err := server.InstallAPIs(a.apiGroups(providers, others, serving.PolicyV1())...); err != nil {
		return nil, err
	}
	server.GenericAPIServer.AddPostStartHookOrDie("space-views", func(hook genericapiserver.PostStartHookContext) error {
		a.views.StartWithContext(hook)
		go a.policy.admission.Run(hook)
		return waitUntil(hook, a.rbac.HasSynced)
	})
	server.GenericAPIServer.AddPostStartHookOrDie("tenant-lookup", func(hook genericapiserver.PostStartHookContext) error {
		go a.lookup.Run(hook)
		go a.ledger.Run(hook)
		go a.recorder.Run(hook)
		go policies.Follow(hook, a.grants)
		go users.Follow(hook)
		return waitUntil(hook, a.users.HasSynced)
	})
	return server, installServiceControllers(c, server.GenericAPIServer, client)
}

// installServiceControllers keeps the service "kubernetes" of the system space
// and the default range of cluster addresses.
func installServiceControllers(c controlplane.CompletedConfig, server *genericapiserver.GenericAPIServer, client *kubernetes.Clientset) error {
	_, port, err := c.ControlPlane.Generic.SecureServing.HostPort()
	if err != nil {
		return fmt.Errorf("reading the listener's address: %w", err)
	}
	service := kubernetesservice.New(kubernetesservice.Config{
		PublicIP:                  c.ControlPlane.Generic.PublicAddress,
		EndpointReconciler:        c.EndpointReconcilerConfig.Reconciler,
		EndpointInterval:          c.EndpointReconcilerConfig.Interval,
		ServiceIP:                 c.APIServerServiceIP,
		ServicePort:               c.APIServerServicePort,
		PublicServicePort:         port,
		KubernetesServiceNodePort: c.KubernetesServiceNodePort,
	}, client, c.ControlPlane.Extra.VersionedInformers.Core().V1().Services())
	server.AddPostStartHookOrDie("bootstrap-controller", func(hook genericapiserver.PostStartHookContext) error {
		service.Start(hook.Done())
		return nil
	})
	server.AddPreShutdownHookOrDie("stop-kubernetes-service-controller", func() error {
		service.Stop()
		return nil
	})
	server.AddPostStartHookOrDie("start-kubernetes-service-cidr-controller", func(hook genericapiserver.PostStartHookContext) error {
		defaultservicecidr.NewController(c.ServiceIPRange, c.SecondaryServiceIPRange, client).Start(hook)
		return nil
	})
	return nil
}
