package cachememory

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
)

// copyBytes is what reads a copy: an informer with its goroutines, and a watch in the same process.
const copyBytes = 128 << 10

// Copy is what the server has of objects of a space beside its watch caches, because the space has asked for it: the
// parameters of policies. Nil is one without a budget.
type Copy struct {
	budget *Budget
	of     tenant.Name
	// The lock of the budget guards what follows. held are the bytes of each object, and bytes the sum.
	held      map[types.NamespacedName]int64
	bytes     int64
	forgotten bool
}

// NewCopy returns a copy of objects of a space, of which it has none yet, nil without a budget.
func (m *Budget) NewCopy(of tenant.Name) *Copy {
	if m == nil || !of.IsSpace() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addSharedLocked(of, copyBytes)
	return &Copy{budget: m, of: of, held: map[types.NamespacedName]int64{}}
}

// Empty notes that the copy is read anew.
func (c *Copy) Empty() {
	if c == nil {
		return
	}
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.emptyLocked()
}

// Set notes that an object takes so much in the copy, none if it has been deleted. It returns an error that names the
// rule and the way out if the space may not have so much more.
func (c *Copy) Set(object types.NamespacedName, bytes int) error {
	if c == nil {
		return nil
	}
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	more := int64(bytes) - c.held[object]
	if err := c.budget.checkWithoutHeadroomLocked(c.of, more); err != nil {
		return err
	}
	c.addLocked(more)
	if c.held[object] = int64(bytes); bytes == 0 {
		delete(c.held, object)
	}
	return nil
}

// Forget notes that there is no copy any more.
func (c *Copy) Forget() {
	if c == nil {
		return
	}
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if !c.forgotten {
		c.emptyLocked()
		c.budget.addSharedLocked(c.of, -copyBytes)
		c.forgotten = true
	}
}

func (c *Copy) emptyLocked() {
	c.addLocked(-c.bytes)
	clear(c.held)
}

func (c *Copy) addLocked(bytes int64) {
	if !c.forgotten {
		c.bytes += bytes
		c.budget.addSharedLocked(c.of, bytes)
	}
}
