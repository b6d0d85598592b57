package admission

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/process/ratelimit"
	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// reads is what all policies of spaces read by themselves, whenever a policy comes that has been away: how fast, one
// after the other, and what was refused.
type reads struct {
	// parameters bounds how many bytes of memory of parameters are read for a space by informers that begin, again and
	// again where there is no room for them, and converters how many are taken for converters: upstream makes one in each
	// request until it knows the type.
	parameters, converters ratelimit.Limits[tenant.Name]
	// turns are for one informer of a space at a time: what is read counts when it has been decoded, which may take as
	// much memory again, and a space may have hundreds of informers.
	turns keyed.Turns[tenant.Name]
	// refused has the resources for which there was no room: none reads them for a while.
	refused keyed.Values[refusedKey, *refusal]
}

// newReads returns bounds that are chosen: 8 MiB of parameters take about a twentieth of a core.
func newReads() *reads {
	return &reads{
		parameters: ratelimit.Limits[tenant.Name]{PerSecond: 8 << 20, AtOnce: 128 << 20},
		converters: ratelimit.Limits[tenant.Name]{PerSecond: 16 << 20, AtOnce: 32 << 20},
		turns:      keyed.Turns[tenant.Name]{Each: 1},
	}
}

// spaceReads is what a plugin of a space reads, and what becomes of what it may not read.
type spaceReads struct {
	*reads
	of       tenantKey
	memory   *cachememory.Budget
	refusals *refusals
	// forget ends the plugin: upstream keeps what it has read when it cannot read it anew, and policies would go on with
	// that.
	forget func()
}

const (
	// parameterPage is how many parameters are read at once, and readAgain after how long those are read again for which
	// there was no room. Both are chosen.
	parameterPage = 4
	readAgain     = 30 * time.Second
)

// refusal is why some are not read. It is there for as long as they are not read again.
type refusal struct{ why error }

// refusedKey has a life of a tenant: what was refused one is none of the next one's of that name.
type refusedKey struct {
	of       tenantKey
	resource schema.GroupResource
}

// parameters is the dynamic client of the policies of a space. Upstream keeps all objects of a kind of parameters in an
// informer of each plugin, decoded from JSON: they count for the space, and what it may not have is not read.
type parameters struct {
	dynamic.Interface
	spaceReads

	mu   sync.Mutex
	read map[informerKey]*readParameters
}

// IsWatchListSemanticsUnSupported has informers read by lists: all watches that begin with what there is would decode
// at once.
func (p *parameters) IsWatchListSemanticsUnSupported() bool { return true }

// informerKey identifies an informer, which lives as long as its context.
type informerKey struct {
	resource schema.GroupVersionResource
	ctx      context.Context
}

func newParameters(client dynamic.Interface, by spaceReads) *parameters {
	return &parameters{Interface: client, spaceReads: by, read: map[informerKey]*readParameters{}}
}

// Resource implements dynamic.Interface.
func (p *parameters) Resource(resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	namespaces := p.Interface.Resource(resource)
	return parametersEverywhere{countedParameters{namespaces, p, resource}, namespaces}
}

// informer returns what an informer has read.
func (p *parameters) informer(ctx context.Context, resource schema.GroupVersionResource) *readParameters {
	key := informerKey{resource, ctx}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.read[key]; ok {
		return r
	}
	r := &readParameters{
		Copy: p.memory.NewCopy(p.of.tenant), parameters: p, informerKey: key,
		what: resource.GroupResource().String() + ", which are parameters of policies",
	}
	p.read[key] = r
	context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.read, key)
		p.refusals.remove(r.what)
		r.Forget()
	})
	return r
}

// readParameters is what one informer has read.
type readParameters struct {
	*cachememory.Copy
	informerKey
	parameters *parameters
	what       string
	// filled is whether the informer has had all that there was.
	filled atomic.Bool
	// began is since when all are read, in nanoseconds of Unix time.
	began atomic.Int64
}

func (r *readParameters) refusedKey() refusedKey {
	return refusedKey{r.parameters.of, r.resource.GroupResource()}
}

// begin notes that all are read anew. It returns an error if there was no room for them a moment ago.
func (r *readParameters) begin() error {
	if refused := r.parameters.refused.Get(r.refusedKey()); refused != nil {
		return r.forbidden(refused.why)
	}
	if err := r.Begin(); err != nil {
		return r.refuse(err)
	}
	r.began.Store(time.Now().UnixNano())
	return nil
}

var errStillRead = errors.New("they are being read, which takes time, because they are many")

// refuse returns the error of parameters for which there is no room, and has none of them read for a while.
func (r *readParameters) refuse(err error) *apierrors.StatusError {
	refused := &refusal{err}
	r.parameters.refused.Set(r.refusedKey(), refused)
	time.AfterFunc(readAgain, func() {
		r.parameters.refused.DeleteIf(r.refusedKey(), func(now *refusal) bool { return now == refused })
	})
	return r.forbidden(err)
}

// forbidden returns the error of parameters that are refused, whichever informer was.
func (r *readParameters) forbidden(why error) *apierrors.StatusError {
	r.outdated(why)
	return apierrors.NewForbidden(r.resource.GroupResource(), "", why)
}

// failed notes that they could not be read.
func (r *readParameters) failed(err error) {
	switch {
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err), apierrors.IsForbidden(err):
		r.outdated(err) // such as when their version is not served any more
	}
}

// outdated notes that what the informer has will not be replaced, and why.
func (r *readParameters) outdated(err error) {
	r.parameters.refusals.set(r.what, err)
	if r.filled.Load() {
		r.parameters.forget()
	}
}

// fill notes that the informer has all that there is, in place of what it had.
func (r *readParameters) fill() {
	r.parameters.refusals.remove(r.what)
	r.Filled()
	r.filled.Store(true)
}

// pace waits until so much may have been read for a space.
func pace(ctx context.Context, limits *ratelimit.Limits[tenant.Name], of tenant.Name, bytes int) {
	for {
		wait := limits.Take(time.Now(), of, bytes)
		if wait == 0 || signal.Pause(ctx, wait) != nil {
			return
		}
	}
}

type parametersEverywhere struct {
	countedParameters
	namespaces dynamic.NamespaceableResourceInterface
}

// Namespace implements dynamic.NamespaceableResourceInterface. Upstream's informers have it with no namespace.
func (r parametersEverywhere) Namespace(namespace string) dynamic.ResourceInterface {
	return countedParameters{r.namespaces.Namespace(namespace), r.parameters, r.resource}
}

// countedParameters counts what informers read. Nothing else lists or watches parameters.
type countedParameters struct {
	dynamic.ResourceInterface
	parameters *parameters
	resource   schema.GroupVersionResource
}

// List implements dynamic.ResourceInterface. Whatever is asked for, it returns a page: upstream goes on with the next
// one, and would have all at once from a watch cache.
func (r countedParameters) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	read := r.parameters.informer(ctx, r.resource)
	release, err := r.parameters.turns.Take(ctx, r.parameters.of.tenant)
	if err != nil {
		return nil, err
	}
	defer release()
	if options.Continue == "" {
		if err := read.begin(); err != nil {
			return nil, err
		}
	}
	options.Limit, options.ResourceVersion, options.ResourceVersionMatch = parameterPage, "", ""
	list, err := r.ResourceInterface.List(ctx, options)
	switch {
	case err != nil && options.Continue != "":
		// Upstream would take the first page of another list for all of it when this one has expired.
		return nil, errors.New("reading further parameters of policies: " + err.Error())
	case err != nil:
		read.failed(err)
		return nil, err
	}
	for i := range list.Items {
		if err := read.readMore(&list.Items[i]); err != nil {
			return nil, err
		}
	}
	if list.GetContinue() == "" {
		read.fill()
	}
	return list, nil
}

// Watch implements dynamic.ResourceInterface.
func (r countedParameters) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	read := r.parameters.informer(ctx, r.resource)
	events, err := r.ResourceInterface.Watch(ctx, options)
	if err != nil {
		read.failed(err)
		return nil, err
	}
	return roundtrip.FilterWatch(events, func(event watch.Event) (watch.Event, bool) { return read.counted(event), true }), nil
}

// counted counts the object of an event. Where there is no room for it, the event becomes an error, which ends the
// watch.
func (r *readParameters) counted(event watch.Event) watch.Event {
	object, is := event.Object.(*unstructured.Unstructured)
	switch {
	case !is, event.Type == watch.Bookmark: // an error, or none that is there
	case event.Type == watch.Deleted:
		_ = r.Set(nameOf(object), 0) // which needs no room
	default:
		if err := r.count(object, memory.Of(object)); err != nil {
			return watch.Event{Type: watch.Error, Object: &err.ErrStatus}
		}
	}
	return event
}

// count counts an object that is there.
func (r *readParameters) count(object *unstructured.Unstructured, bytes int) *apierrors.StatusError {
	if err := r.Set(nameOf(object), bytes); err != nil {
		return r.refuse(err)
	}
	return nil
}

// readMore counts an object of a list, for which it takes as long as it may.
func (r *readParameters) readMore(object *unstructured.Unstructured) error {
	bytes := memory.Of(object)
	if err := r.count(object, bytes); err != nil {
		return err
	}
	if pace(r.ctx, &r.parameters.reads.parameters, r.parameters.of.tenant, bytes); time.Since(time.Unix(0, r.began.Load())) > readAgain {
		r.outdated(errStillRead) // and policies wait for them, if they have had some
	}
	return nil
}

func nameOf(object *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
