package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/tenantry/tenantry/internal/tenant"
)

// OldestRevisionFunc returns the revision, of the etcd with a transport, before which what is below the name of a
// tenant was that of an earlier tenant or, if there is a namespace, what is below its name that of an earlier
// namespace. It is zero if neither had a predecessor.
type OldestRevisionFunc func(ctx context.Context, etcd storagebackend.TransportConfig, n tenant.Name, namespace string) (int64, error)

// checkRevision returns an error if a list or watch would show what was below the name of a space before its tenant was
// there, or below that of a namespace before the namespace was. etcd and the watch cache keep what objects were, by
// key, and resource versions count the changes of all spaces, so that everybody knows those of the time of an earlier
// one.
func (s *Space) checkRevision(ctx context.Context, c collection) error {
	n, one := c.scope.Space()
	// The system space has no earlier tenant, but earlier namespaces.
	if s.options.OldestRevision == nil || !one || n == tenant.System && s.namespaceAsked(ctx, c) == "" {
		return nil
	}
	if token := c.opts.Predicate.Continue; token != "" {
		_, at, err := storage.DecodeContinue(token, c.key)
		if err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: %v", err))
		}
		if at < 0 { // the rest as it is now
			return nil
		}
		return s.requireRevision(ctx, n, c, at)
	}
	switch version, err := s.revision(c.opts.ResourceVersion); {
	case err != nil:
		return nil // whoever serves it says so
	case version == 0 && n != tenant.System:
		return s.caughtUp(ctx, n)
	case version == 0:
		return nil
	default:
		return s.requireRevision(ctx, n, c, version)
	}
}

// revision returns a resource version as etcd has it. What is too large for that is negative.
func (s *Space) revision(resourceVersion string) (int64, error) {
	version, err := s.Versioner().ParseResourceVersion(resourceVersion)
	return int64(version), err // see above
}

// requireRevision returns an error if a resource version is of the time before the tenant and the namespace of a
// request.
func (s *Space) requireRevision(ctx context.Context, n tenant.Name, c collection, version int64) error {
	oldest, err := s.options.OldestRevision(ctx, s.transport, n, s.namespaceAsked(ctx, c))
	if err != nil {
		return fmt.Errorf("finding out since when resource versions are those of this space: %w", err)
	}
	if version < oldest {
		return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, oldest))
	}
	return nil
}

// namespaceAsked returns the namespace that a request is about: a Namespace itself is, too.
func (s *Space) namespaceAsked(ctx context.Context, c collection) string {
	if c.namespace != "" || s.resource != namespaceResource {
		return c.namespace
	}
	if info, ok := request.RequestInfoFrom(ctx); ok {
		return info.Name
	}
	return ""
}

var namespaceResource = schema.GroupResource{Resource: "namespaces"}

// caughtUp waits until the watch cache, from which any state is taken, has no objects of an earlier tenant any more.
func (s *Space) caughtUp(ctx context.Context, n tenant.Name) error {
	if !s.cached {
		return nil
	}
	oldest, err := s.options.OldestRevision(ctx, s.transport, n, "")
	if err != nil || oldest == 0 {
		return err
	}
	nobody := tenant.CacheKey(s.resourcePrefix, n, "")
	return s.Interface.Get(ctx, nobody, storage.GetOptions{IgnoreNotFound: true, ResourceVersion: strconv.FormatInt(oldest, 10)}, s.newFunc())
}

// atLeastOldest returns the options of a read of one object, which must not be as old as an earlier tenant.
func (s *Space) atLeastOldest(ctx context.Context, n tenant.Name, opts storage.GetOptions) (storage.GetOptions, error) {
	if s.options.OldestRevision == nil || !s.cached || opts.ResourceVersion == "" || !n.IsSpace() {
		return opts, nil
	}
	version, err := s.revision(opts.ResourceVersion)
	if err != nil {
		return opts, nil // whoever serves it says so
	}
	oldest, err := s.options.OldestRevision(ctx, s.transport, n, "")
	if err == nil && version < oldest {
		opts.ResourceVersion = strconv.FormatInt(oldest, 10)
	}
	return opts, err
}

// ended returns an error if a request has ended while it was served. Reads wait until the watch cache knows a resource
// version, whatever becomes of their request: what is then below the name of a tenant, or of a namespace, may be the
// next one's. Clients try again by themselves, and are authorized anew: the namespace may also be one that this server
// has just heard of.
func ended(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); err != nil && !errors.Is(cause, err) {
		return tooLate(cause.Error())
	}
	return err
}

func tooLate(cause string) error { return apierrors.NewTooManyRequests(cause, 1) }

// isAnother reports whether an object that is read is another namespace than the one for which the read was authorized,
// of the same name: a read may wait for a resource version of its time. What changes something is looked at where it is
// stored.
func (s *Space) isAnother(ctx context.Context, obj runtime.Object) bool {
	uid, noted := tenant.RequestFrom(ctx).Namespace()
	info, ok := request.RequestInfoFrom(ctx)
	if !noted || s.resource != namespaceResource || !ok || info.Verb != "get" && info.Verb != "list" {
		return false
	}
	o, err := meta.Accessor(obj)
	return err != nil || o.GetUID() != "" && o.GetUID() != uid
}

// withoutAnother takes the namespaces out of a list that are others than the one for which it was authorized, as ofOne
// does for watches.
func (s *Space) withoutAnother(ctx context.Context, list runtime.Object) error {
	if _, noted := tenant.RequestFrom(ctx).Namespace(); !noted || s.resource != namespaceResource {
		return nil
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	return meta.SetList(list, slices.DeleteFunc(items, func(o runtime.Object) bool { return s.isAnother(ctx, o) }))
}
