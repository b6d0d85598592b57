package cachememory

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Budget bounds what memory the objects of a space take in watch caches, where stored bytes do not bound it. A map of 7
// bytes in a custom resource takes 350 there, each version of a definition has a cache of its own, and conversion
// webhooks make objects larger: custom resources all count. Of others, what is dense does, as an empty rule of a
// NetworkPolicy is: 2 bytes that take 48.
type Budget struct {
	// most is the bound of a space, and total that of all together, zero for none.
	most, total int64

	// mu guards what follows, and all of the caches of definitions.
	mu sync.Mutex
	// bytes are what the objects of spaces take in all caches, and all the sum of these.
	bytes map[tenant.Name]int64
	all   int64
	// shared is what of these is in caches that all spaces share, definitions, policies and what is dense, and copies.
	shared map[tenant.Name]int64
	// stored are what the objects of spaces take in etcd, and allStored the sum.
	stored    map[tenant.Name]int64
	allStored int64
	// headroom is what spaces have got when nothing was left of what all may have.
	headroom map[tenant.Name]int64
	// lists are what lists have decoded whose requests have not ended, and allLists the sum.
	lists    map[tenant.Name]int64
	allLists int64
	// definitions have the caches of each.
	definitions map[tenant.CacheID]*definitionCaches
}

// New returns a budget of so many bytes for each space, and of all together, nil without both. Zero is no bound but the
// other.
func New(most, total int64) *Budget {
	if most == 0 && total == 0 {
		return nil
	}
	return &Budget{
		most: cmp.Or(most, total), total: total, bytes: map[tenant.Name]int64{}, shared: map[tenant.Name]int64{}, stored: map[tenant.Name]int64{},
		headroom: map[tenant.Name]int64{}, lists: map[tenant.Name]int64{}, definitions: map[tenant.CacheID]*definitionCaches{},
	}
}

const (
	// headroomShare is which part of what all may have each may have more than it has, also when nothing is left: its
	// controllers are to go on.
	headroomShare = 64
	// fillShare is which part of that a space has whose caches are not filled when all have more than they may, with
	// slack.
	fillShare = 16
)

// withSlack returns how much there may be where so much may be written: a quarter more, because of what webhooks make
// of objects after they were written, and of what is read anew.
func withSlack(most int64) int64 { return most + most/4 }

// checkMoreLocked returns an error that names the rule and the way out if a space may not have so much more, and
// otherwise how much of that is headroom.
//
// A space may have as much as is left with it, at most its own bound. So of two that want whatever they get each has a
// third, and a third is left for those who come. Switches share their buffers so (Choudhury and Hahne, "Dynamic Queue
// Length Thresholds", 1998). Whoever has less than others when little is left has some headroom, and gets it again with
// what it deletes.
func (m *Budget) checkMoreLocked(n tenant.Name, more int64) (headroom int64, err error) {
	if now := m.bytes[n]; now+more > m.most {
		return 0, fmt.Errorf("the definitions and policies of the space, what policies read, its custom resources in all versions, and its objects of empty entries take %d bytes of the server's memory, "+
			"and would take %d more: %d are allowed; delete some, or leave out versions that nobody uses", now, more, m.most)
	}
	return m.checkSharedLocked(n, more)
}

// checkWithoutHeadroomLocked is checkMoreLocked for what is no object: headroom is for these, and taken when they are
// written.
func (m *Budget) checkWithoutHeadroomLocked(n tenant.Name, more int64) error {
	if more <= 0 {
		return nil
	}
	headroom, err := m.checkMoreLocked(n, more)
	if headroom > 0 {
		return m.errSharedLocked(n, more)
	}
	return err
}

// checkSharedLocked is checkMoreLocked for what all may have.
func (m *Budget) checkSharedLocked(n tenant.Name, more int64) (headroom int64, err error) {
	switch {
	case m.total == 0 || !m.isBeyondShareLocked(n, more):
		return 0, nil
	case m.headroom[n]+more <= m.total/headroomShare:
		return more, nil
	default:
		return 0, m.errSharedLocked(n, more)
	}
}

// isBeyondShareLocked reports whether a space would have more than its share of what all may have, with so much more.
func (m *Budget) isBeyondShareLocked(n tenant.Name, more int64) bool {
	return m.takesLocked(n)+more > m.total-(m.takeAllLocked()+more)
}

// takesLocked returns what the objects of a space take in memory, and takeAllLocked those of all.
func (m *Budget) takesLocked(n tenant.Name) int64 { return m.bytes[n] + ordinary*m.stored[n] }

func (m *Budget) takeAllLocked() int64 { return m.all + ordinary*m.allStored }

// errSharedLocked is the error of a space that may not have so much more because of what others have.
func (m *Budget) errSharedLocked(n tenant.Name, more int64) error {
	return fmt.Errorf("the objects of the space take about %d bytes of the server's memory, and would take %d more, "+
		"of which all spaces together have used most; delete some, or ask the platform for more (--tenant-cache-total-bytes)", m.takesLocked(n), more)
}

// useHeadroomLocked notes that a space has got so much headroom, or gives it back. An object that shrinks gives
// back headroom, also one that has got none: who frees memory may have as much again.
func (m *Budget) useHeadroomLocked(n tenant.Name, bytes int64) {
	if m.headroom[n] = max(0, m.headroom[n]+bytes); m.headroom[n] == 0 {
		delete(m.headroom, n)
	}
}

// addSharedLocked adds what is in caches that all spaces share, or beside them.
func (m *Budget) addSharedLocked(n tenant.Name, bytes int64) {
	m.addLocked(n, bytes)
	if m.shared[n] += bytes; m.shared[n] == 0 {
		delete(m.shared, n)
	}
}

func (m *Budget) addLocked(n tenant.Name, bytes int64) {
	m.all += bytes
	if m.bytes[n] += bytes; m.bytes[n] == 0 {
		delete(m.bytes, n)
	}
}

// Exceeded reports whether the objects of a space take more than they may, with slack.
func (m *Budget) Exceeded(n tenant.Name) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes[n] > withSlack(m.most)
}

// mayUpdateStatus reports whether objects of a full space may say how they are: up to an eighth more than it may have,
// and while there is some left for others.
func (m *Budget) mayUpdateStatus(n tenant.Name) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes[n] <= m.most+m.most/8 && (m.total == 0 || m.takeAllLocked() <= m.total-m.total/fillShare)
}
