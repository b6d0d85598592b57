package storage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	grpcmetadata "google.golang.org/grpc/metadata"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Stream tells of every change of every object of all spaces, in the order of etcd's revisions, by
// one watch. It stands below the watch caches: those of custom resources are made when
// somebody asks for the resource, and each cache has a progress of its own. Writers do not wait for it.
type Stream struct {
	ranges *Ranges
	client *clientv3.Client
	// root is the prefix of all keys.
	root string
	// decode decodes an object as it is stored.
	decode func(data []byte, custom bool) (runtime.Object, error)
}

// StoredChange is a change of one object.
type StoredChange struct {
	// Key is that of the object in etcd, and Revision when it changed.
	Key      string
	Revision int64
	// Resource is that of its storage, and Custom whether somebody defines it.
	Resource schema.GroupResource
	Custom   bool
	// Object is which one it is by its key. It is not known of custom resources, whose keys do not say it.
	Object ObjectKey
	// Deleted is whether the object has gone.
	Deleted bool

	stored []byte
	at     *etcdRange
	// dropped is whether the object is to be read again.
	dropped bool
}

// ObjectKey says which object of a resource something is.
type ObjectKey struct {
	Space           tenant.Name
	Namespace, Name string
}

// Bytes returns how much memory the object of the change takes.
func (c *StoredChange) Bytes() int { return len(c.stored) }

// Drop lets the object go. Stream.Read reads it again.
func (c *StoredChange) Drop() { c.stored, c.dropped = nil, true }

// IsDropped reports whether the object has to be read again.
func (c *StoredChange) IsDropped() bool { return c.dropped }

// Space returns the space of the object by its key, and whether it is sure: a custom resource without a namespace in a
// tenant's space and one in a namespace of the system space have keys of one form. For these it is the tenant's.
func (c *StoredChange) Space() (n tenant.Name, sure bool) {
	if !c.Custom {
		return c.Object.Space, true
	}
	first, rest, below := strings.Cut(c.Key[len(c.at.prefix):], "/")
	if !below {
		return tenant.System, true
	}
	return tenant.Name(first), strings.Contains(rest, "/")
}

// Follower is told of changes by one goroutine.
type Follower interface {
	// Changed is told what there is and then of each change.
	Changed(ctx context.Context, changes []StoredChange) error
	// Listed is told, once, that it knows what there was at a revision, and is told next of all changes since another one.
	Listed(revision, since int64)
	// Reached is told that it knows of all changes up to a revision.
	Reached(revision int64)
}

// errSeveral says why there is no stream.
var errSeveral = errors.New("resources are stored in several etcds, whose revisions have nothing to do with each other (--etcd-servers-overrides)")

// NewStream returns the stream of all resources that r knows. decode decodes objects in
// the version in which they are stored. There is none if they are stored in several etcds.
func (r *Ranges) NewStream(decode func(data []byte, custom bool) (runtime.Object, error)) (*Stream, error) {
	known := r.snapshot()
	if len(known) == 0 {
		return nil, errors.New("nothing is stored yet")
	}
	for _, stored := range known {
		if !slices.Equal(stored.transport.ServerList, known[0].transport.ServerList) {
			return nil, errSeveral
		}
	}
	client, err := r.Client(known[0].transport)
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	options, err := r.Custom.GetRESTOptions(definitions, nil)
	if err != nil {
		return nil, err
	}
	return &Stream{ranges: r, client: client, decode: decode, root: fullPrefix(options.StorageConfig.Prefix, "/")}, nil
}

// errEnded is that of a watch which does not say why.
var errEnded = errors.New("the watch of what is stored has ended")

// ErrCompacted means that etcd has forgotten changes since the revision from which they are wanted.
var ErrCompacted = rpctypes.ErrCompacted

// Follow tells f of what there is, and of all changes from then on, until ctx ends or an error.
// f starts with nothing each time.
func (s *Stream) Follow(ctx context.Context, f Follower) error {
	ctx = ofStream(ctx)
	revision, err := s.list(ctx, f)
	if err != nil {
		return fmt.Errorf("reading what is stored: %w", err)
	}
	f.Listed(revision, revision)
	return s.watch(ctx, f, revision)
}

// Resume tells f of what there is of some built-in resources, and of all changes of all resources since a revision, or
// since then if that is zero. Its error is ErrCompacted if nobody can say that.
func (s *Stream) Resume(ctx context.Context, f Follower, since int64, wanted func(resource schema.GroupResource) bool) error {
	ctx = ofStream(ctx)
	var revision int64
	for _, stored := range s.ranges.snapshot() {
		if stored.custom || !wanted(stored.resource) {
			continue
		}
		var err error
		if revision, err = s.listBelow(ctx, f, stored.prefix, revision); err != nil {
			return fmt.Errorf("reading what is stored: %w", err)
		}
	}
	since = cmp.Or(since, revision)
	f.Listed(revision, since)
	return s.watch(ctx, f, since)
}

// watch tells f of all changes since a revision.
func (s *Stream) watch(ctx context.Context, f Follower, since int64) error {
	f.Reached(since)
	for response := range s.client.Watch(ctx, s.root, clientv3.WithPrefix(), clientv3.WithRev(since+1), clientv3.WithProgressNotify()) {
		if err := response.Err(); err != nil {
			return fmt.Errorf("watching what is stored: %w", err)
		}
		changes := make([]StoredChange, 0, len(response.Events))
		// Without changes, nothing was left out. With some, the header has the revision of etcd, and more may follow: a
		// watch that is behind gets a thousand revisions at a time. Those of one revision come together.
		reached := response.Header.Revision
		for _, event := range response.Events {
			reached = event.Kv.ModRevision
			change, ok, err := s.change(string(event.Kv.Key), event.Kv.Value, event.Kv.ModRevision)
			if err != nil {
				return err
			}
			if ok {
				change.Deleted = event.Type == clientv3.EventTypeDelete
				changes = append(changes, change)
			}
		}
		if err := f.Changed(ctx, changes); err != nil {
			return err
		}
		f.Reached(reached)
	}
	return cmp.Or(ctx.Err(), errEnded)
}

// list tells f of everything there is at one revision, which it returns: of definitions first, because they say
// how their objects are read, and of these once more in their place.
func (s *Stream) list(ctx context.Context, f Follower) (int64, error) {
	var revision int64
	var err error
	for _, prefix := range []string{s.root + definitions.Group + "/" + definitions.Resource + "/", s.root} {
		if revision, err = s.listBelow(ctx, f, prefix, revision); err != nil {
			return 0, err
		}
	}
	return revision, nil
}

// listBelow tells f of what is below a prefix at a revision, or now if that is zero, and returns it.
func (s *Stream) listBelow(ctx context.Context, f Follower, prefix string, revision int64) (int64, error) {
	from, end, limit := prefix, clientv3.GetPrefixRangeEnd(prefix), int64(smallPage)
	for {
		page, err := s.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(limit), clientv3.WithRev(revision))
		if err != nil {
			return 0, err
		}
		if revision == 0 {
			revision = page.Header.Revision
		}
		changes, bytes := make([]StoredChange, 0, len(page.Kvs)), 1
		for _, kv := range page.Kvs {
			bytes += len(kv.Value)
			change, ok, err := s.change(string(kv.Key), kv.Value, kv.ModRevision)
			if err != nil {
				return 0, err
			}
			if ok {
				changes = append(changes, change)
			}
		}
		if err := f.Changed(ctx, changes); err != nil {
			return 0, err
		}
		if !page.More || len(page.Kvs) == 0 {
			return revision, nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		limit = min(pageSize, max(1, int64(pageBytes*len(page.Kvs)/bytes)))
	}
}

// ofStream gives the watch a connection of its own: etcd answers a request for progress when
// all watches of a connection have caught up.
func ofStream(ctx context.Context) context.Context {
	return grpcmetadata.AppendToOutgoingContext(clientv3.WithRequireLeader(ctx), "tenantry-stream", "changes")
}

// Cluster tells the etcd, and the prefix in it, from others.
func (s *Stream) Cluster(ctx context.Context) (string, error) {
	response, err := s.client.Get(ctx, s.root, clientv3.WithCountOnly())
	if err != nil {
		return "", fmt.Errorf("asking which etcd it is: %w", err)
	}
	return fmt.Sprintf("%x%s", response.Header.ClusterId, s.root), nil
}

// Revision returns the revision of etcd now: everything that was written before the call is in
// it. It has the follower told of that revision, even if nothing happens any more.
func (s *Stream) Revision(ctx context.Context) (int64, error) {
	response, err := s.client.Get(ctx, s.root, clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("asking etcd for its revision: %w", err)
	}
	if err := s.client.RequestProgress(ofStream(ctx)); err != nil {
		return 0, fmt.Errorf("asking etcd for the progress of the watch: %w", err)
	}
	return response.Header.Revision, nil
}

// Sum tells what is stored from everything else, empty if the object has gone or was let go.
func (c *StoredChange) Sum() string {
	if c.Deleted || c.dropped {
		return ""
	}
	sum := sha256.Sum256(c.stored)
	return hex.EncodeToString(sum[:])
}

// Had reports whether a change was what etcd has had at its revision. Otherwise etcd was restored, or it is another
// one. It is false, too, if etcd has forgotten that.
func (s *Stream) Had(ctx context.Context, key string, revision int64, sum string) (bool, error) {
	response, err := s.client.Get(ctx, key, clientv3.WithRev(revision))
	switch {
	case errors.Is(err, rpctypes.ErrCompacted), errors.Is(err, rpctypes.ErrFutureRev):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("asking etcd for %q at revision %d: %w", key, revision, err)
	case len(response.Kvs) == 0 || response.Kvs[0].ModRevision != revision:
		return false, nil
	}
	return (&StoredChange{stored: response.Kvs[0].Value}).Sum() == sum, nil
}

// At returns a change of the object at a key, which has to be read, as of a revision. It is false for what is no
// object.
func (s *Stream) At(key string, revision int64) (StoredChange, bool, error) {
	change, ok, err := s.change(key, nil, revision)
	change.Drop()
	return change, ok, err
}

// Read reads the object of a change as it is now, which may have gone. Nothing of it is newer than the revision that it
// returns.
func (s *Stream) Read(ctx context.Context, c *StoredChange) (int64, error) {
	response, err := s.client.Get(ctx, c.Key)
	if err != nil {
		return 0, fmt.Errorf("reading %q: %w", c.Key, err)
	}
	c.dropped, c.stored, c.Deleted = false, nil, len(response.Kvs) == 0
	if !c.Deleted {
		c.stored, c.Revision = response.Kvs[0].Value, response.Kvs[0].ModRevision
	}
	return response.Header.Revision, nil
}

// change returns the change of a key, and false for what is no object.
func (s *Stream) change(key string, stored []byte, revision int64) (StoredChange, bool, error) {
	at, err := s.ranges.rangeOf(s.root, key)
	if err != nil || at == nil {
		return StoredChange{}, false, err
	}
	change := StoredChange{Key: key, Revision: revision, Resource: at.resource, Custom: at.custom, stored: stored, at: at}
	if !at.custom {
		var ok bool
		if change.Object, ok = objectKeyOf(key[len(at.prefix):], at.namespaced); !ok {
			return StoredChange{}, false, nil
		}
	}
	return change, true, nil
}

// rangeOf returns the range of a key below root, nil if it is of none.
func (r *Ranges) rangeOf(root, key string) (*etcdRange, error) {
	segments := strings.SplitAfterN(strings.TrimPrefix(key, root), "/", 3)
	if len(segments) < 2 {
		return nil, nil // is no object
	}
	if found := r.byPrefix(root, segments); found != nil {
		return found, nil
	}
	// It may be of a definition that this server has not heard of.
	learned, _, err := r.learnKey(root, key)
	if err != nil {
		return nil, fmt.Errorf("finding out what %q is: %w", key, err)
	}
	return learned, nil
}

func (r *Ranges) byPrefix(root string, segments []string) *etcdRange {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(segments) == 3 {
		if i, ok := r.at[root+segments[0]+segments[1]]; ok {
			return r.known[i]
		}
	}
	if i, ok := r.at[root+segments[0]]; ok {
		return r.known[i]
	}
	return nil
}

// objectKeyOf returns which built-in object has a key in etcd, below the prefix of the resource.
func objectKeyOf(key string, namespaced bool) (ObjectKey, bool) {
	segments := strings.Split(key, "/")
	k := ObjectKey{Space: tenant.System}
	own := 1
	if namespaced {
		own = 2
	}
	if len(segments) == own+1 {
		k.Space, segments = tenant.Name(segments[0]), segments[1:]
	}
	if len(segments) != own {
		return k, false
	}
	if namespaced {
		k.Namespace = segments[0]
	}
	k.Name = segments[own-1]
	return k, true
}

// ErrSealed means that what encrypts objects did not decrypt one, such as a key service that does not answer.
var ErrSealed = errors.New("it cannot be decrypted")

// Decode returns the object of a change, and which one it is. Its error says that nobody can read it,
// or that its tenant is not that of its key. It is ErrSealed if it may be read at another time.
func (s *Stream) Decode(ctx context.Context, c *StoredChange) (runtime.Object, ObjectKey, error) {
	data := c.stored
	if c.at.transformer != nil {
		plain, _, err := c.at.transformer.TransformFromStorage(ctx, data, value.DefaultContext(c.Key))
		if err != nil {
			return nil, ObjectKey{}, fmt.Errorf("decoding %q: %w: %w", c.Key, ErrSealed, err)
		}
		data = plain
	}
	obj, err := s.decode(data, c.Custom)
	if err != nil {
		return nil, ObjectKey{}, fmt.Errorf("decoding %q: %w", c.Key, err)
	}
	presentNames(obj)
	owner, err := tenantOf(obj)
	if err != nil {
		return nil, ObjectKey{}, fmt.Errorf("decoding %q: %w", c.Key, err)
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, ObjectKey{}, fmt.Errorf("decoding %q: %w", c.Key, err)
	}
	accessor.SetResourceVersion(strconv.FormatInt(c.Revision, 10))
	k := ObjectKey{owner, accessor.GetNamespace(), accessor.GetName()}
	if !c.Custom { // some have a namespace that is no part of the key
		k.Namespace, k.Name = c.Object.Namespace, c.Object.Name
	}
	if k.key(c.at.prefix) != c.Key {
		return nil, ObjectKey{}, fmt.Errorf("the object at %q says that it is %+v", c.Key, k)
	}
	return obj, k, nil
}

// key returns its key in etcd, below a prefix.
func (k ObjectKey) key(prefix string) string {
	key := prefix
	if k.Space != tenant.System {
		key += string(k.Space) + "/"
	}
	if k.Namespace != "" {
		key += k.Namespace + "/"
	}
	return key + k.Name
}

// Stores reports whether objects of a built-in resource are stored.
func (r *Ranges) Stores(resource schema.GroupResource) bool {
	return slices.ContainsFunc(r.of(resource), func(stored *etcdRange) bool { return !stored.custom })
}
