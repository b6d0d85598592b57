package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/process/ratelimit"
	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// parameterBytes bounds how many bytes of memory of parameters are read for the policies of a space by informers that
// begin: the server does that by itself, whenever a policy comes that has been away, and again and again where there is
// no room for them. Both numbers are chosen: 8 MiB take about a twentieth of a core.
var parameterBytes = ratelimit.Limits[tenant.Name]{PerSecond: 8 << 20, AtOnce: 128 << 20}

// parameters is the dynamic client of the policies of a space. Upstream keeps all objects of a kind of parameters in an
// informer of each plugin, decoded from JSON: they count for the space, and what it may not have is not read.
type parameters struct {
	dynamic.Interface
	of     tenant.Name
	memory *cachememory.Budget

	mu     sync.Mutex
	copies map[schema.GroupVersionResource]informed
	// refused are the errors of those for which there is no room.
	refused map[schema.GroupVersionResource]error
}

// informed is what an informer has, as long as ctx.
type informed struct {
	*cachememory.Copy
	ctx context.Context
}

func newParameters(client dynamic.Interface, of tenant.Name, budget *cachememory.Budget) *parameters {
	return &parameters{
		Interface: client, of: of, memory: budget,
		copies: map[schema.GroupVersionResource]informed{}, refused: map[schema.GroupVersionResource]error{},
	}
}

// Resource implements dynamic.Interface.
func (p *parameters) Resource(resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	namespaces := p.Interface.Resource(resource)
	return parametersEverywhere{countedParameters{namespaces, p, resource}, namespaces}
}

// copyOf returns what counts the objects of an informer, which lives as long as ctx.
func (p *parameters) copyOf(ctx context.Context, resource schema.GroupVersionResource) *cachememory.Copy {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i, ok := p.copies[resource]; ok && i.ctx == ctx {
		return i.Copy
	}
	i := informed{p.memory.NewCopy(p.of), ctx}
	p.copies[resource] = i
	context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.copies[resource] == i { // and no other informer has begun
			delete(p.copies, resource)
			delete(p.refused, resource)
		}
		i.Forget()
	})
	return i.Copy
}

// refuse returns the error of a resource for which there is no room, and has the errors of policies say so.
func (p *parameters) refuse(resource schema.GroupVersionResource, err error) *apierrors.StatusError {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused[resource] = err
	return apierrors.NewForbidden(resource.GroupResource(), "", err)
}

// filled notes that an informer has all that there is, in place of what it had.
func (p *parameters) filled(resource schema.GroupVersionResource, c *cachememory.Copy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.refused, resource)
	c.Filled()
}

// pace waits until so much may have been read for the space.
func (p *parameters) pace(ctx context.Context, bytes int) {
	for {
		wait := parameterBytes.Take(time.Now(), p.of, bytes)
		if wait == 0 || signal.Pause(ctx, wait) != nil {
			return
		}
	}
}

// explain adds to the refusal of a policy which parameters have not been read.
func (p *parameters) explain(err error) error {
	status, is := errors.AsType[*apierrors.StatusError](err)
	if !is {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for resource, refused := range p.refused {
		status.ErrStatus.Message += fmt.Sprintf("; %s, which are parameters of policies, are not read: %s", resource.GroupResource(), refused)
	}
	return err
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

// List implements dynamic.ResourceInterface.
func (r countedParameters) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	c := r.parameters.copyOf(ctx, r.resource)
	if options.Continue == "" {
		c.Begin()
	}
	list, err := r.ResourceInterface.List(ctx, options)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if err := r.count(ctx, c, &list.Items[i], true); err != nil {
			return nil, err
		}
	}
	if list.GetContinue() == "" {
		r.parameters.filled(r.resource, c)
	}
	return list, nil
}

// Watch implements dynamic.ResourceInterface.
func (r countedParameters) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	c, filling := r.parameters.copyOf(ctx, r.resource), ptr.Deref(options.SendInitialEvents, false)
	if filling {
		c.Begin()
	}
	events, err := r.ResourceInterface.Watch(ctx, options)
	if err != nil {
		return nil, err
	}
	return watch.Filter(events, func(event watch.Event) (watch.Event, bool) {
		object, is := event.Object.(*unstructured.Unstructured)
		switch {
		case !is: // an error
		case event.Type == watch.Bookmark:
			if filling && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				r.parameters.filled(r.resource, c)
				filling = false
			}
		case event.Type == watch.Deleted:
			_ = c.Set(nameOf(object), 0) // which needs no room
		default:
			if err := r.count(ctx, c, object, filling); err != nil {
				return watch.Event{Type: watch.Error, Object: &err.ErrStatus}, true // which ends the watch
			}
		}
		return event, true
	}), nil
}

// count counts an object that is there. While an informer is filled, it takes as long as it may.
func (r countedParameters) count(ctx context.Context, c *cachememory.Copy, object *unstructured.Unstructured, filling bool) *apierrors.StatusError {
	bytes := memory.Of(object)
	if err := c.Set(nameOf(object), bytes); err != nil {
		return r.parameters.refuse(r.resource, err)
	}
	if filling {
		r.parameters.pace(ctx, bytes)
	}
	return nil
}

func nameOf(object *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// explained is a plugin of a space whose errors say which parameters have not been read.
type explained struct {
	admission.Interface
	parameters *parameters
}

// Admit implements admission.MutationInterface.
func (p explained) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return p.parameters.explain(mutate(ctx, p.Interface, a, o))
}

// Validate implements admission.ValidationInterface.
func (p explained) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return p.parameters.explain(validate(ctx, p.Interface, a, o))
}
