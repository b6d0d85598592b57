package cachememory

import "slices"

// pendingWrites are those that no cache of a definition is known to have. Caches are behind, or
// stand, as long as a conversion webhook takes its time or fails.
type pendingWrites struct {
	// reserved is what they take, and those under way.
	reserved int64
	written  []pendingWrite
	// reached is the last version that a cache has got.
	reached uint64
}

type pendingWrite struct {
	version uint64
	bytes   int64
}

// maxPending is how many writes of a definition are told apart that no cache has: later ones are one.
const maxPending = 256

// wrote notes the version of a write for which something is reserved.
func (p *pendingWrites) wrote(version uint64, bytes int64) {
	switch last := len(p.written) - 1; {
	case version <= p.reached:
		p.reserved -= bytes
	case last+1 == maxPending:
		p.written[last] = pendingWrite{max(p.written[last].version, version), p.written[last].bytes + bytes}
	default:
		p.written = append(p.written, pendingWrite{version, bytes})
	}
}

// reach notes that a cache has got all up to a version.
func (p *pendingWrites) reach(version uint64) {
	p.reached = max(p.reached, version)
	p.written = slices.DeleteFunc(p.written, func(w pendingWrite) bool {
		if w.version > p.reached {
			return false
		}
		p.reserved -= w.bytes
		return true
	})
}
