package usage

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/internal/server/metrics"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// rotation is how often tenants are given series of their own, at most.
	rotation = time.Minute
	// candidates is how many tenants are considered for each that has series.
	candidates = 16

	// nobody stands for requests without a tenant. No tenant can be called so.
	nobody = "_none"
)

// Meter counts requests by tenant.
type Meter struct {
	limit  int
	exists func(n tenant.Name) bool
	clock  clock.PassiveClock

	mu       sync.RWMutex
	own      map[tenant.Name]*account
	recent   map[tenant.Name]*atomic.Int64 // requests of late, halved at each rotation
	together *account
	none     *account
	left     []*account // those that gave up their series with requests in flight
	rotated  time.Time
}

// NewMeter returns a meter that gives limit tenants series of their own. Those that do not
// exist have none, though there may be credentials of them.
func NewMeter(limit int, exists func(n tenant.Name) bool, c clock.PassiveClock) *Meter {
	return &Meter{
		limit: limit, exists: exists, clock: c, rotated: c.Now(),
		own: make(map[tenant.Name]*account), recent: make(map[tenant.Name]*atomic.Int64),
		together: &account{}, none: &account{},
	}
}

// served is the meter whose metrics the process shows.
var served metrics.Replaceable

// Serve shows the metrics of m with those of the process.
func (m *Meter) Serve() { served.Show(m.collector()) }

// account returns where requests of n are counted now.
func (m *Meter) account(n tenant.Name) *account {
	if n == "" {
		return m.none
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if own := m.own[n]; own != nil {
		return own
	}
	return m.together
}

// note notes a request of n, which may earn n series of its own.
func (m *Meter) note(n tenant.Name) {
	if n == "" {
		return
	}
	m.mu.RLock()
	recent, known := m.recent[n]
	m.mu.RUnlock()
	if !known && !m.isGone(n) {
		recent = m.consider(n)
	}
	if recent != nil {
		recent.Add(1)
	}
}

// consider begins to count what n asks of late, if there is room.
func (m *Meter) consider(n tenant.Name) *atomic.Int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if recent, ok := m.recent[n]; ok {
		return recent
	}
	if len(m.recent) >= candidates*m.limit {
		return nil
	}
	recent := &atomic.Int64{}
	m.recent[n] = recent
	if len(m.own) < m.limit {
		m.own[n] = &account{}
	}
	return recent
}

func (m *Meter) isGone(n tenant.Name) bool { return n.IsSpace() && !m.exists(n) }

// removeGone ends the series of tenants that are gone.
func (m *Meter) removeGone() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, account := range m.own {
		if m.isGone(n) {
			delete(m.own, n)
			delete(m.recent, n)
			m.left = append(m.left, account)
		}
	}
}

// rotate gives series to the tenants with the most requests of late. It is called
// when metrics are read, so that nothing runs where nobody reads them.
func (m *Meter) rotate() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	if now.Sub(m.rotated) < rotation {
		return
	}
	m.rotated = now
	type candidate struct {
		name   tenant.Name
		weight int64
	}
	var ranked []candidate
	for n, recent := range m.recent {
		count := recent.Load()
		recent.Store(count / 2)
		weight := 2 * count
		if m.own[n] != nil {
			weight = 3 * count // series do not change hands for little
		}
		if count == 0 && m.own[n] == nil {
			delete(m.recent, n)
			continue
		}
		ranked = append(ranked, candidate{n, weight})
	}
	slices.SortFunc(ranked, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.name, b.name))
	})
	for _, c := range ranked[min(m.limit, len(ranked)):] {
		if account := m.own[c.name]; account != nil {
			delete(m.own, c.name)
			m.left = append(m.left, account)
		}
	}
	for _, c := range ranked[:min(m.limit, len(ranked))] {
		if m.own[c.name] == nil {
			m.own[c.name] = &account{}
		}
	}
	m.left = slices.DeleteFunc(m.left, func(a *account) bool { return a.open[short].Load()+a.open[endless].Load() == 0 })
}
