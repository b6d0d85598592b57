package user

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/registry/follow"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Index knows the Users of all spaces that are not being deleted.
type Index struct {
	mu sync.RWMutex
	// users have more than one element only if several servers have each stored a User of
	// one name in the same moment.
	users map[key][]entry
	// read is closed when all have been read.
	read chan struct{}
}

// NewIndex returns an empty index.
func NewIndex() *Index { return &Index{users: map[key][]entry{}, read: make(chan struct{})} }

// key is a name that authentication gives, in a tenant.
type key struct {
	tenant   tenant.Name
	username string
}

// entry is a User.
type entry struct {
	name    string
	uid     types.UID
	created int64
}

var _ follow.Index[*v1alpha1.User] = &Index{}

func keyOf(u *v1alpha1.User) key {
	return key{tenant.Name(u.Annotations[tenant.Annotation]), u.Spec.Username}
}

// Set implements follow.Index.
func (i *Index) Set(u *v1alpha1.User) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.set(u)
}

func (i *Index) set(u *v1alpha1.User) {
	i.remove(u)
	if u.DeletionTimestamp != nil {
		return
	}
	all := append(slices.Clone(i.users[keyOf(u)]), entry{u.Name, u.UID, u.CreationTimestamp.Unix()})
	slices.SortFunc(all, func(a, b entry) int { return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.uid, b.uid)) })
	i.users[keyOf(u)] = all
}

func (i *Index) remove(u *v1alpha1.User) {
	left := slices.DeleteFunc(slices.Clone(i.users[keyOf(u)]), func(e entry) bool { return e.uid == u.UID })
	if len(left) == 0 {
		delete(i.users, keyOf(u))
		return
	}
	i.users[keyOf(u)] = left
}

// Delete implements follow.Index.
func (i *Index) Delete(u *v1alpha1.User) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.remove(u)
}

// Replace implements follow.Index.
func (i *Index) Replace(all []*v1alpha1.User) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.users = make(map[key][]entry, len(all))
	for _, u := range all {
		i.set(u)
	}
	select {
	case <-i.read:
	default:
		close(i.read)
	}
}

// await waits until all Users have been read, after the start of the server.
func (i *Index) await(ctx context.Context) error {
	select {
	case <-i.read:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// find returns the oldest User with a name in a tenant, and false if there is none.
func (i *Index) find(n tenant.Name, username string) (entry, bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	all := i.users[key{n, username}]
	if len(all) == 0 {
		return entry{}, false
	}
	return all[0], true
}
