package cachememory

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
)

// copyBytes is what reads a copy: an informer with its goroutines (informerBytes), which is there whether it may read
// or not, and a watch in the same process. Both are chosen.
const copyBytes, informerBytes = 128 << 10, 32 << 10

// Copy is what the server has for a space beside its watch caches, because the space has asked for it: the parameters
// of its policies, and the converters of types that mutating ones need. What is read anew is there beside what it
// replaces, until all has been read. Nil is one without a budget.
type Copy struct {
	budget *Budget
	of     tenant.Name
	// The lock of the budget guards what follows. held is what there is, and read what is read anew, nil if nothing is.
	held, read *copied
	reader     int64 // what reads it
	forgotten  bool
}

// copied is what objects take, and their sum.
type copied struct {
	objects map[types.NamespacedName]int64
	bytes   int64
}

func newCopied() *copied { return &copied{objects: map[types.NamespacedName]int64{}} }

// NewCopy returns a copy of objects of a space, of which it has none yet, nil without a budget.
func (m *Budget) NewCopy(of tenant.Name) *Copy {
	if m == nil || !of.IsSpace() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addSharedLocked(of, informerBytes)
	return &Copy{budget: m, of: of, held: newCopied(), reader: informerBytes}
}

// Begin notes that all is read anew, instead of what was read since the last time if that has not been Filled. It
// returns an error, as Set does, if there is no room for what reads it.
func (c *Copy) Begin() error {
	if c == nil {
		return nil
	}
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.dropReadLocked()
	if more := copyBytes - c.reader; more > 0 && !c.forgotten {
		if err := c.budget.checkWithoutHeadroomLocked(c.of, more); err != nil {
			return err
		}
		c.reader += more
		c.budget.addSharedLocked(c.of, more)
	}
	c.read = newCopied()
	return nil
}

// Set notes that an object takes so much in what is read anew or, if nothing is, in the copy; none if it has been
// deleted. It returns an error that names the rule and the way out if the space may not have so much more.
func (c *Copy) Set(object types.NamespacedName, bytes int) error {
	if c == nil {
		return nil
	}
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	in := cmp.Or(c.read, c.held)
	more := int64(bytes) - in.objects[object]
	if err := c.checkMoreLocked(more); err != nil {
		c.dropReadLocked()
		return err
	}
	in.objects[object] = int64(bytes)
	if bytes == 0 {
		delete(in.objects, object)
	}
	c.addLocked(in, more)
	return nil
}

// Filled notes that all has been read, and has taken the place of what there was.
func (c *Copy) Filled() {
	if c == nil {
		return
	}
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if c.read != nil {
		c.addLocked(c.held, -c.held.bytes)
		c.held, c.read = c.read, nil
	}
}

// Forget notes that there is no copy any more.
func (c *Copy) Forget() {
	if c == nil {
		return
	}
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if !c.forgotten {
		c.dropReadLocked()
		c.addLocked(c.held, -c.held.bytes)
		c.budget.addSharedLocked(c.of, -c.reader)
		c.forgotten = true
	}
}

// dropReadLocked notes that what was read anew is there no more.
func (c *Copy) dropReadLocked() {
	if c.read != nil {
		c.addLocked(c.read, -c.read.bytes)
		c.read = nil
	}
}

func (c *Copy) addLocked(to *copied, bytes int64) {
	if !c.forgotten {
		to.bytes += bytes
		c.budget.addSharedLocked(c.of, bytes)
	}
}

// checkMoreLocked returns an error if the copy may not have so much more. What is there grows by what may be written,
// and what is read anew takes the place of what is there: for both the space, and all, may have their slack,
// as caches may.
func (c *Copy) checkMoreLocked(more int64) error {
	m := c.budget
	switch within := m.bytes[c.of]+more <= withSlack(m.most) && (m.total == 0 || m.takeAllLocked()+more <= withSlack(m.total)); {
	case c.read != nil && c.held.bytes == 0 || !within:
		return m.checkWithoutHeadroomLocked(c.of, more)
	case c.read == nil || c.read.bytes+more <= c.held.bytes:
		return nil
	default:
		_, err := m.checkMoreLocked(c.of, more-c.held.bytes)
		return err
	}
}
