package storage

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
)

// ListLimit bounds how much a request of a tenant's users may read at once.
type ListLimit struct {
	Tenant tenant.Name
	// Objects is the limit of one response. Clients get more in pages.
	Objects int64
	// Unpaged is set if all pages end up in one response.
	Unpaged bool
}

type listLimitKey struct{}

// WithListLimit returns a context in which lists, and watches that begin with the
// current state, are limited.
func WithListLimit(ctx context.Context, l ListLimit) context.Context {
	return context.WithValue(ctx, listLimitKey{}, l)
}

// ListLimitFrom returns the limit in ctx, if there is one.
func ListLimitFrom(ctx context.Context) (ListLimit, bool) {
	l, ok := ctx.Value(listLimitKey{}).(ListLimit)
	return l, ok
}

type limitedLists struct {
	storage.Interface
	resource schema.GroupResource
	newList  func() runtime.Object
	codec    runtime.Codec
}

// GetList implements storage.Interface.
func (s *limitedLists) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if by := s.measureOf(ctx); by != nil {
		return s.getTable(ctx, key, opts, list, by)
	}
	return s.getLimited(ctx, key, opts, list)
}

// getLimited reduces larger pages to the limit. A list without pages ends as soon as it is
// beyond the limit, because its client does not expect a second page.
func (s *limitedLists) getLimited(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	limit, ok := ListLimitFrom(ctx)
	if !ok {
		return s.Interface.GetList(ctx, key, opts, list)
	}
	if limit.Unpaged && opts.Predicate.Continue == "" {
		if err := s.check(ctx, key, opts, limit); err != nil {
			return err
		}
	}
	if opts.Predicate.Limit <= 0 { // upstream takes negative ones for none
		return s.getAll(ctx, key, opts, list, limit)
	}
	opts.Predicate.Limit = min(opts.Predicate.Limit, limit.Objects)
	return s.Interface.GetList(ctx, key, withPages(opts), list)
}

// withPages returns options with which upstream pages: it does not page any version.
func withPages(opts storage.ListOptions) storage.ListOptions {
	if opts.ResourceVersion == "0" {
		opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
	}
	return opts
}

// getAll reads a list without pages, if it is within the limit.
func (s *limitedLists) getAll(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object, limit ListLimit) error {
	// A limit has no effect without a resource version match, and upstream would read
	// a version alone as an exact match.
	if opts.ResourceVersion == "" || opts.ResourceVersionMatch != "" {
		opts.Predicate.Limit = limit.Objects + 1
	}
	if err := s.Interface.GetList(ctx, key, opts, list); err != nil {
		return err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	if accessor.GetContinue() != "" || int64(meta.LenList(list)) > limit.Objects {
		return limit.exceeded(s.resource)
	}
	return nil
}

// check returns an error if the list is beyond the limit.
func (s *limitedLists) check(ctx context.Context, key string, opts storage.ListOptions, limit ListLimit) error {
	opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
	opts.SendInitialEvents, opts.Predicate.AllowWatchBookmarks = nil, false
	return s.getAll(ctx, key, opts, s.newList(), limit)
}

// Watch implements storage.Interface.
func (s *limitedLists) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	if limit, ok := ListLimitFrom(ctx); ok && opts.Recursive && wantsInitialEvents(opts) {
		if err := s.check(ctx, key, opts, limit); err != nil {
			return nil, err
		}
	}
	source, err := s.Interface.Watch(ctx, key, opts)
	if by := s.measureOf(ctx); by != nil && by != builtInMeasure && by != metadataMeasure && err == nil {
		return newTableWatch(source, s.resource, by), nil
	}
	return source, err
}

// exceeded returns the error of a list beyond the limit.
func (l ListLimit) exceeded(resource schema.GroupResource) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure,
		Code:   http.StatusRequestEntityTooLarge,
		Reason: metav1.StatusReasonRequestEntityTooLarge,
		Message: fmt.Sprintf("these are more than the %d %s that users of tenant %q may read at once (requestLimit.listObjects); "+
			"read them in pages, with limit and continue (kubectl --chunk-size), or ask the platform's administrators for more",
			l.Objects, resource, l.Tenant),
	}}
}
