package server

import (
	"fmt"

	"k8s.io/apiserver/pkg/registry/generic"
	registryrest "k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/controller/defaultservicecidr"
	"k8s.io/kubernetes/pkg/controlplane/controller/kubernetesservice"

	"github.com/tenantry/tenantry/internal/server/registry/accesspolicy"
	"github.com/tenantry/tenantry/internal/server/registry/keystonesync"
	"github.com/tenantry/tenantry/internal/server/registry/publishedobject"
	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	"github.com/tenantry/tenantry/internal/server/registry/user"
	spacerbac "github.com/tenantry/tenantry/internal/spaces/rbac"
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
	own, err := a.newOwn(c.ControlPlane.Generic.RESTOptionsGetter)
	if err != nil {
		return nil, err
	}
	if err := server.InstallAPIs(a.apiGroups(providers, own.storages(a.reports), serving.PolicyV1())...); err != nil {
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
		go own.policies.Follow(hook, a.grants)
		go own.users.Follow(hook)
		return waitUntil(hook, a.users.HasSynced)
	})
	return server, installServiceControllers(c, server.GenericAPIServer, client)
}

// own are the storages of the types of Tenantry that ask the authorizer.
type own struct {
	policies *accesspolicy.REST
	syncs    *keystonesync.REST
	users    *user.REST
}

func (a *assembly) newOwn(options generic.RESTOptionsGetter) (*own, error) {
	asked, defaults := a.authorizer, spacerbac.DefaultClusterRoles()
	policies, err := accesspolicy.NewREST(legacyscheme.Scheme, options, a.uid,
		accesspolicy.Escalation{Authorizer: asked, RulesFor: spacerbac.NewRules(a.rbac, nil).RulesFor})
	if err != nil {
		return nil, fmt.Errorf("creating the storage of access policies: %w", err)
	}
	syncs, err := keystonesync.NewREST(legacyscheme.Scheme, options, asked, keystonesync.Spaces{
		Counted:        tenantregistry.IsCounted,
		HasClusterRole: func(name string) bool { return defaults[name] != nil },
	})
	if err != nil {
		return nil, fmt.Errorf("creating the storage of syncs of Keystone: %w", err)
	}
	users, err := user.NewREST(legacyscheme.Scheme, options, asked, a.users)
	if err != nil {
		return nil, fmt.Errorf("creating the storage of users: %w", err)
	}
	return &own{policies, syncs, users}, nil
}

// storages returns them by path, with that of the reports about published objects.
func (o *own) storages(reports *publishedobject.REST) map[string]registryrest.Storage {
	return map[string]registryrest.Storage{
		accesspolicy.Resource.Resource: o.policies, accesspolicy.Resource.Resource + "/status": o.policies.Status(),
		publishedobject.Resource.Resource: reports, publishedobject.Resource.Resource + "/status": reports.Status,
		keystonesync.Resource.Resource: o.syncs, keystonesync.Resource.Resource + "/status": o.syncs.Status,
		user.Resource.Resource: o.users, user.Resource.Resource + "/status": o.users.Status,
	}
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
