package connect

import (
	"cmp"
	"sync"

	"github.com/tenantry/tenantry/internal/tenant"
)

// streams count the connections of each tenant that has some.
type streams struct {
	most int

	mu   sync.Mutex
	open map[tenant.Name]int
}

func newStreams(most int) *streams {
	return &streams{most: cmp.Or(most, DefaultStreams), open: map[tenant.Name]int{}}
}

// begin counts a connection, and reports whether the tenant may have one more.
func (s *streams) begin(n tenant.Name) (end func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[n] >= s.most {
		return nil, false
	}
	s.open[n]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[n]--; s.open[n] == 0 {
			delete(s.open, n)
		}
	}, true
}
