package apiservice

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strconv"
	"sync"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	"k8s.io/utils/lru"

	"github.com/tenantry/tenantry/internal/server/spaceapi"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Served returns the group versions that spaces serve.
type Served struct {
	// Versions returns the group versions that every space serves, and those of the
	// definitions of the space of n.
	Versions func(n tenant.Name) (builtin, custom []schema.GroupVersion, err error)
	// Changes returns a channel that is notified when those of the space of n may have
	// changed, and a function that releases it.
	Changes func(n tenant.Name) (<-chan struct{}, func())
}

// Shows reports whether the space of n shows an APIService with a name.
func (s Served) Shows(n tenant.Name, name string) (bool, error) {
	builtin, custom, err := s.Versions(n)
	of := func(gv schema.GroupVersion) bool { return nameOf(gv) == name }
	return slices.ContainsFunc(builtin, of) || slices.ContainsFunc(custom, of), err
}

// nameOf returns the name of the APIService of a group version.
func nameOf(gv schema.GroupVersion) string { return gv.Version + "." + gv.Group }

// RESTOptionsGetter makes storage of APIServices that shows spaces their own.
type RESTOptionsGetter struct {
	generic.RESTOptionsGetter
	Served
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g RESTOptionsGetter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil || resource != spaceapi.APIServices {
		return options, err
	}
	decorate := options.Decorator
	options.Decorator = func(config *storagebackend.ConfigForResource, prefix string, keyFunc func(obj runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		stored, destroy, err := decorate(config, prefix, keyFunc, newFunc, newListFunc, attributes, triggers, indexers)
		return newInSpaces(stored, g.Served), destroy, err
	}
	return options, nil
}

// inSpaces is the storage of APIServices. Writes in spaces are refused before they reach
// storage, so writes only concern the embedded storage of the system space.
type inSpaces struct {
	storage.Interface
	served Served
	// recent are those of some spaces of late, for their watches alone, which all look at each change of a definition.
	recent *lru.Cache
	making sync.Mutex
}

// maxRecent is of how many spaces the APIServices are kept, which have 615 at most. It is chosen.
const maxRecent = 16

func newInSpaces(stored storage.Interface, served Served) *inSpaces {
	return &inSpaces{Interface: stored, served: served, recent: lru.New(maxRecent)}
}

// tenantSpace returns the tenant's space of a call, if it is about one.
func tenantSpace(ctx context.Context) (tenant.Name, bool) {
	n, err := tenant.SpaceFrom(ctx)
	return n, err == nil && n.IsSpace()
}

// Get implements storage.Interface.
func (s *inSpaces) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	n, ok := tenantSpace(ctx)
	if !ok {
		return s.Interface.Get(ctx, key, opts, out)
	}
	found, err := s.of(n)
	if err != nil {
		return err
	}
	service, ok := out.(*apiregistration.APIService)
	if !ok {
		return fmt.Errorf("unexpected object %T", out)
	}
	i := slices.IndexFunc(found.services, func(service apiregistration.APIService) bool { return service.Name == path.Base(key) })
	switch {
	case i >= 0:
		*service = found.services[i]
	case opts.IgnoreNotFound:
		*service = apiregistration.APIService{}
	default:
		return storage.NewKeyNotFoundError(key, 0)
	}
	return nil
}

// GetList implements storage.Interface. There are no pages.
func (s *inSpaces) GetList(ctx context.Context, key string, opts storage.ListOptions, out runtime.Object) error {
	n, ok := tenantSpace(ctx)
	if !ok {
		return s.Interface.GetList(ctx, key, opts, out)
	}
	list, ok := out.(*apiregistration.APIServiceList)
	if !ok {
		return fmt.Errorf("unexpected list %T", out)
	}
	found, err := s.of(n)
	if err != nil {
		return err
	}
	matching, err := found.matching(opts.Predicate)
	if err != nil {
		return err
	}
	list.Items, list.ResourceVersion = matching, found.version
	return nil
}

// Watch implements storage.Interface.
func (s *inSpaces) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	n, ok := tenantSpace(ctx)
	if !ok {
		return s.Interface.Watch(ctx, key, opts)
	}
	changed, release := s.served.Changes(n)
	found, err := s.after(n, nil)
	if err != nil {
		release()
		return nil, err
	}
	begin, err := found.begin(opts)
	if err != nil {
		release()
		return nil, err
	}
	// The watch takes no seat any more: its first events are there.
	flowcontrol.WatchInitialized(ctx)
	w := newWatcher(func(known *services) (*services, error) { return s.after(n, known) }, opts)
	go func() {
		defer release()
		w.run(ctx, found, begin, changed)
	}()
	return w, nil
}

// services are the APIServices of a space.
type services struct {
	services []apiregistration.APIService // by name
	// version is a hash of the services, the same on every server. It tells whether
	// they differ, not which are newer.
	version string
}

// unstored is the name space of the UIDs of APIServices in spaces (RFC 9562).
var unstored = uuid.MustParse("0f5d8c0e-6a7f-4f0b-9b0a-3c1d6f4f7a55")

// of returns the APIServices of the space of n, for one request alone.
func (s *inSpaces) of(n tenant.Name) (*services, error) {
	builtin, custom, err := s.served.Versions(n)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return newServices(n, builtin, custom, versionOf(builtin, custom)), nil
}

// after returns the APIServices of the space of n, which are the known ones if nothing has changed. Who gets them must
// not change them: they are made once for all watches of the space.
func (s *inSpaces) after(n tenant.Name, known *services) (*services, error) {
	builtin, custom, err := s.served.Versions(n)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	version := versionOf(builtin, custom)
	if known != nil && known.version == version {
		return known, nil
	}
	s.making.Lock()
	defer s.making.Unlock()
	if recent, ok := s.recent.Get(n); ok && recent.(*services).version == version {
		return recent.(*services), nil
	}
	made := newServices(n, builtin, custom, version)
	s.recent.Add(n, made)
	return made, nil
}

// versionOf returns the version of the APIServices of group versions.
func versionOf(builtin, custom []schema.GroupVersion) string {
	names := make([]string, 0, len(builtin)+len(custom))
	for _, gv := range slices.Concat(builtin, custom) {
		names = append(names, nameOf(gv))
	}
	slices.Sort(names)
	hash := fnv.New64a()
	for _, name := range names {
		_, _ = hash.Write([]byte(name + "\n"))
	}
	return strconv.FormatUint(hash.Sum64()>>1|1, 10)
}

func newServices(n tenant.Name, builtin, custom []schema.GroupVersion, version string) *services {
	found := &services{version: version}
	for _, gv := range builtin {
		found.add(n, gv, "onstart", 17000)
	}
	for _, gv := range custom {
		found.add(n, gv, "true", 1000)
	}
	slices.SortFunc(found.services, func(a, b apiregistration.APIService) int { return cmp.Compare(a.Name, b.Name) })
	for i := range found.services {
		found.services[i].ResourceVersion = found.version
	}
	return found
}

// add adds the APIService of a group version like the aggregator's for its own group
// versions.
func (s *services) add(n tenant.Name, gv schema.GroupVersion, managed string, priority int32) {
	name := nameOf(gv)
	s.services = append(s.services, apiregistration.APIService{
		ObjectMeta: metav1.ObjectMeta{
			Name:   name,
			UID:    types.UID(uuid.NewSHA1(unstored, []byte(string(n)+"/"+name)).String()),
			Labels: map[string]string{"kube-aggregator.kubernetes.io/automanaged": managed},
		},
		Spec: apiregistration.APIServiceSpec{Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: priority, VersionPriority: 100},
		Status: apiregistration.APIServiceStatus{Conditions: []apiregistration.APIServiceCondition{{
			Type: apiregistration.Available, Status: apiregistration.ConditionTrue,
			Reason: "Local", Message: "Local APIServices are always available",
		}}},
	})
}

// matching returns those that match a predicate.
func (s *services) matching(predicate storage.SelectionPredicate) ([]apiregistration.APIService, error) {
	matching := make([]apiregistration.APIService, 0, len(s.services))
	for i := range s.services {
		matches, err := predicate.Matches(&s.services[i])
		if err != nil {
			return nil, err
		}
		if matches {
			matching = append(matching, s.services[i])
		}
	}
	return matching, nil
}

// begin reports whether a watch begins with initial events. A watch from another version
// than the current one has expired.
func (s *services) begin(opts storage.ListOptions) (bool, error) {
	switch version := opts.ResourceVersion; {
	case opts.SendInitialEvents != nil && *opts.SendInitialEvents:
		return true, nil
	case version == "" || version == "0":
		return opts.SendInitialEvents == nil, nil
	case version == s.version:
		return false, nil
	default:
		return false, apierrors.NewResourceExpired("what the space serves has changed; list again")
	}
}
