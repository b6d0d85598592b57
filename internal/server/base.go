package server

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/search"
	"github.com/tenantry/tenantry/internal/server/audit"
	"github.com/tenantry/tenantry/internal/server/authentication"
	"github.com/tenantry/tenantry/internal/server/definition"
	"github.com/tenantry/tenantry/internal/server/filters"
	"github.com/tenantry/tenantry/internal/server/flowcontrol"
	"github.com/tenantry/tenantry/internal/server/metrics"
	"github.com/tenantry/tenantry/internal/spaces"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/version"
	"github.com/tenantry/tenantry/internal/workloads/connect"
)

// base is what all that follows is built on: upstream's configuration of any of the three
// servers, and the clients by which the server calls itself.
type base struct {
	generic *genericapiserver.Config
	storage *serverstorage.DefaultStorageFactory
	// informers are those of the system space, views those of every space.
	informers informers.SharedInformerFactory
	views     *spaces.Factory
	// loopback are the credentials by which the server calls itself, for clients that name
	// a space in each request.
	loopback *rest.Config
	// informersToken is that of the informers of the system space.
	informersToken string
	// flattened is a client of every space.
	flattened kubernetes.Interface
	// lives ends requests with their namespaces.
	lives *filters.NamespaceWatch
}

// registerTypes makes Tenants and what belongs to them known to the scheme of the
// built-in resources.
var registerTypes = sync.OnceFunc(func() { definition.AddToScheme(legacyscheme.Scheme) })

// openAPIDefinitions are those of the built-in resources and of Tenants.
func openAPIDefinitions(ref openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition {
	definitions := generatedopenapi.GetOpenAPIDefinitions(ref)
	maps.Copy(definitions, v1alpha1.GetOpenAPIDefinitions(ref))
	// What the encoders show is a field of objects, by which kubectl validates a list that it has printed.
	name := metav1.ObjectMeta{}.OpenAPIModelName()
	metadata := definitions[name]
	metadata.Schema.Properties = maps.Clone(metadata.Schema.Properties)
	metadata.Schema.Properties["tenant"] = *spec.StringProperty().WithDescription("Tenant in whose space the object is. Populated by the system. Read-only.")
	definitions[name] = metadata
	return definitions
}

func newBase(opts CompletedOptions) (*base, error) {
	registerTypes()
	metrics.Bound(legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme, connect.MetricsScheme)
	flowcontrol.Register()
	generic, systemInformers, storageFactory, err := buildGeneric(opts)
	if err != nil {
		return nil, err
	}
	generic.AuditBackend = audit.Shortened(generic.AuditBackend)
	generic.LongRunningFunc = search.LongRunning(flowcontrol.LongRunning(generic.LongRunningFunc))
	generic.SecureServing.Listener = flowcontrol.WithConnections(generic.SecureServing.Listener, opts.FlowControl.Connections)
	generic.EffectiveVersion = effectiveVersion{generic.EffectiveVersion, version.Kubernetes()}
	b := &base{generic: generic, storage: storageFactory, informers: systemInformers}
	b.loopback, b.informersToken = ownClients(generic)
	if b.flattened, err = kubernetes.NewForConfig(spaces.NewClientConfig(generic.LoopbackClientConfig)); err != nil {
		return nil, fmt.Errorf("creating the client of all spaces: %w", err)
	}
	if b.views, err = spaces.NewInformerFactory(generic.LoopbackClientConfig, 0); err != nil {
		return nil, err
	}
	known := b.views.Core().V1().Namespaces().Lister()
	b.lives = &filters.NamespaceWatch{
		Known: func(name tenant.Flat) types.UID { return uidOf(known.Get(name.String())) },
		UIDOf: func(name tenant.Flat) types.UID { return uidOf(b.namespace(name)) },
	}
	_, err = b.views.Core().V1().Namespaces().Informer().AddEventHandler(b.lives.Handler())
	return b, err
}

// lookUpTimeout is what the server itself gets to answer which namespace there is.
const lookUpTimeout = 10 * time.Second

// namespace returns a namespace of the flattened view, by a request of the server's own if the cache does not know it,
// or not yet.
func (b *base) namespace(name tenant.Flat) (*corev1.Namespace, error) {
	found, err := b.views.Core().V1().Namespaces().Lister().Get(name.String())
	if apierrors.IsNotFound(err) {
		ctx, cancel := context.WithTimeout(context.Background(), lookUpTimeout)
		defer cancel()
		return b.flattened.CoreV1().Namespaces().Get(ctx, name.String(), metav1.GetOptions{})
	}
	return found, err
}

// uidOf returns the UID of a namespace that was found, and none after an error: what is changed in a namespace for
// which a request was not authorized is refused.
func uidOf(found *corev1.Namespace, err error) types.UID {
	if err != nil {
		return ""
	}
	return found.UID
}

// buildGeneric builds upstream's configuration. Its authentication is that of
// the system space's own accounts; the rest comes after, with the tenants.
func buildGeneric(opts CompletedOptions) (*genericapiserver.Config, informers.SharedInformerFactory, *serverstorage.DefaultStorageFactory, error) {
	all := opts.kube.Authentication
	opts.kube.Authentication = authentication.SystemAccounts(all) // upstream takes all options at once, by a pointer
	defer func() { opts.kube.Authentication = all }()
	return controlplaneapiserver.BuildGenericConfig(
		opts.kube.CompletedOptions,
		[]*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme, connect.MetricsScheme},
		controlplane.DefaultAPIResourceConfigSource(),
		openAPIDefinitions,
		nil, // its informers have no metrics
	)
}
