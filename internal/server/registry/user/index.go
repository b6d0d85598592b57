package user

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/follow"
	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/progress"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Index knows the Users of all spaces.
type Index struct {
	mu sync.RWMutex
	// users have more than one element only if several servers have each stored a User of
	// one name in the same moment.
	users map[key][]Entry
	// ending are the UIDs of those that are being deleted.
	ending map[key]sets.Set[string]
	// ended is until when requests may end that began before a User was gone.
	ended map[key]time.Time
	// swept is when those that have ended long ago were forgotten.
	swept time.Time
	// seen is how far it has followed them; writers wait for it.
	seen progress.Progress
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{users: map[key][]Entry{}, ending: map[key]sets.Set[string]{}, ended: map[key]time.Time{}}
}

// key is a name that authentication gives, in a tenant.
type key struct {
	tenant   tenant.Name
	username string
}

// Entry is a User.
type Entry struct {
	Name    string
	UID     types.UID
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
		keyed.Set(i.ending, keyOf(u), string(u.UID), sets.Empty{})
		return
	}
	all := append(slices.Clone(i.users[keyOf(u)]), Entry{u.Name, u.UID, u.CreationTimestamp.Unix()})
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.UID, b.UID)) })
	i.users[keyOf(u)] = all
}

func (i *Index) remove(u *v1alpha1.User) {
	keyed.Delete(i.ending, keyOf(u), string(u.UID))
	left := slices.DeleteFunc(slices.Clone(i.users[keyOf(u)]), func(e Entry) bool { return e.UID == u.UID })
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
	now := time.Now()
	if now.After(i.swept.Add(longestRequest)) {
		maps.DeleteFunc(i.ended, func(_ key, until time.Time) bool { return now.After(until) })
		i.swept = now
	}
	i.ended[keyOf(u)] = now.Add(longestRequest)
}

// longestRequest is longer than upstream lets a request take that is no watch.
const longestRequest = 2 * time.Minute

// Replace implements follow.Index.
func (i *Index) Replace(all []*v1alpha1.User) {
	i.mu.Lock()
	defer i.mu.Unlock()
	known := slices.AppendSeq(slices.Collect(maps.Keys(i.users)), maps.Keys(i.ending))
	i.users, i.ending = make(map[key][]Entry, len(all)), map[key]sets.Set[string]{}
	for _, u := range all {
		i.set(u)
	}
	for _, k := range known {
		if len(i.users[k])+len(i.ending[k]) == 0 {
			i.ended[k] = time.Now().Add(longestRequest)
		}
	}
}

// HasSynced reports whether all Users have been read, after the start of the server.
func (i *Index) HasSynced() bool { return i.seen.Begun() }

// Find returns the oldest User with a name in a tenant, and false if there is none.
func (i *Index) Find(n tenant.Name, username string) (Entry, bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	all := i.users[key{n, username}]
	if len(all) == 0 {
		return Entry{}, false
	}
	return all[0], true
}

// isEnding reports whether a User with a name is being deleted or, for a request of its user, was a short while ago:
// a webhook may have held the request since before.
func (i *Index) isEnding(n tenant.Name, username string, own bool) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	k := key{n, username}
	return len(i.ending[k]) > 0 || own && len(i.users[k]) == 0 && time.Now().Before(i.ended[k])
}

// Ending returns the UIDs of the Users with a name that are being deleted.
func (i *Index) Ending(n tenant.Name, username string) sets.Set[string] {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if len(i.ending) == 0 {
		return nil
	}
	return i.ending[key{n, username}].Clone()
}
