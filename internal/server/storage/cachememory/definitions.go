package cachememory

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tenantry/tenantry/internal/tenant"
)

// definitionCaches are the caches of a definition, one for each version. If it is one tenant's,
// each counts as the fullest of them: those of other versions are empty while a conversion
// webhook fails, and fill when it does not. The lock of the budget guards all.
type definitionCaches struct {
	budget *Budget
	id     tenant.CacheID
	all    map[*Cache]struct{}
	// fullest is what the fullest has, and total how many bytes all count as.
	fullest cacheFill
	total   int64
	// before is what the fullest had when the last cache ended that was complete: it holds until
	// another one is. Upstream makes caches anew when a definition changes, with the next request.
	before  cacheFill
	pending pendingWrites
}

// cacheFill is how much a cache has.
type cacheFill struct {
	bytes   int64
	objects int
}

// isCompleteLocked reports whether a cache has all that there is.
func (d *definitionCaches) isCompleteLocked() bool {
	for c := range d.all {
		if c.complete {
			return true
		}
	}
	return false
}

// recountLocked counts the caches of a definition of one tenant.
func (d *definitionCaches) recountLocked() {
	d.fullest = cacheFill{}
	for c := range d.all {
		if bytes := max(c.bytes, c.decoded); bytes > d.fullest.bytes {
			d.fullest = cacheFill{bytes, len(c.held)}
		}
	}
	if d.isCompleteLocked() {
		d.before = cacheFill{}
	}
	d.fullest = cacheFill{max(d.fullest.bytes, d.before.bytes), max(d.fullest.objects, d.before.objects)}
	n, one := d.id.Of.Space()
	if !one {
		return
	}
	total := (d.fullest.bytes + d.pending.reserved) * int64(len(d.all))
	d.budget.addLocked(n, total-d.total)
	d.total = total
}

// lastingLocked returns what the custom resources of the space of n take in all caches of its own, of this definition
// when it has one cache of each version again. Its definitions are in memory whether these are or not.
func (d *definitionCaches) lastingLocked(n tenant.Name) int64 {
	versions := map[string]bool{}
	for c := range d.all {
		versions[c.version] = true
	}
	return d.budget.bytes[n] - d.budget.shared[n] - d.total + (d.fullest.bytes+d.pending.reserved)*int64(len(versions))
}

// mayFillLocked returns an error if a cache of one tenant is not to be filled further.
func (d *definitionCaches) mayFillLocked() error {
	n, _ := d.id.Of.Space()
	m, takes := d.budget, d.lastingLocked(n)
	switch {
	case takes > withSlack(m.most):
		return fmt.Errorf("the custom resources of tenant %q take more than %d bytes of the server's memory, and a quarter more, in all versions of their definitions: "+
			"these are not in the watch cache until some have been deleted", n, m.most)
	case m.total > 0 && m.all > withSlack(m.total) && takes > m.total/fillShare:
		return fmt.Errorf("the custom resources of all tenants take more than %d bytes of the server's memory, and a quarter more; those of tenant %q, which take %d, "+
			"are not in the watch cache until some have been deleted", m.total, n, takes)
	default:
		return nil
	}
}

// countLocked returns how many there are.
func (d *definitionCaches) countLocked() int64 {
	if d == nil {
		return 0
	}
	return int64(len(d.all))
}

// leastMap is what an element of a list, or value of a map, that is a map takes at least.
const leastMap = 64

// DefinitionChange is what a change of a definition means for the memory of its objects.
type DefinitionChange struct {
	// Before is how many versions it had, and Versions how many it has.
	Before, Versions int
	// Object and Element are how many bytes new defaults take for each object, and for each map in one.
	Object, Element int64
}

// grows reports whether objects may take more memory by a change.
func (c DefinitionChange) grows() bool { return c.Versions > c.Before || c.Object+c.Element > 0 }

// CheckDefinitionChange returns an error if a space may not change a definition of its own because of the objects that
// there are, of which stored says how many are in etcd, and what they take, if caches do not know. It need read no more
// than most. The error is one to try again after if caches from before an earlier change are still there.
func (m *Budget) CheckDefinitionChange(definition tenant.CacheID, change DefinitionChange, stored func(most int64) (objects int, bytes int64, err error)) error {
	if m == nil {
		return nil
	}
	known, err := m.checkCachedChange(definition, change)
	if known || !change.grows() {
		return err
	}
	// Nobody has asked this server for the objects since it started, or a conversion webhook fails.
	objects, bytes, err := stored(m.most)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.checkChangeLocked(definition, change, objects, bytes, 0)
}

// checkCachedChange is CheckDefinitionChange for what is in caches, and reports whether that is all.
func (m *Budget) checkCachedChange(definition tenant.CacheID, change DefinitionChange) (known bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.definitions[definition]
	if d == nil || !d.isCompleteLocked() && d.before.bytes == 0 {
		return false, nil
	}
	if len(d.all) > change.Before && d.total > m.most/objectShare {
		return true, apierrors.NewTooManyRequests("requests to what the definition was before its last change have not ended, and its objects take much memory; try again", 1)
	}
	return true, m.checkChangeLocked(definition, change, d.fullest.objects, d.fullest.bytes+d.pending.reserved, d.total)
}

// checkChangeLocked is CheckDefinitionChange for so many objects that take so much in a cache, and take so much in all
// caches now.
func (m *Budget) checkChangeLocked(definition tenant.CacheID, change DefinitionChange, objects int, bytes, now int64) error {
	n, _ := definition.Of.Space()
	each := bytes + int64(objects)*change.Object + bytes/leastMap*change.Element
	return m.checkWithoutHeadroomLocked(n, each*int64(change.Versions)-now)
}
