package cachememory

import "github.com/tenantry/tenantry/internal/tenant"

// SetStored notes how many bytes the objects of a space take in etcd. They take up to ordinary times as many in memory,
// which counts in what all may have. What a space has got beyond its share is its headroom, but not what it had when
// the server heard of it first.
func (m *Budget) SetStored(n tenant.Name, bytes int64) {
	if m == nil || !n.IsSpace() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before, known := m.stored[n]
	if more := ordinary * (bytes - before); more < 0 || known && m.total > 0 && m.isBeyondShareLocked(n, more) {
		m.useHeadroomLocked(n, more)
	}
	m.allStored += bytes - before
	if m.stored[n] = bytes; bytes == 0 {
		delete(m.stored, n)
	}
}

// MayStore returns an error that names the rule and the way out if a space, whose objects take so many bytes in etcd,
// may not store so many more because of what all have in memory.
func (m *Budget) MayStore(n tenant.Name, stored, more int64) error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.checkSharedLocked(n, ordinary*(max(0, stored-m.stored[n])+more)) // the headroom is noted when it is stored
	return err
}
