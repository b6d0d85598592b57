package clusterip

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/apis/core"
	servicestore "k8s.io/kubernetes/pkg/registry/core/service/storage"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// Config says where the host's Services are made.
type Config struct {
	// Host is the configuration of the ServiceAccount that makes them.
	Host *restclient.Config
	// HomeOf returns a namespace of a space with its UID and that of its tenant.
	HomeOf func(ctx context.Context, n tenant.Name, namespace string) (names.Namespace, error)
	// Rules returns what the Services of a tenant are held to.
	Rules func(n tenant.Name) translate.Rules
	// Want has the syncer make the host's namespace for one of a space. It does not wait for that.
	Want func(ctx context.Context, n tenant.Name, namespace string) error
}

// Wrap has a host choose what is allocated for the Services of tenants' spaces.
func Wrap(storages map[string]rest.Storage, config Config) error {
	upstream, ok := storages["services"].(*servicestore.REST)
	if !ok {
		return fmt.Errorf("unexpected storage of services: %T", storages["services"])
	}
	ofStatus, ok := storages["services/status"].(*servicestore.StatusREST)
	if !ok {
		return fmt.Errorf("unexpected storage of services/status: %T", storages["services/status"])
	}
	onHost := restclient.CopyConfig(config.Host)
	onHost.QPS, onHost.Timeout, onHost.UserAgent = -1, requestTimeout, fieldManager
	client, err := kubernetes.NewForConfig(onHost)
	if err != nil {
		return fmt.Errorf("creating the client of the host cluster: %w", err)
	}
	granting, err := newGranting()
	if err != nil {
		return err
	}
	s := &services{config: config, host: client.CoreV1(), patience: defaultPatience, limits: newLimits(), granting: granting, get: upstream.Store.Get}
	s.hook(upstream.Store)
	storages["services"], storages["services/status"] = &serviceREST{upstream, s}, &statusREST{ofStatus}
	return nil
}

// hook has a store ask the host.
func (s *services) hook(store *registry.Store) {
	create, update, deleted := store.BeginCreate, store.BeginUpdate, store.AfterDelete
	store.BeginCreate = func(ctx context.Context, obj runtime.Object, options *metav1.CreateOptions) (registry.FinishFunc, error) {
		n, err := tenant.SpaceFrom(ctx)
		if err != nil {
			return nil, err
		}
		if !n.IsSpace() {
			return create(ctx, obj, options)
		}
		t, err := begin(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.create(ctx, n, t, obj.(*core.Service), dryrun.IsDryRun(options.DryRun)); err != nil {
			return nil, err
		}
		return s.granting.BeginCreate(ctx, obj, &metav1.CreateOptions{DryRun: dryRun})
	}
	store.BeginUpdate = func(ctx context.Context, obj, old runtime.Object, options *metav1.UpdateOptions) (registry.FinishFunc, error) {
		n, err := tenant.SpaceFrom(ctx)
		if err != nil {
			return nil, err
		}
		service, before := obj.(*core.Service), old.(*core.Service)
		keepPlace(service, before)
		if !n.IsSpace() {
			return update(ctx, obj, old, options)
		}
		t, err := begin(ctx)
		if err != nil {
			return nil, err
		}
		if !isPlaced(before) {
			return update(ctx, obj, old, options)
		}
		if dryrun.IsDryRun(options.DryRun) || !chooses(service, before) {
			return s.granting.BeginUpdate(ctx, obj, old, options)
		}
		if err := s.update(ctx, n, t, service, before.DeepCopy()); err != nil {
			return nil, err
		}
		return s.granting.BeginUpdate(ctx, obj, old, &metav1.UpdateOptions{DryRun: dryRun})
	}
	store.AfterDelete = func(obj runtime.Object, options *metav1.DeleteOptions) {
		if service, ok := obj.(*core.Service); ok && isPlaced(service) {
			return // what the host has chosen it releases with its own Service
		}
		deleted(obj, options)
	}
}

// dryRun keeps the registry from allocating addresses: the host has to choose them, after webhooks and policies have
// been asked.
var dryRun = []string{metav1.DryRunAll}

// isPlaced reports whether a host has chosen the addresses of a Service.
func isPlaced(service *core.Service) bool { return service.Annotations[names.HostUIDAnnotation] != "" }

// keepPlace keeps what says which of the host's Services is that of a Service. Nobody changes it.
func keepPlace(service, before *core.Service) {
	place, ok := before.Annotations[names.HostUIDAnnotation]
	if !ok {
		delete(service.Annotations, names.HostUIDAnnotation)
		return
	}
	if service.Annotations == nil {
		service.Annotations = map[string]string{}
	}
	service.Annotations[names.HostUIDAnnotation] = place
}

// serviceREST is upstream's storage of Services. It asks the host when validating admission has agreed, and
// takes back what the host has made or changed for what is not stored in the end. The hooks alone do not know: they are
// called before, and where an update creates, upstream says that all is well before it stores.
type serviceREST struct {
	*servicestore.REST
	services *services
}

// Create implements rest.Creater.
func (s *serviceREST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	t := &transaction{}
	created, err := s.REST.Create(withTransaction(ctx, t), obj, t.afterCreate(validate), options)
	t.finish(ctx, err)
	return created, err
}

// Update implements rest.Updater.
func (s *serviceREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, validateCreate rest.ValidateObjectFunc, validateUpdate rest.ValidateObjectUpdateFunc,
	forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	t := &transaction{}
	updated, created, err := s.REST.Update(withTransaction(ctx, t), name, info, t.afterCreate(validateCreate), t.afterUpdate(validateUpdate), forceAllowCreate, options)
	t.finish(ctx, err)
	return updated, created, err
}

// afterCreate asks the host after validate.
func (t *transaction) afterCreate(validate rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if validate != nil {
			if err := validate(ctx, obj); err != nil {
				return err
			}
		}
		return t.askHost(ctx)
	}
}

// afterUpdate asks the host after validate.
func (t *transaction) afterUpdate(validate rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old runtime.Object) error {
		if validate != nil {
			if err := validate(ctx, obj, old); err != nil {
				return err
			}
		}
		return t.askHost(ctx)
	}
}

// statusREST is upstream's storage of the status of Services. By it, metadata can be changed, too.
type statusREST struct{ *servicestore.StatusREST }

// Update implements rest.Updater.
func (s *statusREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, validateCreate rest.ValidateObjectFunc, validateUpdate rest.ValidateObjectUpdateFunc,
	forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.StatusREST.Update(ctx, name, rest.WrapUpdatedObjectInfo(info, keepInStatus), validateCreate, validateUpdate, forceAllowCreate, options)
}

// keepInStatus keeps a status from what the hooks do not see.
func keepInStatus(_ context.Context, obj, old runtime.Object) (runtime.Object, error) {
	service, ok := obj.(*core.Service)
	before, was := old.(*core.Service)
	if !ok || !was {
		return nil, fmt.Errorf("unexpected services %T and %T", obj, old)
	}
	if isPlaced(before) && before.DeletionTimestamp != nil && len(service.Finalizers) < len(before.Finalizers) {
		return nil, forbidden(service.Name, "finalizers of a Service on a host cluster are removed from the Service, and not from its status")
	}
	keepPlace(service, before)
	return service, nil
}
